"""Norms of rows: batch norm over all rows, each counted as often as it stands for a node."""

from __future__ import annotations

import oracle
import pytest
import torch
from hypothesis import given
from strategies import (
    EXACT,
    ODD,
    Structure,
    assert_same,
    batches,
    make_case,
    path,
    randomize,
    seeds,
    to_dense,
)

from smpgnn import InputError, LocalContext
from smpgnn.layers import RowBatchNorm, RowLayerNorm, row_norm


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("identifiers", EXACT)
@given(graphs=batches(max_nodes=8), seed=seeds())
def test_batch_norm_equals_the_oracle(
    identifiers: str, training: bool, graphs: list[Structure], seed: int
) -> None:
    """Statistics over all n² rows of all graphs, rows of a neighbourhood scheme written out."""
    index = make_case(graphs).index(identifiers)
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(index.num_rows, 3, generator=generator, dtype=torch.float64).requires_grad_()
    context = LocalContext(rows, index.layout)
    norm = randomize(RowBatchNorm(3), seed).train(training)
    norm.eps = RowBatchNorm(3).eps
    dense = to_dense(context, index)
    expected = oracle.batch_norm(norm, dense)
    statistics = [norm.running_mean.clone(), norm.running_var.clone()]
    if training and index.num_rows:
        statistics = list(oracle.running_statistics(norm, dense))
    actual = to_dense(norm(context), index)
    assert_same(actual, expected, norm, [rows])
    assert_same([norm.running_mean, norm.running_var], statistics)


@given(graphs=batches(), seed=seeds())
def test_layer_norm_equals_the_oracle(graphs: list[Structure], seed: int) -> None:
    index = make_case(graphs).index("onehot")
    rows = torch.randn(index.num_rows, 3, dtype=torch.float64).requires_grad_()
    norm = randomize(RowLayerNorm(3), seed)
    actual = norm(LocalContext(rows, index.layout)).rows
    assert_same(actual, oracle.layer_norm(norm, rows), norm, [rows])


def test_batch_norm_of_a_single_row_is_the_bias() -> None:
    index = make_case([ODD["single"]]).index("onehot")
    norm = randomize(RowBatchNorm(2)).train()
    rows = torch.tensor([[3.0, -4.0]], dtype=torch.float64, requires_grad=True)
    before = norm.running_mean.clone(), norm.running_var.clone()
    out = norm(LocalContext(rows, index.layout)).rows
    assert torch.equal(out[0], norm.bias)
    out.sum().backward()
    assert rows.grad.tolist() == [[0, 0]]
    assert_same(norm.running_mean, 0.9 * before[0] + 0.1 * rows[0].detach())
    assert_same(norm.running_var, 0.9 * before[1])


def test_batch_norm_of_no_rows_changes_no_statistics() -> None:
    index = make_case([ODD["empty"]]).index("onehot")
    norm = RowBatchNorm(2).train()
    assert norm(LocalContext(torch.zeros(0, 2), index.layout)).rows.shape == (0, 2)
    assert norm.running_mean.tolist() == [0, 0]
    assert norm.num_batches_tracked == 0


def test_batch_norm_counts_training_steps_with_multiplicities_too() -> None:
    index = make_case([path(9)]).index("neighborhood")
    norm = RowBatchNorm(2).train()
    for _ in range(3):
        norm(LocalContext(torch.randn(index.num_rows, 2), index.layout))
    assert norm.num_batches_tracked == 3


def test_names_of_norms() -> None:
    assert isinstance(row_norm("batch", 3), RowBatchNorm)
    assert isinstance(row_norm("layer", 3), RowLayerNorm)
    context = make_case([path(2)]).index("onehot").initial(None, torch.float64)
    assert row_norm(None, 3)(context) is context
    with pytest.raises(InputError, match="norm must be None or one of batch, layer"):
        row_norm("group", 3)
