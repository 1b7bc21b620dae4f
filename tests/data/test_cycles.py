"""Cycle graphs: exact labels, balance, twins and reproducibility."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from smpgnn.data import cycles
from smpgnn.data.cycles import (
    BALANCES,
    CYCLE_SIZES,
    OOD_SIZES,
    SIDE_NODES,
    Balance,
    cycle_graphs,
    cycle_splits,
)
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError

CELLS = [(k, n) for k, sizes in CYCLE_SIZES.items() for n in sizes]
LARGEST = [(4, 36), (6, 56), (8, 72)]


def neighbours(store: GraphStore, g: int) -> list[list[int]]:
    """The neighbour lists of graph g."""
    lists: list[list[int]] = [[] for _ in range(int(store.num_nodes[g]))]
    part = slice(int(store.edge_ptr[g]), int(store.edge_ptr[g + 1]))
    for a, b in store.edge_index[:, part].T.tolist():
        lists[a].append(b)
    return lists


def has_cycle(lists: list[list[int]], k: int) -> bool:
    """Exact search for a simple cycle of k nodes: extend paths whose first node is the smallest."""

    def extend(path: list[int]) -> bool:
        if len(path) == k:
            return path[0] in lists[path[-1]]
        return any(extend([*path, b]) for b in lists[path[-1]] if b > path[0] and b not in path)

    return any(extend([start]) for start in range(len(lists)))


def degrees(store: GraphStore) -> torch.Tensor:
    """How many nodes of each graph have degree 0..9, [G, 10]."""
    batch = store.batch()
    degree = torch.bincount(batch.edge_index[0], minlength=batch.num_nodes)
    count = torch.zeros(len(store), 10)
    return count.index_put_((batch.batch, degree), torch.ones(batch.num_nodes), accumulate=True)


def equal(a: GraphStore, b: GraphStore) -> bool:
    assert a.y is not None
    assert b.y is not None
    return (
        torch.equal(a.node_ptr, b.node_ptr)
        and torch.equal(a.edge_ptr, b.edge_ptr)
        and torch.equal(a.edge_index, b.edge_index)
        and torch.equal(a.y, b.y)
    )


def test_search_finds_the_cycles_of_known_graphs() -> None:
    ring = [[5, 1], [0, 2], [1, 3], [2, 4], [3, 5], [4, 0]]
    assert [has_cycle(ring, k) for k in (3, 4, 5, 6, 7)] == [False, False, False, True, False]
    complete = [[b for b in range(4) if b != a] for a in range(4)]
    assert [has_cycle(complete, k) for k in (3, 4, 5)] == [True, True, False]


@pytest.mark.parametrize("balance", BALANCES)
@pytest.mark.parametrize(("k", "n"), CELLS)
def test_label_is_the_presence_of_a_cycle_of_length_k(k: int, n: int, balance: Balance) -> None:
    store = cycle_graphs(k, n, 120, balance=balance, seed=3)
    assert store.y is not None
    found = [has_cycle(neighbours(store, g), k) for g in range(len(store))]
    assert found == (store.y[:, 0] == 1).tolist()


@pytest.mark.parametrize("balance", BALANCES)
@pytest.mark.parametrize(("k", "n"), CELLS)
def test_counts_are_those_of_the_recipe(k: int, n: int, balance: Balance) -> None:
    store = cycle_graphs(k, n, 400, balance=balance, seed=0)
    p = SIDE_NODES[CYCLE_SIZES[k].index(n)]
    edges = store.num_edges // 2
    paths = (edges - p) // (k // 2 - 1)
    assert torch.equal(edges, p + paths * (k - 2) // 2)
    assert torch.equal(store.num_nodes, 2 * p + paths * (k - 4) // 2)
    assert paths.min() >= 0
    # p/sqrt(2) paths are expected; positives and graphs that allow a switch have a few more.
    assert 0.9 * p / 2**0.5 < paths.double().mean() < 1.6 * p / 2**0.5
    assert store.x is None
    assert store.y is not None
    assert store.y.dtype == torch.int64
    # Simple and undirected, and sorted, so that their order reveals nothing.
    batch = store.batch()
    code = batch.edge_index[0] * batch.num_nodes + batch.edge_index[1]
    back = batch.edge_index[1] * batch.num_nodes + batch.edge_index[0]
    assert bool((code[1:] > code[:-1]).all())
    assert torch.equal(back.sort().values, code)
    assert bool((batch.edge_index[0] != batch.edge_index[1]).all())


def test_sizes_and_degrees_are_near_those_of_the_published_data() -> None:
    """The maximal size and degree in 20,000 graphs of the largest cells: 36, 65, 90 and 7, 7, 8."""
    for (k, n), largest in zip(LARGEST, (36, 65, 90), strict=True):
        store = cycle_graphs(k, n, 5_000, seed=0)
        assert 0.9 * largest <= int(store.num_nodes.max()) <= 1.1 * largest
        assert 6 <= int(degrees(store).sum(0).nonzero().max()) <= 8
    assert float(store.num_nodes.double().mean()) == pytest.approx(62, abs=0.5)  # k=8, n=72


@pytest.mark.parametrize("balance", BALANCES)
def test_every_pair_holds_both_classes_in_random_order(balance: Balance) -> None:
    store = cycle_graphs(6, 31, 3000, balance=balance, seed=1)
    assert store.y is not None
    pairs = store.y.view(-1, 2)
    assert bool((pairs.sum(1) == 1).all())
    assert 0.45 < float(pairs[:, 0].double().mean()) < 0.55


@pytest.mark.parametrize(("k", "n"), CELLS)
def test_twins_agree_in_nodes_edges_and_degrees(k: int, n: int) -> None:
    store = cycle_graphs(k, n, 400, balance="matched", seed=5)
    assert torch.equal(store.num_nodes[::2], store.num_nodes[1::2])
    assert torch.equal(store.num_edges[::2], store.num_edges[1::2])
    count = degrees(store)
    assert torch.equal(count[::2], count[1::2])


@pytest.mark.parametrize("balance", BALANCES)
def test_same_seed_same_graphs_and_smaller_is_the_beginning(balance: Balance) -> None:
    full = cycle_splits(6, 56, balance=balance, seed=7, train=1100, val=100, test=300)
    again = cycle_splits(6, 56, balance=balance, seed=7, train=1100, val=100, test=20)
    assert equal(again.train, full.train)
    assert equal(again.val, full.val)
    assert equal(again.test, full.test.select(range(20)))
    for count in (1, 500, 1024, 1025):
        small = cycle_graphs(6, 56, count, balance=balance, seed=7)
        assert equal(small, full.train.select(range(count)))
    assert not equal(
        cycle_graphs(6, 56, 500, balance=balance, seed=8), full.train.select(range(500))
    )


def test_global_random_state_is_left_alone() -> None:
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    cycle_graphs(4, 12, 10, seed=0)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


def test_splits_are_drawn_separately_and_have_the_sizes_of_the_paper() -> None:
    splits = cycle_splits(8, 72, seed=0)
    assert [len(s) for s in (splits.train, splits.val, splits.test)] == [10_000, 1_000, 10_000]
    for store in (splits.train, splits.val, splits.test):
        assert store.y is not None
        assert float(store.y.double().mean()) == 0.5
    assert not equal(splits.train.select(range(1000)), splits.val)
    assert not equal(splits.train, splits.test)


@pytest.mark.parametrize("k", CYCLE_SIZES)
def test_out_of_distribution_splits_are_those_of_three_cells(k: int) -> None:
    splits = cycle_splits(k, None, seed=2, train=60, val=20, test=40)
    for name, n in zip(("train", "val", "test"), OOD_SIZES[k], strict=True):
        cell = cycle_splits(k, n, seed=2, train=60, val=20, test=40)
        assert equal(getattr(splits, name), getattr(cell, name))


def test_node_order_is_shuffled() -> None:
    """Without shuffling, node 0 would always have a match and side edges, an inner node never."""
    store = cycle_graphs(8, 72, 2000, seed=0)
    batch = store.batch()
    degree = torch.bincount(batch.edge_index[0], minlength=batch.num_nodes).double()
    mean = degree.mean()
    first, last = degree[store.node_ptr[:-1]].mean(), degree[store.node_ptr[1:] - 1].mean()
    assert abs(first - mean) < 0.1
    assert abs(last - mean) < 0.1
    matched = [
        int(p + SIDE_NODES[-1]) in neighbours(store, g)[p] for g in range(200) for p in (0, 1)
    ]
    assert np.mean(matched) < 0.2


@pytest.mark.parametrize(("k", "n"), LARGEST)
def test_counting_finds_a_shortcut_in_independent_but_not_in_matched_graphs(k: int, n: int) -> None:
    """Logistic regression on node count, edge count and degree histogram."""

    def accuracy(balance: Balance) -> float:
        splits = cycle_splits(k, n, balance=balance, seed=0, train=1000, val=2, test=1000)
        features = [
            torch.cat([s.num_nodes[:, None], s.num_edges[:, None], degrees(s)], dim=1).double()
            for s in (splits.train, splits.test)
        ]
        mean, std = features[0].mean(0), features[0].std(0).clamp(min=1e-6)
        train, test = ((f - mean) / std for f in features)
        assert splits.train.y is not None
        assert splits.test.y is not None
        weight = torch.zeros(train.size(1), 1, dtype=torch.double, requires_grad=True)
        bias = torch.zeros(1, dtype=torch.double, requires_grad=True)
        step = torch.optim.LBFGS([weight, bias], max_iter=50)

        def loss() -> torch.Tensor:
            step.zero_grad()
            value = (
                torch.nn.functional.binary_cross_entropy_with_logits(
                    train @ weight + bias, splits.train.y.double()
                )
                + 1e-3 * weight.square().sum()
            )
            value.backward()
            return value

        step.step(loss)
        with torch.no_grad():
            return float(((test @ weight + bias > 0) == (splits.test.y == 1)).double().mean())

    assert accuracy("matched") == pytest.approx(0.5, abs=0.02)
    assert accuracy("independent") > 0.6


@pytest.mark.parametrize("balance", BALANCES)
@pytest.mark.parametrize(("k", "n"), CELLS)
def test_few_graphs_are_discarded(
    k: int, n: int, balance: Balance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work bound: the graphs drawn for one block of 1024 stay below 16 blocks."""
    drawn = 0
    draw = cycles._draw

    def counted(cell: cycles._Cell, rng: np.random.Generator) -> cycles.Sides:
        nonlocal drawn
        drawn += 1
        return draw(cell, rng)

    monkeypatch.setattr(cycles, "_draw", counted)
    cycle_graphs(k, n, 10, balance=balance, seed=0)
    assert 1 <= drawn <= 16


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cycle_graphs(5, 12, 10, seed=0), r"k is 5.*\(4, 6, 8\)"),
        (lambda: cycle_splits(10, None, seed=0), r"k is 10.*\(4, 6, 8\)"),
        (lambda: cycle_graphs(4, 56, 10, seed=0), r"n is 56.*k=4.*\(12, 20, 28, 36\)"),
        (
            lambda: cycle_splits(4, 12, balance="even", seed=0),
            r"balance is 'even'.*'independent', 'matched'",
        ),
        (lambda: cycle_graphs(4, 12, 0, seed=0), "num_graphs is 0"),
        (lambda: cycle_splits(4, 12, seed=0, val=0), "val is 0"),
        (lambda: cycle_graphs(4, 12, 10, seed=-1), "seed is -1"),
    ],
)
def test_bad_arguments_are_named_with_the_valid_values(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        call()
