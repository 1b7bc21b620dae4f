"""Small networks with random weights, and the options under which all are tried."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from strategies import SCHEMES, randomize

from smpgnn import SMP

OPTIONS: list[dict[str, Any]] = [
    {},
    {"layer": "fast"},
    {"level": "node"},
    {"layer": "fast", "level": "node", "norm": "batch"},
    {"norm": "batch", "residual": True},
    {"norm": "batch", "norm_place": "after", "residual": True, "layer": "fast"},
    {"norm": "layer", "norm_place": "after", "edge_channels": 2},
    {"norm": "layer", "shared_extractor": True},
    {"norm": "batch", "features": "context", "edge_channels": 2},
    {"layer": "fast", "level": "node", "features": "context"},
    {"edge_channels": 2, "towers": 2, "message_residual": True, "update_residual": True},
    {"pooling": "sum"},
    {"readout": "max", "layer": "fast"},
    {"readout": "mean+max", "layer": "fast", "shared_extractor": True},
    {"readout": "sum", "shared_extractor": True},
    {"readout": "scaled-sum", "usual_nodes": 3.0, "shared_extractor": True},
    {"pooling": "mean", "edge_channels": 2, "residual": True},
    {"pooling": "max", "layer": "fast", "extractor_channels": 5},
]


def make(options: dict[str, Any], network: type[SMP] = SMP, seed: int = 0, **more: Any) -> SMP:
    arguments = {"in_channels": 2, "hidden_channels": 4, "num_layers": 3, "out_channels": 2}
    return randomize(network(**{**arguments, **options, **more}), seed)


def with_schemes(
    network: Any, ablation: Any, options: list[dict[str, Any]], *, usual: str = ""
) -> list[Any]:
    """A network with all options and schemes, and its ablation, which has no scheme.

    If there is a `usual` scheme, the others are tried with the first options only; all
    combinations of these with other options are slow.
    """
    return [
        *(
            pytest.param(
                *case,
                marks=[] if usual in ("", case[2]) or case[1] is options[0] else pytest.mark.slow,
            )
            for case in product([network], options, SCHEMES)
        ),
        *product([ablation], options, SCHEMES[:1]),
    ]
