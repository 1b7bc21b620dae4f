"""Blocks of rows and of matrices, through which layers go on a CPU, change no result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from strategies import ODD, SCHEMES, Case, assert_same, cycle, make_case, path, randomize
from torch import Tensor, nn

from smpgnn import SMP
from smpgnn.ops import affine, backend
from smpgnn.ops.affine import add_inner_product, groups, multiply, row_blocks

GRAPHS = [path(5), ODD["empty"], ODD["loops"], cycle(4), ODD["single"], ODD["directed cycle"]]
NETWORKS: dict[str, tuple[int, Callable[[str], nn.Module]]] = {
    "default": (3, lambda s: SMP(2, 2, 4, 3, "default", s, 3, norm="batch", towers=2,
                                 message_residual=True, update_residual=True)),
    "no residuals": (0, lambda s: SMP(2, 2, 4, 2, "default", s, norm="batch")),
    "undivided": (3, lambda s: SMP(2, 2, 4, 2, "default", s, 3, divide_update=True)),
    "fast": (0, lambda s: SMP(2, 2, 4, 3, "fast", s, norm="batch", towers=2)),
}  # fmt: skip


def shuffled_edges(case: Case) -> Case:
    """The same graphs, with the edges of all graphs mixed."""
    order = torch.randperm(case.edge_index.size(1), generator=torch.Generator().manual_seed(0))
    attr = None if case.edge_attr is None else case.edge_attr.detach()[order].requires_grad_()
    return replace(case, edge_index=case.edge_index[:, order], edge_attr=attr)


@pytest.mark.parametrize("cached", [1, 40, 200])
@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("network", NETWORKS)
def test_blocks_change_neither_outputs_nor_gradients(
    network: str, identifiers: str, cached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge_channels, make = NETWORKS[network]
    model = randomize(make(identifiers)).train()
    case = shuffled_edges(make_case(GRAPHS, 2, edge_channels))

    def run() -> tuple[Tensor, list[Tensor]]:
        out = case.call(model)
        leaves = [*model.parameters(), *case.leaves()]
        found = torch.autograd.grad(out.sin().sum(), leaves, allow_unused=True)
        return out.detach(), [torch.zeros(1) if grad is None else grad for grad in found]

    monkeypatch.setattr(affine, "_WIDE", 64)  # whole matrices
    expected = run()
    monkeypatch.setattr(backend, "CACHED", cached)
    monkeypatch.setattr(affine, "_WIDE", 1)
    actual = run()
    assert_same(actual[0], expected[0])
    assert_same(actual[1], expected[1])


def test_one_block_per_graph_where_no_two_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "CACHED", 1)
    lift = make_case([path(3), path(2), cycle(4)]).index("onehot").lift
    blocks = lift.blocks(8)
    assert [(b.rows.start, b.rows.stop) for b in blocks] == [(0, 9), (9, 13), (13, 29)]
    assert [(b.edges.start, b.edges.stop) for b in blocks] == [(0, 4), (4, 6), (6, 14)]
    rows = torch.randn(29, 8)
    parts = [block.lift.receive(rows[block.rows]) for block in blocks]
    torch.testing.assert_close(torch.cat(parts), lift.receive(rows))


@pytest.mark.parametrize(("towers", "count"), [(1, 1), (2, 2), (3, 3), (4, 2), (6, 3), (12, 3)])
def test_towers_are_joined_to_blocks_of_enough_columns(towers: int, count: int) -> None:
    matrix = torch.block_diag(*torch.randn(towers, 48 // towers, 48 // towers).double())
    assert groups(matrix, towers) == count
    rows, grad = torch.randn(2, 100, 48).double()
    out = torch.randn(100, 48).double()
    assert_same(multiply(rows, matrix, out.clone(), count, add=True), out + rows @ matrix)
    assert_same(multiply(rows, matrix, out, count), rows @ matrix)
    total = torch.ones(48, 48).double()
    mask = torch.block_diag(*torch.ones(count, 48 // count, 48 // count))
    add_inner_product(total, rows, grad, count)
    assert_same(total, 1 + (rows.t() @ grad) * mask)


@pytest.mark.parametrize("cached", [1, 20, 100])
@pytest.mark.parametrize("size", [0, 1, 7, 40])
def test_row_blocks_cover_all_rows_in_order(
    monkeypatch: pytest.MonkeyPatch, size: int, cached: int
) -> None:
    monkeypatch.setattr(backend, "CACHED", cached)
    rows = torch.arange(3.0 * size).view(size, 3)
    parts = [rows[some] for some in row_blocks(rows)]
    assert torch.equal(torch.cat(parts), rows)
    assert all(part.numel() <= max(cached, 3) for part in parts)
