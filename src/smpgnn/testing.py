"""Public checks that a layer or network is equivariant and independent of the batch.

They work for any network with the calling convention of PyTorch Geometric, and for layers of
`smpgnn`. They raise an AssertionError that says what differs and by how much.

>>> import torch
>>> from smpgnn import SMP
>>> from smpgnn.testing import assert_equivariant
>>> model = SMP(in_channels=0, out_channels=1, hidden_channels=8, num_layers=2).double()
>>> assert_equivariant(model, None, torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.topology import Topology
from smpgnn.layers.base import SMPLayer

Network = Callable[..., Any]


@dataclass(frozen=True)
class Graph:
    """The input of a network for one graph: x [n, F], edge_index [2, E], edge_attr [E, D]."""

    x: Tensor | None
    edge_index: Tensor
    edge_attr: Tensor | None = None
    num_nodes: int | None = None

    @property
    def size(self) -> int:
        if self.x is not None:
            return self.x.size(0)
        if self.num_nodes is not None:
            return self.num_nodes
        return int(self.edge_index.max()) + 1 if self.edge_index.numel() else 0


def assert_equivariant(
    module: Network,
    x: Tensor | None,
    edge_index: Tensor,
    edge_attr: Tensor | None = None,
    batch: Tensor | None = None,
    *,
    level: str | None = None,
    identifiers: str = "onehot",
    channels: int | None = None,
    trials: int = 3,
    tolerance: float = 1e-8,
    seed: int = 0,
) -> None:
    """Check that a permutation of the nodes permutes the result and changes nothing else.

    A network must permute its node outputs and keep its graph outputs. An `SMPLayer` must permute
    the rows of the contexts; it is called on random contexts. The module is checked in eval mode
    and in the precision of its parameters, so use float64.

    Args:
        module: a network called as `module(x, edge_index, edge_attr, batch)`, without trailing
            arguments that are None, or an `SMPLayer`.
        x, edge_index, edge_attr, batch: the graphs, as for a network of PyTorch Geometric.
        level: 'node' or 'graph', the meaning of the rows of the result; by default `module.level`,
            or inferred from the number of rows.
        identifiers: the scheme of the contexts (layers only).
        channels: the width of the contexts (layers only); by default `module.in_channels`.
        trials: number of random permutations.
        tolerance: largest allowed difference, relative to the largest entry (at least 1).
        seed: seed of the permutations.
    """
    size = Graph(x, edge_index).size if batch is None else batch.numel()
    topology = Topology.checked(edge_index, batch, num_nodes=size)
    if x is None and batch is None:
        batch = topology.batch  # otherwise renaming could lose a last node without edges
    generator = torch.Generator().manual_seed(seed)
    with _eval(module):
        for _ in range(trials):
            permutation = _random_permutation(topology, generator)
            if isinstance(module, SMPLayer):
                width = int(getattr(module, "in_channels", 1)) if channels is None else channels
                _check_layer(
                    module, topology, edge_attr, identifiers, width, permutation, tolerance
                )
            else:
                _check_network(module, x, topology, edge_attr, batch, level, permutation, tolerance)


def assert_batch_invariant(
    module: Network,
    graphs: Sequence[Graph],
    *,
    level: str | None = None,
    tolerance: float = 1e-8,
) -> None:
    """Check that the result for a graph does not depend on the batch, in eval mode.

    Args:
        module: a network called as `module(x, edge_index, edge_attr, batch)`.
        graphs: two or more graphs, preferably of different sizes. Graphs without nodes are part of
            the batch, but are not compared.
        level: 'node' or 'graph'; by default `module.level`, or inferred from the number of rows.
        tolerance: largest allowed difference, relative to the largest entry (at least 1).
    """
    sizes = [graph.size for graph in graphs]
    start = [sum(sizes[:k]) for k in range(len(sizes))]
    batch = torch.cat([torch.full((size,), k) for k, size in enumerate(sizes)])
    edge_index = torch.cat(
        [graph.edge_index + shift for graph, shift in zip(graphs, start, strict=True)], dim=1
    )
    with _eval(module):
        together = _outputs(
            _call(
                module,
                _cat([graph.x for graph in graphs]),
                edge_index,
                _cat([graph.edge_attr for graph in graphs]),
                batch.to(edge_index.device),
            )
        )
        for k, graph in enumerate(graphs):
            if graph.size == 0:
                continue
            zeros = edge_index.new_zeros(graph.size)
            alone = _outputs(_call(module, graph.x, graph.edge_index, graph.edge_attr, zeros))
            for one, all_ in zip(alone, together, strict=True):
                of_nodes = _is_node_level(module, all_, len(batch), len(graphs), level)
                part = all_[start[k] : start[k] + sizes[k]] if of_nodes else all_[k : k + 1]
                _compare(one, part, tolerance, f"graph {k} alone and in the batch")


def _check_network(
    module: Network,
    x: Tensor | None,
    topology: Topology,
    edge_attr: Tensor | None,
    batch: Tensor | None,
    level: str | None,
    permutation: Tensor,
    tolerance: float,
) -> None:
    renamed = topology.permute(permutation)
    moved = None if x is None else torch.empty_like(x).index_copy(0, permutation, x)
    before = _outputs(_call(module, x, topology.edge_index, edge_attr, batch))
    after = _outputs(_call(module, moved, renamed.edge_index, edge_attr, batch))
    for old, new in zip(before, after, strict=True):
        if _is_node_level(module, old, topology.num_nodes, topology.num_graphs, level):
            new = new.index_select(0, permutation)
        _compare(new, old, tolerance, "the result before and after renaming the nodes")


def _check_layer(
    layer: SMPLayer,
    topology: Topology,
    edge_attr: Tensor | None,
    identifiers: str,
    channels: int,
    permutation: Tensor,
    tolerance: float,
) -> None:
    index = ContextIndex.build(topology, identifiers, 1)
    renamed, place = index.permute(permutation)
    like = next(layer.parameters(), torch.empty(0, dtype=torch.float64))
    generator = torch.Generator().manual_seed(int(permutation[0]) if permutation.numel() else 0)
    rows = torch.randn(index.num_rows, channels, generator=generator, dtype=torch.float64).to(like)
    old = layer(LocalContext(rows, index.layout), index, edge_attr).rows
    moved = torch.empty_like(rows).index_copy(0, place, rows)
    new = layer(LocalContext(moved, renamed.layout), renamed, edge_attr).rows
    _compare(
        new.index_select(0, place),
        old,
        tolerance,
        "the contexts before and after renaming the nodes",
    )


def _random_permutation(topology: Topology, generator: torch.Generator) -> Tensor:
    """A permutation of the nodes within each graph, [N]."""
    key = torch.rand(topology.num_nodes, generator=generator, dtype=torch.float64)
    return torch.argsort(key + topology.batch.cpu()).to(topology.device)


def _is_node_level(
    module: Network, output: Tensor, num_nodes: int, num_graphs: int, level: str | None
) -> bool:
    level = level or getattr(module, "level", None)
    if level is not None:
        return level == "node"
    if num_nodes == num_graphs:
        raise AssertionError("pass level='node' or 'graph': there are as many nodes as graphs.")
    if output.size(0) not in (num_nodes, num_graphs):
        raise AssertionError(
            f"the result has {output.size(0)} rows, neither one per node ({num_nodes}) "
            f"nor one per graph ({num_graphs})."
        )
    return output.size(0) == num_nodes


def _call(
    module: Network,
    x: Tensor | None,
    edge_index: Tensor,
    edge_attr: Tensor | None,
    batch: Tensor | None,
) -> Any:
    arguments = [x, edge_index, edge_attr, batch]
    while arguments[-1] is None:
        arguments.pop()
    with torch.no_grad():
        return module(*arguments)


def _outputs(result: Any) -> tuple[Tensor, ...]:
    return (result,) if isinstance(result, Tensor) else tuple(result)


def _cat(values: Sequence[Tensor | None]) -> Tensor | None:
    present = [value for value in values if value is not None]
    return torch.cat(present) if present else None


def _compare(actual: Tensor, expected: Tensor, tolerance: float, what: str) -> None:
    if actual.shape != expected.shape:
        raise AssertionError(f"{what} have shapes {list(expected.shape)} and {list(actual.shape)}.")
    if expected.numel() == 0:
        return
    if not (actual.isfinite().all() and expected.isfinite().all()):
        raise AssertionError(f"{what} contain numbers that are not finite.")
    gap = (actual - expected).abs().max().item()
    if gap > tolerance * max(1.0, expected.abs().max().item()):
        raise AssertionError(f"{what} differ by {gap:.3g}, more than {tolerance:.3g} allows.")


@contextmanager
def _eval(module: Network) -> Iterator[None]:
    if not isinstance(module, nn.Module):
        yield
        return
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)
