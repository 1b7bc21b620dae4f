"""AddIdentifiers: computed once a graph, collated by PyG, the same as computed on the batch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import ODD, SCHEMES, Structure, assert_same, batches, cycle, make_case, path, seeds
from strategies import randomize as randomized
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from smpgnn import SMP, AddIdentifiers, ContextIndex, InputError, context_index


def data_of(graphs: list[Structure], seed: int = 0) -> list[Data]:
    case = make_case(graphs, 2, seed=seed)
    return [
        Data(
            x=graph.x.detach(),
            edge_index=torch.tensor(graph.edges, dtype=torch.long).reshape(-1, 2).t(),
        )
        for graph in case.graphs
    ]


def assert_same_index(one: ContextIndex, other: ContextIndex) -> None:
    assert torch.equal(one.topology.edge_index, other.topology.edge_index)
    assert torch.equal(one.topology.batch, other.topology.batch)
    assert one.topology.num_graphs == other.topology.num_graphs
    a, b = one.table, other.table
    assert type(a) is type(b)
    assert a.num_rows == b.num_rows
    assert a.radius == b.radius
    for name in ("ptr", "own", "multiplicity", "identifier", "key"):
        left, right = getattr(a, name, None), getattr(b, name, None)
        assert (left is None) == (right is None), name
        assert left is None or torch.equal(left, right), name


@pytest.mark.parametrize("identifiers", [*SCHEMES, "pairs"])
@given(graphs=batches(max_nodes=7), num_layers=st.integers(1, 3), seed=seeds())
def test_stored_identifiers_are_those_computed_on_the_batch(
    identifiers: str, graphs: list[Structure], num_layers: int, seed: int
) -> None:
    transform = AddIdentifiers(identifiers, num_layers)
    plain = data_of(graphs, seed)
    batch = Batch.from_data_list([transform(data) for data in plain])
    bare = Batch.from_data_list(plain)
    assert_same_index(context_index(batch), context_index(bare, identifiers, num_layers))


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("identifiers", [*SCHEMES, "pairs"])
def test_networks_give_the_same_with_stored_identifiers_from_a_loader(
    identifiers: str, level: str
) -> None:
    structures = [path(9), cycle(5), ODD["two parts"], ODD["loops"], ODD["single"], path(2)]
    transform = AddIdentifiers(identifiers, 2)
    model = randomized(SMP(2, 1, 4, 2, identifiers=identifiers, level=level, norm="batch"))
    loader = DataLoader([transform(data) for data in data_of(structures)], batch_size=4)
    for data in loader:
        stored = model(data.x, data.edge_index, batch=data.batch, index=context_index(data))
        assert_same(stored, model(data.x, data.edge_index, batch=data.batch))


@pytest.mark.parametrize("identifiers", SCHEMES)
def test_a_single_graph_needs_no_batch(identifiers: str) -> None:
    (plain,) = data_of([path(6)])
    data = AddIdentifiers(identifiers, 2)(plain)
    assert_same_index(context_index(data), context_index(plain, identifiers, 2))


def test_the_original_graph_is_left_as_it_was() -> None:
    (plain,) = data_of([path(4)])
    AddIdentifiers("coloring", 1)(plain)
    assert "identifier" not in plain


def test_empty_graphs_at_the_end_are_counted() -> None:
    batch = Batch.from_data_list(
        [AddIdentifiers()(d) for d in data_of([path(2), (0, ()), (0, ())])]
    )
    assert context_index(batch).topology.num_graphs == 3


@pytest.mark.parametrize("identifiers", ["coloring", "neighborhood"])
def test_too_small_a_radius_is_refused(identifiers: str) -> None:
    model = SMP(2, 1, 4, 3, identifiers=identifiers).double()
    batch = Batch.from_data_list([AddIdentifiers(identifiers, 2)(d) for d in data_of([path(6)])])
    with pytest.raises(InputError, match="index is for 2 layers"):
        model(batch.x, batch.edge_index, batch=batch.batch, index=context_index(batch))


@pytest.mark.parametrize("identifiers", ["coloring", "neighborhood"])
def test_the_smallest_radius_of_a_batch_counts(identifiers: str) -> None:
    graphs = data_of([path(6), path(8)])
    batch = Batch.from_data_list(
        [AddIdentifiers(identifiers, depth)(d) for depth, d in zip((3, 2), graphs, strict=True)]
    )
    assert context_index(batch).table.radius == 2


@pytest.mark.parametrize("identifiers", ["coloring", "neighborhood"])
def test_a_larger_radius_serves_fewer_layers(identifiers: str) -> None:
    (data,) = data_of([path(9)])
    model = randomized(SMP(2, 1, 4, 1, identifiers=identifiers))
    out = model(data.x, data.edge_index, index=context_index(AddIdentifiers(identifiers, 3)(data)))
    if identifiers == "neighborhood":
        assert_same(out, model(data.x, data.edge_index))
    assert out.isfinite().all()


@pytest.mark.parametrize("first", [*SCHEMES, "pairs"])
@pytest.mark.parametrize("second", [*SCHEMES, "pairs"])
def test_a_second_transform_replaces_the_first(first: str, second: str) -> None:
    """Identifiers of an earlier transform must not be read with the radius of a later one."""
    (plain,) = data_of([path(9)])
    data = AddIdentifiers(second, 3)(AddIdentifiers(first, 1)(plain))
    assert_same_index(context_index(data), context_index(plain, second, 3))


def test_onehot_and_coloured_graphs_together_keep_the_radius_of_the_colours() -> None:
    graphs = data_of([path(6), path(8)])
    batch = Batch.from_data_list(
        [AddIdentifiers("onehot")(graphs[0]), AddIdentifiers("coloring", 1)(graphs[1])]
    )
    model = SMP(2, 1, 4, 3).double()
    with pytest.raises(InputError, match="index"):
        model(batch.x, batch.edge_index, batch=batch.batch, index=context_index(batch))


def test_data_without_identifiers_are_refused() -> None:
    (plain,) = data_of([path(3)])
    with pytest.raises(InputError, match="AddIdentifiers"):
        context_index(plain)


@pytest.mark.parametrize("num_layers", [0, -1])
@pytest.mark.parametrize("identifiers", ["coloring", "neighborhood"])
def test_a_number_of_layers_below_one_is_refused(identifiers: str, num_layers: int) -> None:
    with pytest.raises(InputError, match="num_layers"):
        AddIdentifiers(identifiers, num_layers)


def test_local_contexts_keep_their_radius() -> None:
    graphs = data_of([path(6), path(8)])
    near = [AddIdentifiers("local", context_radius=2)(data) for data in graphs]
    batch = Batch.from_data_list(near)
    bare = Batch.from_data_list(graphs)
    assert_same_index(context_index(batch), context_index(bare, "local", context_radius=2))
    assert context_index(batch).table.context_radius == 2
    assert repr(AddIdentifiers("local", context_radius=2)) == (
        "AddIdentifiers('local', context_radius=2)"
    )
    other = Batch.from_data_list([near[0], AddIdentifiers("local", context_radius=1)(graphs[1])])
    with pytest.raises(InputError, match="different context_radius"):
        context_index(other)
    with pytest.raises(InputError, match="context_radius must be"):
        AddIdentifiers("local", context_radius=0)


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(InputError, match="identifiers"):
        AddIdentifiers("random")


def test_prints_how_it_was_made() -> None:
    assert repr(AddIdentifiers("coloring", 3)) == "AddIdentifiers('coloring', num_layers=3)"


@pytest.mark.parametrize("identifiers", ["onehot", "local", "pairs"])
def test_initial_rows_are_stored(identifiers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What depends on the graph only is computed once, and cut and joined like the rows."""
    options = {"context_radius": 2, "first_rows": ("distance", "bond", "walks"), "walk_steps": 4}
    transform = AddIdentifiers(identifiers, pair_distance=0, **options)
    plain = data_of([path(9), cycle(5), ODD["loops"], ODD["single"]])
    batch = Batch.from_data_list([transform(data) for data in plain])
    model = SMP(2, 1, 4, 2, identifiers=identifiers, pair_distance=0, **options)
    expected = model(batch.x.float(), batch.edge_index, batch=batch.batch)
    index = context_index(batch)
    monkeypatch.setattr("smpgnn.contexts.first_rows._walks", None)  # cannot be computed again
    stored = model(batch.x.float(), batch.edge_index, batch=batch.batch, index=index)
    assert_same(stored, expected, tolerance=1e-5)
    first = model.backbone.first_rows
    assert torch.equal(first.values(index.of_single_nodes if identifiers == "pairs" else index),
                       batch.row_features)  # fmt: skip
    with pytest.raises(InputError, match="a row of 'coloring' may stand for several nodes"):
        AddIdentifiers("coloring", first_rows=["walks"])
