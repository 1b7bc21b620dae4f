"""What a captured step sees of a batch, and the tensors that a batch consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from smpgnn.errors import InputError


class PaddedBatch:
    """What a captured step sees of a batch: its attributes, with padding behind nodes and edges.

    Attributes of graphs have one row per graph, without padding. Those of nodes and edges have more
    rows; padding is 0 for features, and NaN (or -100 for whole numbers) for targets (`y…`). All
    padding nodes belong to graph `num_graphs`, which is one behind the last.

    Attributes:
        num_graphs: the number of graphs, without padding.
        num_nodes: the number of nodes, with padding.
        node_mask: which nodes are not padding, [num_nodes].
    """

    def __init__(self, values: Mapping[str, Any], left_out: Mapping[str, str]) -> None:
        self.__dict__.update(values)
        self._left_out = dict(left_out)

    def __getattr__(self, name: str) -> Any:
        reasons = self.__dict__.get("_left_out", {})
        if name in reasons:
            raise InputError(f"batch.{name} cannot be captured: {reasons[name]}.")
        raise AttributeError(f"a padded batch has no attribute {name!r}")


@dataclass(frozen=True)
class Parts:
    """A batch as tensors of nodes, edges and graphs, and reasons for what is left out."""

    edge_index: Tensor
    batch: Tensor | None
    num_nodes: int
    num_graphs: int
    nodes: dict[str, Tensor]
    edges: dict[str, Tensor]
    graphs: dict[str, Tensor]
    left_out: dict[str, str]

    @property
    def shapes(self) -> tuple[Any, ...]:
        """What must be equal for two batches to be replayed by the same capture."""
        return self.num_graphs, *(
            tuple(sorted((n, v.dtype, tuple(v.shape[1:])) for n, v in values.items()))
            for values in (self.nodes, self.edges, self.graphs)
        )


def parts_of(batch: Any) -> Parts:
    """The tensors of a batch of PyTorch Geometric."""
    edge_index = batch.edge_index
    if not isinstance(edge_index, Tensor):
        raise InputError("batch: has no edge_index tensor: give a batch of PyTorch Geometric.")
    num_nodes, owner = int(batch.num_nodes), getattr(batch, "batch", None)
    ptr = getattr(batch, "ptr", None)
    num_graphs = int(batch.num_graphs) if owner is not None else 1
    counts = {"nodes": num_nodes, "edges": edge_index.size(1), "graphs": num_graphs}
    found: dict[str, dict[str, Tensor]] = {kind: {} for kind in counts}
    left_out: dict[str, str] = {}
    slices = getattr(batch, "_slice_dict", None) or {}
    per = {
        "nodes": None if ptr is None else ptr.cpu(),
        "graphs": torch.arange(num_graphs + 1),
    }
    for name, value in batch.to_dict().items():
        if name in ("edge_index", "batch", "ptr"):
            continue
        if not isinstance(value, Tensor):
            left_out[name] = "it is not a tensor"
            continue
        kind = _kind(name, value, slices.get(name), per, counts)
        if kind:
            found[kind][name] = value
        else:
            left_out[name] = "it has neither one row per node, nor per edge, nor per graph"
    return Parts(edge_index, owner, num_nodes, num_graphs, **found, left_out=left_out)


def _kind(
    name: str,
    value: Tensor,
    cuts: Tensor | None,
    per: Mapping[str, Tensor | None],
    counts: Mapping[str, int],
) -> str:
    """Whether a value belongs to 'nodes', 'edges' or 'graphs'; '': to none of them."""
    rows = value.size(0) if value.dim() else -1
    if "index" in name:  # it counts nodes, whose numbers would change
        return ""
    if name == "x":
        return "nodes"
    if name == "edge_attr":
        return "edges"
    if cuts is not None:
        for kind, expected in per.items():
            if (
                expected is not None
                and cuts.shape == expected.shape
                and torch.equal(cuts.cpu(), expected)
            ):
                return kind
    fitting = [kind for kind, count in counts.items() if rows == count]
    return fitting[0] if len(fitting) == 1 and (cuts is None or fitting == ["edges"]) else ""


def marked(name: str, value: Tensor, real: Tensor) -> Tensor:
    """Targets with NaN (or -100) for padding; other values as they are."""
    if not name.startswith("y"):
        return value
    missing = torch.nan if value.is_floating_point() else -100
    return value.masked_fill(~real.view(-1, *[1] * (value.dim() - 1)), missing)
