"""Batches of fixed size by the kernels: all tensors equal those of the plain way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from strategies import ODD, cycle, make_case, path
from torch import Tensor

from smpgnn.capture.padded import Capacity, PaddedStore
from smpgnn.capture.rows import LocalAxes, NodeAxes, OneHotAxes, RowAxes
from smpgnn.contexts.topology import pointer
from smpgnn.data.store import GraphStore
from smpgnn.ops import backend

pytestmark = pytest.mark.skipif(not backend.has_kernels(), reason="needs triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GRAPHS = [path(6), cycle(5), ODD["edgeless"], ODD["loops"], ODD["empty"], path(9), ODD["single"]]
GRAPHS += [ODD["directed cycle"], ODD["pair"]]
ROOM = Capacity(6, {"node": 40, "edge": 80, "row": 300, "message": 700})
ROWS: dict[str, Callable[[GraphStore], RowAxes]] = {
    "onehot": OneHotAxes,
    "nodes": NodeAxes,
    "local": lambda store: LocalAxes(store, 1),
    "local 2": lambda store: LocalAxes(store, 2),
}


def make_store(values: bool = True, repeat: int = 1) -> GraphStore:
    """Each graph so many times; features of one tile of columns and of several."""
    graphs = GRAPHS * repeat
    case = make_case(graphs, 2, 3)
    ptr = pointer(torch.tensor([size for size, _ in graphs]))
    owner = case.batch[case.edge_index[0]]
    edge_ptr = pointer(torch.bincount(owner, minlength=len(graphs)))
    edges = case.edge_index - ptr[owner]
    count, nodes = len(graphs), int(ptr[-1])
    assert case.x is not None
    assert case.edge_attr is not None
    store = GraphStore(ptr, edge_ptr, edges)
    if values:
        x, attr = case.x.detach(), case.edge_attr.detach()
        y, y_node = torch.arange(3 * count).view(count, 3), torch.arange(70 * nodes).view(nodes, 70)
        store = GraphStore(ptr, edge_ptr, edges, x, attr, y, y_node)
    return store.to(DEVICE)


def tensors(value: Any) -> Iterator[tuple[str, Tensor]]:
    """All tensors in an object and what it refers to, by name."""
    if isinstance(value, Tensor):
        yield "", value
    elif isinstance(value, tuple | list):
        for number, part in enumerate(value):
            yield from ((f"[{number}]{name}", found) for name, found in tensors(part))
    elif hasattr(value, "__dict__"):
        for key, part in vars(value).items():
            yield from ((f".{key}{name}", found) for name, found in tensors(part))


def assert_equal(found: Any, expected: Any) -> None:
    one, two = dict(tensors(found)), dict(tensors(expected))
    assert one.keys() == two.keys()
    for name, value in two.items():
        assert one[name].dtype == value.dtype, name
        torch.testing.assert_close(one[name], value, rtol=0, atol=0, equal_nan=True, msg=name)


def both(padded: PaddedStore, graphs: Tensor, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Batch, index and routes by the kernels and the plain way."""
    found = []
    for kernels in (True, False):
        monkeypatch.setattr(backend, "INTERPRETED", kernels and DEVICE == "cpu")
        monkeypatch.setattr(backend, "FUSED", kernels)
        batch, index = padded.batch(graphs.to(DEVICE))
        found.append((batch, index, index.routes.tensors()))
    return found


@pytest.mark.parametrize(
    "chosen",
    [(7, 4, 3, 2, 1, 5), (8,), (5, 7, 7, 0), (), (4, 4), (0, -1, 8, -1, 6, 2), (-1, 3, 4, -1)],
    ids=str,
)
@pytest.mark.parametrize("kind", ROWS)
def test_kernels_make_the_same_batch(
    kind: str, chosen: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store()
    padded = PaddedStore(store, ROOM, ROWS[kind](store))
    assert_equal(*both(padded, torch.tensor([*chosen, *[-1] * (6 - len(chosen))]), monkeypatch))


@pytest.mark.parametrize("kind", ROWS)
def test_graphs_without_features(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_store(values=False)
    padded = PaddedStore(store, ROOM, ROWS[kind](store))
    found = both(padded, torch.tensor([0, 3, -1, 8, 2, 4]), monkeypatch)
    assert_equal(*found)
    batch = found[0][0]
    assert batch.x is batch.edge_attr is batch.y is batch.y_node is None


def test_features_keep_their_type(monkeypatch: pytest.MonkeyPatch) -> None:
    padded = PaddedStore(make_store(), ROOM)
    assert padded.x is not None
    padded.x = padded.x.double()
    found = both(padded, torch.tensor([0, 3, -1, 8, 2, 4]), monkeypatch)
    assert_equal(*found)
    assert found[0][0].x.dtype == torch.float64


@pytest.mark.parametrize("count", [1, 2, 3, 63, 300])
def test_any_number_of_graphs(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also more than the kernel takes in one step."""
    store = make_store(repeat=5)
    room = Capacity(count, {"node": 10 * count, "edge": 24 * count})
    generator = torch.Generator().manual_seed(count)
    graphs = torch.randint(-1, len(store), (count,), generator=generator)
    assert_equal(*both(PaddedStore(store, room, NodeAxes(store)), graphs, monkeypatch))


@pytest.mark.parametrize("kind", ROWS)
def test_batches_are_those_of_the_store(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, chosen = make_store(), [5, 4, 3, 0, 2]
    padded = PaddedStore(store, ROOM, ROWS[kind](store))
    expected = store.batch(chosen)
    order = torch.argsort(expected.edge_index[1], stable=True)
    for batch, index, _ in both(padded, torch.tensor([*chosen, -1]), monkeypatch):
        nodes, edges = expected.num_nodes, order.numel()
        assert torch.equal(batch.x[:nodes], expected.x.float())
        assert torch.equal(batch.batch[:nodes], expected.batch)
        assert torch.equal(batch.edge_index[:, :edges], expected.edge_index[:, order])
        assert torch.equal(batch.edge_attr[:edges], expected.edge_attr[order])
        ptr, out_edge = index.topology.edges_by_sender
        by_sender = torch.argsort(batch.edge_index[0, :edges], stable=True)
        assert torch.equal(out_edge[:edges], by_sender)
        assert torch.equal(ptr.diff(), torch.bincount(batch.edge_index[0, :edges], minlength=40))
        assert torch.equal(index.layout.count, index.table.ptr.diff())
