"""Matrices of node pairs: transposes and products of graphs of different sizes in one batch."""

from __future__ import annotations

import pytest
import torch
from baseline_checks import pair_input
from hypothesis import given
from strategies import Structure, assert_same, batches, make_case, path, seeds, to_rows
from torch import Tensor

from smpgnn import InputError
from smpgnn.baselines.pairs import PairIndex
from smpgnn.baselines.ppgn import PPGN


def random_matrices(graphs: list[Structure], channels: int, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(n, n, channels, generator=generator, dtype=torch.float64) for n, _ in graphs
    ]


@given(graphs=batches(max_graphs=4), seed=seeds())
def test_products_and_transposes(graphs: list[Structure], seed: int) -> None:
    index = PairIndex.of(make_case(graphs).index("onehot"))
    left, right = (random_matrices(graphs, 3, seed + k) for k in range(2))
    expected = []
    for a, b in zip(left, right, strict=True):
        n = len(a)
        out = torch.zeros_like(a)
        for i in range(n):
            for j in range(n):
                for k in range(n):
                    out[i, j] += a[i, k] * b[k, j] / n**0.5
        expected.append(out)
    rows = to_rows(left).requires_grad_(), to_rows(right).requires_grad_()
    product = index.product(*rows)
    assert_same(product, to_rows(expected))
    product.square().sum().backward()
    assert all(r.grad is not None and r.grad.isfinite().all() for r in rows)
    transposed = to_rows([a.transpose(0, 1) for a in left])
    assert torch.equal(index.transposed(to_rows(left)), transposed)


@given(graphs=batches())
def test_the_input_is_identity_features_and_adjacency(graphs: list[Structure]) -> None:
    case = make_case(graphs)
    index = PairIndex.of(case.index("onehot"))
    expected = [pair_input(graph) for graph in case.graphs]
    assert torch.equal(index.initial(case.x, torch.float64).rows, to_rows(expected))


def test_an_index_of_other_rows_is_refused() -> None:
    case = make_case([path(9)])
    for scheme in ("coloring", "neighborhood"):
        with pytest.raises(InputError, match="one-hot"):
            PairIndex.of(case.index(scheme))
        with pytest.raises(InputError, match="onehot"):
            PPGN(0, 1, 4, 2, identifiers=scheme)
