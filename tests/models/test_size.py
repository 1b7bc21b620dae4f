"""What a context knows without set terms: its surroundings, whatever else is in the graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from strategies import Structure, cycle, make_case, path, randomize
from torch import Tensor

from smpgnn import SMP


def twice(structure: Structure) -> Structure:
    """Two copies side by side, as one graph."""
    n, edges = structure
    return 2 * n, (*edges, *((i + n, j + n) for i, j in edges))


def contexts(model: SMP, structure: Structure) -> list[Tensor]:
    """U⁽¹⁾, …, U⁽ᴸ⁾ as matrices [n, n, C]."""
    case = make_case([structure], 0)
    index = case.index("onehot")
    found = list(model.backbone(None, None, index))[1:]
    n = structure[0]
    return [context.rows.detach().view(n, n, -1) for context in found]


@pytest.mark.parametrize("layer", ["default", "fast"])
@pytest.mark.parametrize("structure", [path(5), cycle(6)], ids=["path", "cycle"])
def test_without_set_terms_the_rest_of_the_graph_does_not_matter(
    structure: Structure, layer: str
) -> None:
    n, options = structure[0], {"norm": "batch", "residual": True}

    def gap(set_terms: bool) -> float:
        more: dict[str, Any] = {**options, "set_terms": set_terms}
        model = randomize(SMP(0, 1, 4, 3, layer, **more)).eval()
        alone, beside = contexts(model, structure), contexts(model, twice(structure))
        return max(float((b[:n, :n] - a).abs().max()) for a, b in zip(alone, beside, strict=True))

    assert gap(set_terms=False) < 1e-12
    assert gap(set_terms=True) > 1e-3


def test_the_largest_terms_do_not_fade_in_larger_graphs() -> None:
    """One cycle beside longer and longer paths: the mean of its marks fades, the maximum stays."""
    torch.manual_seed(0)
    features = {}
    for readout in ("mean", "max"):
        model = randomize(SMP(0, 1, 4, 4, "fast", readout=readout, set_terms=False)).eval()
        extractor = model.extractors[-1]
        for n in (6, 60):
            k, edges = cycle(4)
            size, more = path(n)
            case = make_case([(k + size, (*edges, *((i + k, j + k) for i, j in more)))], 0)
            index = case.index("onehot")
            alone = make_case([path(n + 4)], 0)
            other = alone.index("onehot")
            with_cycle, without = (
                extractor.pool([extractor.values(model.backbone(None, None, i)[-1])], i)
                for i in (index, other)
            )
            features[readout, n] = float((with_cycle - without).detach().abs().max())
    assert features["mean", 60] < 0.5 * features["mean", 6]
    assert features["max", 60] > 0.5 * features["max", 6]
