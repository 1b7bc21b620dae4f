"""Sums of products without a pass for each sum."""

from __future__ import annotations

from torch import Tensor


def add_product(total: Tensor, rows: Tensor, matrix: Tensor) -> Tensor:
    """total + rows · matrix, written into `total`, which must be fresh and of no further use.

    The product is made in the precision of `total`; gradients flow to all three.

    Shapes: total [P, D], rows [P, C], matrix [C, D].
    """
    return total.addmm_(rows.to(total.dtype), matrix.to(total.dtype))
