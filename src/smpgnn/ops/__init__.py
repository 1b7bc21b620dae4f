"""The few hot primitives on the rows of contexts."""

from smpgnn.ops.affine import add_product
from smpgnn.ops.neighbor import Lift, neighbor_sum, relu_neighbor_sum
from smpgnn.ops.sparse import SparseSum, expand_rows, segment_max, segment_sum

__all__ = [
    "Lift",
    "SparseSum",
    "add_product",
    "expand_rows",
    "neighbor_sum",
    "relu_neighbor_sum",
    "segment_max",
    "segment_sum",
]
