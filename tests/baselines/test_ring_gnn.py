"""Ring-GNN: its 15 operations are the equality patterns of four indices, its layer their product.

The operations are taken from the definition of Maron et al.: for each way to put the indices
(i, j, k, l) into groups, out[i, j] is the sum of T[k, l] over all k, l such that indices of a group
are equal, divided by n for each group that holds no index of the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import oracle
import pytest
import torch
from baseline_checks import OPTIONS, convolution, make, pair_input, width
from hypothesis import given
from oracle import DenseGraph
from strategies import Structure, assert_same, batches, make_case, seeds, to_rows
from torch import Tensor

from smpgnn import ContextIndex, LocalContext, Topology
from smpgnn.baselines.pairs import PairIndex
from smpgnn.baselines.ring_gnn import PairLinear, RingGNN, RingGNNLayer
from smpgnn.data.cycles import cycle_graphs

#: The group of each of the indices i, j, k, l, groups numbered in the order they come up.
PATTERNS = [
    groups
    for groups in product(range(4), repeat=4)
    if all(group <= max(groups[:place], default=-1) + 1 for place, group in enumerate(groups))
]

#: The patterns in the order of the weights of `PairLinear`.
ORDER = [
    (0, 1, 0, 1), (0, 1, 1, 0),
    (0, 1, 0, 0), (0, 1, 0, 2), (0, 1, 2, 0),
    (0, 1, 1, 1), (0, 1, 1, 2), (0, 1, 2, 1),
    (0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 0),
    (0, 1, 2, 3), (0, 1, 2, 2),
    (0, 0, 1, 2), (0, 0, 1, 1),
]  # fmt: skip


def operation(pattern: tuple[int, ...], n: int) -> Tensor:
    """The tensor E[i, j, k, l] of a pattern."""
    e = torch.zeros(n, n, n, n, dtype=torch.float64)
    sums = len(set(pattern[2:]) - set(pattern[:2]))
    for at in product(range(n), repeat=4):
        pairs = [(a, b) for a in range(4) for b in range(a) if pattern[a] == pattern[b]]
        if all(at[a] == at[b] for a, b in pairs):
            e[at] = 1 / n**sums
    return e


def dense_linear(layer: PairLinear, t: Tensor) -> Tensor:
    n = len(t)
    out = layer.bias[0] + torch.eye(n, dtype=t.dtype).unsqueeze(2) * layer.bias[1]
    for number, pattern in enumerate(ORDER):
        moved = torch.einsum("ijkl,klc->ijc", operation(pattern, n), t)
        out = out + moved @ layer.weight[number]
    return out


def dense_layer(layer: RingGNNLayer, t: Tensor, graph: DenseGraph) -> Tensor:
    """k1 relu(L1 T) + k2 relu(L2 T @ L3 T / √n); t [n, n, C]."""
    first, second, third = dense_linear(layer.maps, t).chunk(3, dim=2)
    both = torch.einsum("ikc,kjc->ijc", second, third) / graph.num_nodes**0.5
    return layer.k[0] * first.clamp(min=0) + layer.k[1] * both.clamp(min=0)


def test_there_are_15_patterns_and_each_is_used_once() -> None:
    assert len(PATTERNS) == 15
    assert sorted(ORDER) == sorted(PATTERNS)


def permutations(n: int) -> tuple[Tensor, Tensor]:
    """A swap and a rotation, which generate all permutations, as matrices."""
    unit = torch.eye(n, dtype=torch.float64)
    return unit[[1, 0, *range(2, n)]], unit.roll(1, 0)


def fixed(actions: Sequence[Tensor]) -> Tensor:
    """A basis [K, N] of the vectors that all these matrices [N, N] leave as they are."""
    moves = torch.cat([action - torch.eye(len(action), dtype=action.dtype) for action in actions])
    values, vectors = torch.linalg.eigh(moves.T @ moves)
    return vectors.T[values < 1e-10]


def test_the_operations_and_biases_span_all_equivariant_maps() -> None:
    """All that commutes with permutations of the nodes, found as a null space."""
    n = 5
    on_matrices = [torch.kron(p, p) for p in permutations(n)]
    maps, biases = fixed([torch.kron(q, q) for q in on_matrices]), fixed(on_matrices)
    operations = torch.stack([operation(pattern, n).flatten() for pattern in ORDER])
    ours = torch.stack([torch.ones(n, n), torch.eye(n)]).double().flatten(1)
    for basis, found, count in ((maps, operations, 15), (biases, ours, 2)):
        assert len(basis) == len(found) == count
        assert torch.linalg.matrix_rank(found) == count
        assert torch.linalg.matrix_rank(torch.cat([basis, found])) == count


@pytest.mark.parametrize("number", range(15))
def test_each_operation_is_its_pattern(number: int) -> None:
    layer = PairLinear(1, 1).double()
    with torch.no_grad():
        layer.weight.zero_()[number] = 1
        layer.bias.zero_()
    sizes = (1, 2, 3, 4)
    # One graph for each entry (k, l): the matrix that is 1 there gives the column of E.
    structures = [(n, ()) for n in sizes for _ in range(n * n)]
    index = PairIndex.of(make_case(structures).index("onehot"))
    units = [torch.eye(n * n, dtype=torch.float64).reshape(-1, n, n, 1) for n in sizes]
    rows = to_rows([matrix for unit in units for matrix in unit])
    expected = to_rows(
        [
            operation(ORDER[number], n).permute(2, 3, 0, 1).reshape(n * n, n, n, 1)[at]
            for n in sizes
            for at in range(n * n)
        ]
    )
    assert_same(layer(LocalContext(rows, index.layout), index), expected)


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(max_nodes=4), seed=seeds())
def test_equals_the_dense_transcription(
    options: dict[str, Any], training: bool, graphs: list[Structure], seed: int
) -> None:
    options = {**options, "num_layers": 2}
    model = make(RingGNN, options, seed).train(training)
    case = make_case(graphs, width(options), 0, seed)
    with convolution(dense_layer, pair_input):
        expected = oracle.smp(model, case.graphs)
    assert_same(case.call(model), expected, model, case.leaves())


def test_at_first_pairs_have_values_of_their_own() -> None:
    """The rows of a fresh network are more than a value for each i plus one for each j.

    If all 15 operations start alike, this part has a fifth of the variance.
    """
    torch.manual_seed(0)
    batch = cycle_graphs(6, 56, 4, seed=0).batch()
    topology = Topology.checked(batch.edge_index, batch.batch)
    model = RingGNN(0, 2, 16, 6, norm="batch", residual=True)
    index = PairIndex.of(ContextIndex.build(topology, "onehot", 6))
    rows = model.backbone(None, None, index)[-1].rows
    whole, own = torch.zeros(2)
    for matrix in rows.split(topology.graph_size.square().tolist()):
        n = math.isqrt(len(matrix))
        apart = ~torch.eye(n, dtype=torch.bool)
        t = matrix.view(n, n, -1)
        t = t - t.mean((0, 1))
        rest = t - t.mean(0, keepdim=True) - t.mean(1, keepdim=True)
        whole, own = whole + t[apart].square().sum(0), own + rest[apart].square().sum(0)
    assert (own / whole).mean() > 0.8
