"""Convert graphs of PyTorch Geometric to a GraphStore."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smpgnn.data.graph_schema import Level, check_level
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data


def graphs_from_pyg(dataset: Sequence[Data], *, level: Level = "graph") -> GraphStore:
    """Pack a PyG dataset or list of `Data`.

    With level="graph" the `y` of a graph, of any shape, is one row of targets; with level="node" it
    has one row per node and becomes `y_node`. Features must be finite real numbers or booleans;
    integers keep their type, and become categories in training (`data/categories.py`).
    """
    check_level(level)
    graphs: list[Any] = list(dataset)
    if not graphs:
        raise InputError("The list contains no graphs: give at least one.")
    sizes = [_checked(graph, number) for number, graph in enumerate(graphs)]
    if level == "graph":
        y, y_node = [getattr(graph, "y", None) for graph in graphs], None
        _refuse_node_targets(y, sizes)
    else:
        y, y_node = None, [_node_targets(g, k, sizes[k]) for k, g in enumerate(graphs)]
    return GraphStore.of_sizes(
        sizes,
        [graph.edge_index.size(1) for graph in graphs],
        edge_index=torch.cat([graph.edge_index.long() for graph in graphs], dim=1),
        x=_rows("x", [graph.x for graph in graphs]),
        edge_attr=_rows("edge_attr", [graph.edge_attr for graph in graphs]),
        y=_rows("y", y, row_of_graph=True),
        y_node=_rows("y_node", y_node),
    )


MASKS = ("train_mask", "val_mask", "test_mask")


def node_masks(dataset: Sequence[Data], num_nodes: Tensor) -> dict[str, Tensor]:
    """The masks of the graphs by name, each [N] over all nodes; empty if the graphs have none.

    `num_nodes` is [G]. Only `val_mask` may be missing; no node may be in two masks.
    """
    found: dict[str, Tensor] = {}
    for name in MASKS:
        masks = [getattr(graph, name, None) for graph in dataset]
        if all(mask is None for mask in masks):
            continue
        pairs = zip(masks, num_nodes.tolist(), strict=True)
        found[name] = torch.cat([_mask(name, m, k, n) for k, (m, n) in enumerate(pairs)])
    missing = [name for name in ("train_mask", "test_mask") if name not in found]
    if found and missing:
        raise InputError(f"The graphs have {next(iter(found))}, but no {missing[0]}: add it.")
    for one, other in combinations(found, 2):
        both = int((found[one] & found[other]).sum())
        if both:
            nodes = "1 node is" if both == 1 else f"{both} nodes are"
            raise InputError(f"{nodes} in both {one} and {other}: leave each in one of them.")
    for name, mask in found.items():
        if not bool(mask.any()):
            raise InputError(f"{name} contains no node: mark at least one.")
    return found


def _mask(name: str, mask: Any, number: int, nodes: int) -> Tensor:
    place = f"Graph {number}"
    if mask is None:
        raise InputError(f"{place} has no {name}, but other graphs have: add it to all or to none.")
    mask = torch.as_tensor(mask)
    if mask.dim() == 2 and mask.size(1) > 1:
        raise InputError(
            f"{place}: {name} has {mask.size(1)} columns, one per split: choose one, as in "
            f"data.{name} = data.{name}[:, 0]."
        )
    if mask.dtype != torch.bool:
        raise InputError(f"{place}: {name} has type {mask.dtype}: convert it to torch.bool.")
    if mask.numel() != nodes:
        raise InputError(f"{place}: {name} has {mask.numel()} entries for {nodes} nodes.")
    flat: Tensor = mask.flatten().cpu()
    return flat


def _checked(graph: Any, number: int) -> int:
    """Check the tensors of a graph and return its number of nodes."""
    place = f"Graph {number}"
    edge_index = getattr(graph, "edge_index", None)
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise InputError(f"{place} has no edge_index of shape [2, edges]: add one.")
    if edge_index.is_floating_point() or edge_index.is_complex():
        raise InputError(
            f"{place}: edge_index has type {edge_index.dtype}: convert it to torch.long."
        )
    if getattr(graph, "x", None) is None and "num_nodes" not in graph:
        raise InputError(f"{place} has neither x nor num_nodes: set num_nodes.")
    nodes = int(graph.num_nodes)
    if nodes == 0:
        raise InputError(f"{place} has no nodes: remove it or add a node.")
    low, high = (0, 0) if edge_index.numel() == 0 else map(int, edge_index.aminmax())
    if low < 0:
        raise InputError(f"{place}: edge_index contains the negative index {low}.")
    for name, rows in (("x", nodes), ("edge_attr", edge_index.size(1))):
        value = getattr(graph, name, None)
        if value is None:
            continue
        if not isinstance(value, Tensor) or value.is_complex() or value.dim() == 0:
            raise InputError(f"{place}: {name} must be a tensor of real numbers, {rows} rows.")
        if value.size(0) != rows:
            raise InputError(f"{place}: {name} has {value.size(0)} rows, not {rows}.")
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise InputError(f"{place}: {name} contains NaN or infinity: replace it.")
    if high >= nodes:
        raise InputError(
            f"{place}: edge_index contains node {high}, but the graph has {nodes} nodes."
        )
    return nodes


def _node_targets(graph: Any, number: int, nodes: int) -> Any:
    """`y` of a graph, or `y_node` if it has no `y`; one row per node."""
    y = getattr(graph, "y", None)
    y = getattr(graph, "y_node", None) if y is None else y
    if y is not None and torch.as_tensor(y).dim() == 0:
        raise InputError(f"Graph {number}: y is one number, but level='node' needs {nodes}.")
    if y is not None and len(y) != nodes:
        raise InputError(
            f"Graph {number}: y has {len(y)} rows for {nodes} nodes: with level='node' "
            "give one row per node, or use level='graph'."
        )
    return y


def _refuse_node_targets(y: Sequence[Any], sizes: Sequence[int]) -> None:
    """Refuse targets whose sizes differ and equal the node counts: they belong to nodes."""
    known = [
        (torch.as_tensor(v).numel(), n) for v, n in zip(y, sizes, strict=True) if v is not None
    ]
    if len({width for width, _ in known}) > 1 and all(width == nodes for width, nodes in known):
        raise InputError("Every graph's y has one row per node: use level='node'.")


def _rows(name: str, values: Sequence[Any] | None, row_of_graph: bool = False) -> Tensor | None:
    """The values of all graphs as one matrix; None if no graph has one."""
    if values is None or all(value is None for value in values):
        return None
    rows: list[Tensor] = []
    for number, value in enumerate(values):
        if value is None:
            raise InputError(
                f"Graph {number} has no '{name}', but other graphs have: add it to all or to none."
            )
        tensor = torch.as_tensor(value)
        if row_of_graph:
            tensor = tensor.reshape(1, -1)
        else:
            tensor = tensor.flatten(1) if tensor.dim() > 1 else tensor[:, None]
        if rows and tensor.size(1) != rows[0].size(1):
            raise InputError(
                f"Graph {number}: '{name}' has {tensor.size(1)} columns, "
                f"but that of the first graph has {rows[0].size(1)}."
            )
        rows.append(tensor)
    return torch.cat(rows)
