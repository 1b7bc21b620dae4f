"""Sums over fixed sets of rows: values, and gradients against finite differences."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import assert_same, seeds
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from smpgnn.contexts.topology import pointer
from smpgnn.ops import SparseSum, expand_rows, segment_max, segment_sum
from smpgnn.ops.sparse import segment_matrices, sparse_apply


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def segments_of(sizes: list[int]) -> tuple[Tensor, Tensor]:
    owner = torch.tensor([k for k, size in enumerate(sizes) for _ in range(size)]).long()
    return pointer(torch.tensor(sizes)), owner


def sparse_pair(dense: Tensor) -> tuple[SparseSum, SparseSum]:
    """A dense matrix [R, Q] and its transpose as `SparseSum`s."""

    def compress(matrix: Tensor) -> SparseSum:
        rows, columns = torch.nonzero(matrix, as_tuple=True)
        sizes = torch.bincount(rows, minlength=matrix.size(0))
        return SparseSum(pointer(sizes), columns, matrix[rows, columns])

    return compress(dense), compress(dense.t())


MATRIX = torch.tensor([[0.0, 2, 0], [1, 0, -1], [0, 0, 0], [3, 1, 1]], dtype=torch.float64)


def test_sparse_apply_is_the_matrix_product() -> None:
    rows = random(3, 2)
    assert_same(sparse_apply(rows, *sparse_pair(MATRIX)), MATRIX @ rows, None, [rows])


def test_sparse_apply_has_first_and_second_derivatives() -> None:
    pair = sparse_pair(MATRIX)
    rows = random(3, 2)
    assert gradcheck(lambda r: sparse_apply(r, *pair), [rows])
    assert gradgradcheck(lambda r: sparse_apply(r, *pair), [rows])
    assert gradgradcheck(lambda r: sparse_apply(r, *pair).square(), [rows])


SIZES = st.lists(st.integers(0, 4), min_size=1, max_size=5)


@pytest.mark.parametrize("weighted", [False, True])
@given(sizes=SIZES, seed=seeds())
def test_segment_sum_and_its_gradient(weighted: bool, sizes: list[int], seed: int) -> None:
    ptr, owner = segments_of(sizes)
    rows = random(sum(sizes), 2, seed=seed)
    weight = torch.arange(sum(sizes)) % 3 if weighted else None
    pair = segment_matrices(ptr, owner, weight)
    scaled = rows if weight is None else rows * weight.unsqueeze(1)
    expected = torch.stack([part.sum(0) for part in scaled.split(sizes)])
    assert_same(segment_sum(rows, *pair), expected, None, [rows])
    if rows.numel():
        assert gradcheck(lambda r: segment_sum(r, *pair), [rows])
        assert gradgradcheck(lambda r: segment_sum(r, *pair), [rows])


@given(sizes=SIZES, seed=seeds())
def test_expand_rows_and_its_gradient(sizes: list[int], seed: int) -> None:
    ptr, owner = segments_of(sizes)
    values = random(len(sizes), 2, seed=seed)
    pair = segment_matrices(ptr, owner)
    assert_same(expand_rows(values, *pair), values[owner], None, [values])
    if owner.numel():
        assert gradcheck(lambda v: expand_rows(v, *pair), [values])
        assert gradgradcheck(lambda v: expand_rows(v, *pair), [values])


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4), seed=seeds())
def test_segment_max_and_its_gradient(sizes: list[int], seed: int) -> None:
    ptr, owner = segments_of(sizes)
    rows = random(sum(sizes), 2, seed=seed)
    expected = torch.stack([part.amax(0) for part in rows.split(sizes)])
    assert_same(segment_max(rows, ptr, owner), expected, None, [rows])
    assert gradcheck(lambda r: segment_max(r, ptr, owner), [rows])


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4), seed=seeds())
def test_segment_max_leaves_out_rows_of_weight_zero(sizes: list[int], seed: int) -> None:
    ptr, owner = segments_of(sizes)
    rows = random(sum(sizes), 2, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randint(0, 4, (sum(sizes),), generator=generator)
    weight[ptr[:-1]] = weight[ptr[:-1]].clamp(min=1)
    expected = torch.stack(
        [
            part[w > 0].amax(0)
            for part, w in zip(rows.split(sizes), weight.split(sizes), strict=True)
        ]
    )
    assert_same(segment_max(rows, ptr, owner, weight), expected, None, [rows])
    assert gradcheck(lambda r: segment_max(r, ptr, owner, weight), [rows])


def test_equal_largest_rows_share_the_gradient_by_weight() -> None:
    """As so many separate rows would: weights 1 and 3 stand for four equal rows."""
    ptr, owner = segments_of([4])
    rows = torch.tensor([[5.0], [5.0], [1.0], [5.0]], requires_grad=True)
    segment_max(rows, ptr, owner, torch.tensor([1, 3, 7, 0])).backward(torch.tensor([[8.0]]))
    assert rows.grad.flatten().tolist() == [2, 6, 0, 0]


def test_nothing_to_sum_gives_zeros() -> None:
    pair = segment_matrices(*segments_of([0, 0]))
    rows = torch.zeros(0, 3, dtype=torch.float64, requires_grad=True)
    out = segment_sum(rows, *pair)
    assert out.tolist() == [[0, 0, 0], [0, 0, 0]]
    out.sum().backward()
    assert rows.grad.shape == (0, 3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_large_weights_are_not_rounded_to_half_precision(dtype: torch.dtype) -> None:
    """257 is no bfloat16 and 2049 no float16: the products are formed in float32."""
    number = 257 if dtype == torch.bfloat16 else 2049
    ptr, owner = segments_of([2])
    collect, spread = segment_matrices(ptr, owner, torch.tensor([number, 1]))
    rows = torch.tensor([[1.0], [-float(number - 1)]]).to(dtype)
    assert segment_sum(rows, collect, spread).item() == 1.0


def test_rows_need_not_be_contiguous() -> None:
    pair = segment_matrices(*segments_of([2, 1]))
    rows = random(2, 3).t()
    assert_same(segment_sum(rows, *pair), torch.stack([rows[0] + rows[1], rows[2]]))
