"""The index of a padded batch without a data set equals the one cut out of a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
import torch
from recording import NothingFromPython
from strategies import ODD, cycle, make_case, path, undirected
from torch import Tensor

from smpgnn.capture.padded import Capacity, PaddedStore
from smpgnn.capture.rows import LocalAxes, NodeAxes, OneHotAxes, RowAxes
from smpgnn.capture.static_index import Size, StaticIndex, static_index
from smpgnn.contexts.index import ContextIndex
from smpgnn.data.store import GraphStore

GRAPHS = [path(6), cycle(5), ODD["edgeless"], ODD["loops"], path(9), ODD["single"], cycle(7)]
GRAPHS += [ODD["empty"], undirected(8, [(0, 1), (0, 2), (3, 6), (6, 7), (1, 2)])]
GRAPHS += [graph for name, graph in ODD.items() if name not in ("edgeless", "loops", "empty")]
SIZE = Size(graphs=24, nodes=120, edges=260, rows=1100, messages=2400, largest=12)
AXES = {"nodes": NodeAxes, "onehot": OneHotAxes, "local": lambda store: LocalAxes(store, 2)}


def store() -> GraphStore:
    case = make_case(GRAPHS, 2, 3)
    sizes = torch.bincount(case.batch, minlength=len(GRAPHS))
    owner = case.batch[case.edge_index[0]]
    order = torch.argsort(owner, stable=True)
    node_ptr = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    counts = torch.bincount(owner, minlength=len(GRAPHS))
    return GraphStore(
        node_ptr,
        torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)]),
        case.edge_index[:, order] - node_ptr[owner[order]],
    )


def built(data: GraphStore, identifiers: str, **changes: Any) -> StaticIndex:
    """The index of all graphs of a store, from their edges."""
    sizes = data.num_nodes
    nodes, edges = int(sizes.sum()), int(data.num_edges.sum())
    edge_index = torch.full((2, SIZE.edges), -7)
    shift = data.node_ptr[:-1].repeat_interleave(data.num_edges)
    edge_index[:, :edges] = data.edge_index + shift
    batch = torch.full((SIZE.nodes,), 99)
    batch[:nodes] = torch.arange(len(data)).repeat_interleave(sizes)
    given = {"edge_index": edge_index, "batch": batch, **changes}
    counts = torch.tensor([nodes, edges, len(data)])
    return static_index(
        given["edge_index"], given["batch"], counts, given.get("size", SIZE), identifiers, 2
    )


def same(actual: Any, expected: Any, where: str) -> None:
    """All tensors of two objects are equal."""
    if isinstance(expected, Tensor):
        assert isinstance(actual, Tensor), where
        assert actual.dtype == expected.dtype, where
        assert torch.equal(actual, expected), where
    elif isinstance(expected, Mapping):
        for name in set(expected) & set(actual):
            same(actual[name], expected[name], f"{where}[{name}]")
    elif isinstance(expected, tuple | list):
        for number, (one, other) in enumerate(zip(actual, expected, strict=True)):
            same(one, other, f"{where}[{number}]")
    elif is_dataclass(expected):
        assert type(actual) is type(expected), where
        for entry in fields(expected):
            if entry.name != "sides":
                value = getattr(expected, entry.name)
                same(getattr(actual, entry.name), value, f"{where}.{entry.name}")
    elif not callable(expected):
        assert actual == expected, where


@pytest.mark.parametrize("identifiers", AXES)
def test_equals_the_index_cut_out_of_a_data_set(identifiers: str) -> None:
    data = store()
    make: Any = AXES[identifiers]
    rows: RowAxes = make(data)
    names = {"node": SIZE.nodes, "edge": SIZE.edges, "row": SIZE.rows, "message": SIZE.messages}
    padded = PaddedStore(data, Capacity(SIZE.graphs, names), rows)
    graphs = torch.cat([torch.arange(len(data)), torch.full((SIZE.graphs - len(data),), -1)])
    _, expected = padded.batch(graphs)
    found = built(data, identifiers)
    same(found.index.topology, expected.topology, "topology")
    same(found.index.table, expected.table, "table")
    same(found.index.graphs.multiplicity, expected.graphs.multiplicity, "graphs")
    wanted = expected.routes.tensors()
    for first in (4, 10):  # `first` of the neighbours: one entry more there, which nobody reads
        wanted[first] = wanted[first][: SIZE.edges]
    same(found.index.routes.tensors(), wanted, "routes")
    same(found.index.routes.arrived, expected.routes.arrived, "routes")


@pytest.mark.parametrize("identifiers", AXES)
def test_says_how_large_the_batch_is(identifiers: str) -> None:
    data = store()
    index = (
        ContextIndex.of_nodes(topology(data))
        if identifiers == "nodes"
        else ContextIndex.build(topology(data), identifiers, 1, 2)
    )
    wrong, graphs, rows, messages, largest, nodes = built(data, identifiers).found.tolist()
    assert (wrong, graphs, nodes) == (0, len(data), int(data.num_nodes.sum()))
    assert rows == index.num_rows
    assert largest == int(data.num_nodes.max())
    if identifiers == "local":
        assert messages == index.lift.source.numel()


def topology(data: GraphStore) -> Any:
    from smpgnn.capture.rows import sorted_topology

    return sorted_topology(data)[0]


@pytest.mark.parametrize("identifiers", AXES)
def test_is_made_of_tensors_only(identifiers: str) -> None:
    data = store()
    counts = torch.tensor([0, 0, 0])
    edge_index, batch = torch.zeros(2, SIZE.edges).long(), torch.zeros(SIZE.nodes).long()
    with NothingFromPython():
        static_index(edge_index, batch, counts, SIZE, identifiers, 2)
    assert data.num_nodes.numel()


def changed(values: Tensor, place: tuple[int, ...], value: int) -> Tensor:
    values = values.clone()
    values[place] = value
    return values


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("edge_index", (0, 3), -1),
        ("edge_index", (1, 3), 119),
        ("edge_index", (1, 0), 30),
        ("batch", (4,), 3),
        ("batch", (0,), -1),
    ],
    ids=["negative node", "no such node", "other graph", "decreasing", "negative graph"],
)
@pytest.mark.parametrize("identifiers", AXES)
def test_refuses_invalid_arguments(identifiers: str, name: str, place: Any, value: int) -> None:
    data = store()
    edges, nodes = int(data.num_edges.sum()), int(data.num_nodes.sum())
    shift = data.node_ptr[:-1].repeat_interleave(data.num_edges)
    given = {
        "edge_index": torch.nn.functional.pad(data.edge_index + shift, (0, SIZE.edges - edges)),
        "batch": torch.nn.functional.pad(
            torch.arange(len(data)).repeat_interleave(data.num_nodes), (0, SIZE.nodes - nodes)
        ),
    }
    assert not built(data, identifiers, **given).found[0]
    given[name] = changed(given[name], place, value)
    assert built(data, identifiers, **given).found[0]


def test_counts_what_does_not_fit() -> None:
    """Too small a size gives true counts and no error, whatever the index is worth then."""
    data = store()
    small = Size(graphs=24, nodes=120, edges=260, rows=64, messages=50, largest=3)
    for identifiers in ("onehot", "local"):
        wrong, _, rows, _, largest, _ = built(data, identifiers, size=small).found.tolist()
        assert not wrong
        assert rows >= small.rows or largest > small.largest
