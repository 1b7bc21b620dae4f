"""Batches of fixed size out of the tables of a data set (see `smpgnn.ops.assembly`), first rows."""

# no `from __future__ import annotations`: torch reads the types of the operators

from typing import Any, Optional

import torch
from torch import Tensor

from smpgnn.ops.cuda.operator import operator
from smpgnn.ops.kernels import assembly as kernels
from smpgnn.ops.kernels import initial as initial_kernels


def _like(values: Any, rows: int, table: Tensor) -> Tensor:
    """Room for so many rows of values, or nothing."""
    made: Tensor = table.new_empty(0) if values is None else values.new_empty(rows, values.size(1))
    return made


def _contiguous(values: Any) -> Any:
    return None if values is None else values.contiguous()


@operator("place_graphs")
def place_graphs(
    graphs: Tensor, table: Tensor, inverse: Tensor, y: Optional[Tensor], last: Tensor  # noqa: UP045
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    return kernels.place_graphs(graphs.contiguous(), table, inverse, _contiguous(y), last)


@place_graphs.register_fake
def _(graphs: Tensor, table: Tensor, inverse: Tensor, y: Any, last: Any) -> Any:
    count = graphs.numel()
    return (
        *(table.new_empty(count + 1) for _ in range(3)),
        table.new_empty(count + 2),
        table.new_empty(4, 4, count + 1),
        inverse.new_empty(count + 1),
        _like(y, count, table),
    )


@operator("cut_nodes")
def cut_nodes(
    places: Tensor, inverse: Tensor, table: Tensor,
    x: Optional[Tensor], y_node: Optional[Tensor],  # noqa: UP045
    nodes: int, rows: int, spread: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    values = _contiguous(x), _contiguous(y_node)
    return kernels.cut_nodes(places, inverse, table, *values, nodes, rows, spread)


@cut_nodes.register_fake
def _(places: Tensor, inverse: Tensor, table: Tensor, x: Any, y: Any, nodes: int, *_: Any) -> Any:
    return (
        places.new_empty(6, nodes),
        places.new_empty(3, nodes + 1),
        table.new_empty(nodes),
        table.new_empty(3, nodes + 1),
        inverse.new_empty(2, nodes),
        _like(x, nodes, table),
        _like(y, nodes, table),
    )


@operator("cut_edges")
def cut_edges(
    places: Tensor, table: Tensor, edge_attr: Optional[Tensor], edges: int  # noqa: UP045
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return kernels.cut_edges(places, table, _contiguous(edge_attr), edges)


@cut_edges.register_fake
def _(places: Tensor, table: Tensor, edge_attr: Any, edges: int) -> Any:
    small = table.new_empty(4, edges)
    return places.new_empty(4, edges), small, _like(edge_attr, edges, table)


@operator("cut_rows")
def cut_rows(places: Tensor, table: Tensor, rows: int, nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    return kernels.cut_rows(places, table, rows, nodes)


@cut_rows.register_fake
def _(places: Tensor, table: Tensor, rows: int, nodes: int) -> Any:
    return places.new_empty(2, rows), table.new_empty(rows), table.new_empty(2, rows + 1)


@operator("square_rows")
def square_rows(places: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    return kernels.square_rows(places, rows)


@square_rows.register_fake
def _(places: Tensor, rows: int) -> Any:
    return places.new_empty(rows), places.new_empty(rows, dtype=torch.int32)


@operator("cut_messages")
def cut_messages(places: Tensor, table: Tensor, messages: int) -> Tensor:
    return kernels.cut_messages(places, table, messages)


@cut_messages.register_fake
def _(places: Tensor, table: Tensor, messages: int) -> Tensor:
    return table.new_empty(3, messages)


@operator("initial_rows")
def initial_rows(
    x: Tensor, ptr: Tensor, own: Tensor, count: Tensor, size: int, held: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The rows before the first layer, own rows and means."""
    return initial_kernels.initial_rows(x.contiguous(), ptr, own, count, size, held)


@initial_rows.register_fake
def _(x: Tensor, ptr: Any, own: Any, count: Any, size: int, held: Any) -> Any:
    small = x.new_empty(x.size(0), x.size(1) + 1)
    return x.new_empty(size, x.size(1) + 1), small, torch.empty_like(small)
