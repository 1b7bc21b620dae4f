"""The graph-properties benchmark: published graphs, targets compared with networkx, the metric."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pytest
import torch
from benchmark_metric import log_mse_by_size

from smpgnn.data import properties, properties_random
from smpgnn.data.base import Splits
from smpgnn.data.properties import (
    extrapolation_splits,
    property_graphs,
    property_splits,
)
from smpgnn.data.properties_random import RandomGraphs, _Streams, draw_graphs
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError

PARTS = (("train", range(15, 25), 512), ("val", range(15, 20), 128), ("test", range(15, 20), 256))


class Generated(NamedTuple):
    """The benchmark, generated once: as drawn, with unscaled targets, and as used."""

    drawn: list[RandomGraphs]
    unscaled: list[GraphStore]
    splits: Splits


@pytest.fixture(scope="module")
def generated() -> Generated:
    drawn: list[RandomGraphs] = []
    unscaled: list[GraphStore] = []
    generate_all = properties._generate_all

    def draw(n: int, count: int, seed: int) -> tuple[RandomGraphs, int]:
        graphs, seed = draw_graphs(n, count, seed)
        drawn.append(graphs)
        return graphs, seed

    def generate(*parts: Any) -> list[GraphStore]:
        unscaled.extend(generate_all(*parts))
        return unscaled

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(properties, "draw_graphs", draw)
        patch.setattr(properties, "_generate_all", generate)
        return Generated(drawn, unscaled, property_splits())


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same benchmark with fewer graphs."""
    for name, sizes, count in (
        ("_TRAIN", range(15, 25), 24),
        ("_VAL", [15], 8),
        ("_TEST", [16], 8),
    ):
        monkeypatch.setattr(properties, name, (sizes, count))


def published_file() -> Path:
    path = Path(os.environ.get("SMPGNN_DATA", "")) / "properties" / "multitask.npz"
    if "SMPGNN_DATA" not in os.environ or not path.is_file():
        pytest.skip("SMPGNN_DATA does not name a folder with properties/multitask.npz")
    return path


def graph_of(store: GraphStore, g: int) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(int(store.num_nodes[g])))
    part = slice(int(store.edge_ptr[g]), int(store.edge_ptr[g + 1]))
    graph.add_edges_from(store.edge_index[:, part].T.tolist())
    return graph


def node_sizes(store: GraphStore) -> torch.Tensor:
    return store.num_nodes.repeat_interleave(store.num_nodes)


def test_published_graphs_values_and_sources_are_reproduced_bit_for_bit(
    generated: Generated,
) -> None:
    published = np.load(published_file())
    drawn = iter(generated.drawn)
    for name, sizes, _ in PARTS:
        parts = [next(drawn) for _ in sizes]
        bits = np.concatenate([part.adjacency.ravel() for part in parts])
        assert np.array_equal(np.packbits(bits), published[f"{name}_adjacency"])
        values = np.concatenate([part.value.ravel() for part in parts])
        assert np.array_equal(values, published[f"{name}_values"])
        sources = np.concatenate([part.source for part in parts])
        assert np.array_equal(sources, published[f"{name}_source"])
    assert next(drawn, None) is None


def test_published_targets_are_reproduced(generated: Generated) -> None:
    published = np.load(published_file())
    node_scale = torch.from_numpy(published["train_node_targets"]).amax(0)
    graph_scale = torch.from_numpy(published["train_graph_targets"]).amax(0)
    for name, *_ in PARTS:
        store: GraphStore = getattr(generated.splits, name)
        node = torch.from_numpy(published[f"{name}_node_targets"])
        graph = torch.from_numpy(published[f"{name}_graph_targets"])
        torch.testing.assert_close(store.y_node * node_scale, node, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(store.y * graph_scale, graph, rtol=1e-5, atol=1e-5)


def test_the_first_graphs_are_the_published_ones() -> None:
    """Without the data: a checksum of the first 20 and of the first 512 graphs of 15 nodes."""
    for count, expected in ((20, "c678730ea68b6609"), (512, "44cdba416dd7966c")):
        graphs, _ = draw_graphs(15, count, 1234)
        digest = hashlib.sha256(np.packbits(graphs.adjacency).tobytes())
        digest.update(graphs.value.astype("<f8").tobytes())
        digest.update(graphs.source.astype("<i8").tobytes())
        assert digest.hexdigest()[:16] == expected


def test_targets_are_divided_by_the_published_maxima(generated: Generated) -> None:
    train = generated.unscaled[0]
    node_scale, graph_scale = train.y_node.amax(0), train.y.amax(0)
    expected = torch.tensor([23, 23, 13.566]), torch.tensor([1, 23, 22.676])
    torch.testing.assert_close(node_scale, expected[0], atol=5e-4, rtol=0)
    torch.testing.assert_close(graph_scale, expected[1], atol=5e-4, rtol=0)
    for unscaled, (name, *_) in zip(generated.unscaled, PARTS, strict=True):
        divided = getattr(generated.splits, name)
        assert torch.equal(divided.y_node, unscaled.y_node / node_scale)
        assert torch.equal(divided.y, unscaled.y / graph_scale)
        assert torch.equal(divided.edge_index, unscaled.edge_index)
        assert torch.equal(divided.x, unscaled.x)
    first = property_graphs([15], 20)
    assert torch.equal(first.y, train.y[:20])
    assert torch.equal(first.edge_index, train.edge_index[:, : first.edge_index.size(1)])


def test_splits_have_the_published_sizes(generated: Generated) -> None:
    for name, sizes, count in PARTS:
        store: GraphStore = getattr(generated.splits, name)
        assert store.num_nodes.tolist() == [n for n in sizes for _ in range(count)]
        assert store.x.shape == (int(store.node_ptr[-1]), 2)
        assert {store.x.dtype, store.y.dtype, store.y_node.dtype} == {torch.float32}
        assert store.x[:, 0].sum() == len(store)  # one source each
        assert int(store.num_edges.min()) > 0


def test_targets_agree_with_networkx() -> None:
    store = property_graphs([7, 16], 60, seed=5)
    truth = property_graphs([7, 16], 60, seed=5, connected="correct")
    kinds = set()
    for g in range(len(store)):
        graph, part = graph_of(store, g), slice(int(store.node_ptr[g]), int(store.node_ptr[g + 1]))
        marker, value = store.x[part].double().T
        source = int(marker.argmax())
        assert marker.sum() == 1
        distances = dict(nx.all_pairs_shortest_path_length(graph))
        ecc = torch.tensor([max(distances[i].values()) for i in range(len(graph))])
        reach = torch.tensor([distances[source].get(i, 0) for i in range(len(graph))])
        laplacian = torch.from_numpy(nx.laplacian_matrix(graph, range(len(graph))).toarray())
        y_node = torch.stack([reach, ecc, laplacian.double() @ value], dim=1)
        torch.testing.assert_close(store.y_node[part].double(), y_node, atol=1e-4, rtol=0)
        connected, bipartite = nx.is_connected(graph), nx.is_bipartite(graph)
        radius = np.abs(np.linalg.eigvalsh(nx.to_numpy_array(graph))).max()
        y = torch.tensor([connected and not bipartite, int(ecc.max()), radius]).double()
        torch.testing.assert_close(store.y[g].double(), y, atol=1e-4, rtol=0)
        assert bool(truth.y[g, 0]) == connected
        assert torch.equal(truth.y[g, 1:], store.y[g, 1:])
        kinds.add((connected, bipartite))
    assert len(kinds) >= 3


def test_published_label_is_an_even_power_without_zeros() -> None:
    store = property_graphs([15], 100)
    for g in range(100):
        adjacency = nx.to_numpy_array(graph_of(store, g), range(15), dtype=np.float64)
        power = np.linalg.matrix_power(adjacency, 60)
        assert bool((power > 0).all()) == bool(store.y[g, 0])


def test_published_and_correct_labels_differ_on_half_of_the_test_graphs(
    generated: Generated,
) -> None:
    published = generated.unscaled[2]
    connected = [nx.is_connected(graph_of(published, g)) for g in range(len(published))]
    share = (torch.tensor(connected) != published.y[:, 0].bool()).double().mean()
    assert float(share) == pytest.approx(0.5, abs=0.01)


def test_splits_with_the_correct_label(few: None) -> None:
    splits = property_splits(connected="correct")
    connected = [nx.is_connected(graph_of(splits.test, g)) for g in range(len(splits.test))]
    assert splits.test.y[:, 0].tolist() == connected


@pytest.mark.parametrize("n", [6, 15, 17, 24])
def test_structures_that_networkx_builds_in_the_same_way(n: int) -> None:
    divisor = {6: 2, 15: 3, 17: 1, 24: 4}[n]
    for seed in range(40, 70):
        streams = _Streams(seed)
        p = random.Random(seed).random() * n / n
        assert _graph(n, properties_random._erdos_renyi(n, streams)).edges == (
            nx.fast_gnp_random_graph(n, p, seed=seed).edges
        )
        tree = properties_random._tree(n, streams)
        assert tree is not None
        assert _graph(n, tree).edges == nx.random_powerlaw_tree(n, seed=seed, tries=10_000).edges
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(divisor, n // divisor))
    ladder = nx.ladder_graph(n // 2)
    ladder.add_edges_from([(0, n - 1)] if n % 2 else [])
    for builder, expected in (
        (properties_random._grid, grid),
        (properties_random._caveman, nx.caveman_graph(divisor, n // divisor)),
        (properties_random._ladder, ladder),
        (properties_random._line, nx.path_graph(n)),
        (properties_random._star, nx.star_graph(n - 1)),
    ):
        assert _graph(n, builder(n, streams)).edges == expected.edges


def test_barabasi_albert_starts_from_isolated_nodes() -> None:
    for seed in range(60):
        streams = _Streams(seed)
        edges = properties_random._barabasi_albert(17, streams)
        m = int(random.Random(seed).random() * 16) + 1
        older: list[set[int]] = [set() for _ in range(17)]
        for new, target in edges:
            assert target < new
            older[new].add(target)
        assert [len(targets) for targets in older] == [0] * m + [m] * (17 - m)


@pytest.mark.parametrize("builder", ["_caterpillar", "_lobster"])
def test_caterpillars_and_lobsters_are_trees_that_shrink_to_a_path(builder: str) -> None:
    for seed in range(30):
        streams = _Streams(seed)
        graph = _graph(19, getattr(properties_random, builder)(19, streams))
        assert nx.is_tree(graph)
        for _ in range(1 if builder == "_caterpillar" else 2):
            graph.remove_nodes_from([node for node, degree in graph.degree if degree <= 1])
        assert max((degree for _, degree in graph.degree), default=0) <= 2


def test_degrees_without_a_tree_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties_random, "_TREE_DRAWS", 2)
    monkeypatch.setattr(properties_random, "_BUILDERS", (properties_random._tree,) * 10)
    graphs, seed = draw_graphs(12, 5, 0)
    assert seed > 50
    assert graphs.adjacency.any(axis=1).all()


def test_same_seed_same_graphs_and_global_state_is_left_alone() -> None:
    before = random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    a, b = property_graphs([15, 18], 30, seed=3), property_graphs([15, 18], 30, seed=3)
    assert torch.equal(a.edge_index, b.edge_index)
    assert torch.equal(a.x, b.x)
    other = property_graphs([15, 18], 30, seed=4)
    assert not torch.equal(a.x, other.x)
    assert random.getstate() == before[0]
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


def test_larger_test_sets_continue_the_benchmark(few: None) -> None:
    extrapolation = extrapolation_splits(graphs_per_size=8)
    assert torch.equal(extrapolation.splits.test.x, property_splits().test.x)
    assert list(extrapolation.larger) == ["20-24", "25-29", "30-34", "35-39", "40-44", "45-49"]
    for name, store in extrapolation.larger.items():
        low, high = map(int, name.split("-"))
        assert store.num_nodes.tolist() == [n for n in range(low, high + 1) for _ in range(8)]
        assert bool(store.y_node.isfinite().all())
    test, val = (one["45-49"] for one in (extrapolation.larger, extrapolation.larger_val))
    assert val.num_nodes.tolist() == [n for n in range(45, 50) for _ in range(2)]
    drawn = test.select([0, 1])  # other graphs, on the same scale
    assert not torch.equal(drawn.x[:, 1], val.select([0, 1]).x[:, 1])
    assert float(val.y[:, 1].max()) < 3 * float(test.y[:, 1].max())
    # Divided by the training maxima, targets of larger graphs exceed 1.
    assert float(extrapolation.larger["45-49"].y[:, 2].max()) > 1.5


def test_mean_predictor_has_the_known_errors(generated: Generated) -> None:
    """Predict the mean over training graphs; for node targets, of the means over nodes."""
    train, test = generated.splits.train, generated.splits.test
    weight = 1 / (node_sizes(train).double() * len(train))
    node_mean = (train.y_node.double() * weight[:, None]).sum(0)
    graph_mean = train.y.double().mean(0)
    node = log_mse_by_size(node_mean.expand_as(test.y_node), test.y_node, node_sizes(test))
    graph = log_mse_by_size(graph_mean.expand_as(test.y), test.y, test.num_nodes)
    expected = torch.tensor([-1.968, -1.622, -1.673, -0.618, -1.428, -1.496]).double()
    torch.testing.assert_close(torch.cat([node, graph]), expected, atol=6e-4, rtol=0)


def test_metric_by_hand() -> None:
    prediction = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 10.0]])
    error = log_mse_by_size(prediction, torch.zeros(3, 2), torch.tensor([5, 5, 7]))
    # Size 5: (1 + 9)/2 = 5 and 0; size 7: 0 and 100; means 2.5 and 50.
    torch.testing.assert_close(error, torch.tensor([2.5, 50.0]).double().log10())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: property_splits(connected="true"), r"connected is 'true'.*'published', 'correct'"),
        (lambda: property_graphs([], 5), "sizes is"),
        (lambda: property_graphs([2], 5), "sizes is"),
        (lambda: property_graphs([15], 0), "graphs_per_size is 0"),
        (lambda: property_graphs([15], 1, seed=-1), "seed is -1"),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def _graph(n: int, edges: list[tuple[int, int]]) -> nx.Graph:
    graph = nx.empty_graph(n)
    graph.add_edges_from(edges)
    return graph
