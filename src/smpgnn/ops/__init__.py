"""The hot operations on the rows of contexts.

Each has a plain form in torch and, for a GPU with Triton, fused kernels.
"""

from smpgnn.ops.batch_norm import batch_norm
from smpgnn.ops.cells import for_steps, gru_step, lstm_step
from smpgnn.ops.default_core import DefaultWeights, default_core
from smpgnn.ops.dense import Dense
from smpgnn.ops.fast_core import fast_core
from smpgnn.ops.fold import NormState, fold
from smpgnn.ops.gather import RowGather
from smpgnn.ops.initial import initial_rows
from smpgnn.ops.moments import Moments, measure
from smpgnn.ops.neighbor import Lift, neighbor_sum, relu_neighbor_sum
from smpgnn.ops.pool import pool_contexts
from smpgnn.ops.products import Triples, row_products
from smpgnn.ops.routes import Neighbors, Routes, find_neighbors
from smpgnn.ops.set_map import set_linear
from smpgnn.ops.sparse import SparseSum, expand_rows, segment_max, segment_sum

__all__ = [
    "DefaultWeights",
    "Dense",
    "Lift",
    "Moments",
    "Neighbors",
    "NormState",
    "Routes",
    "RowGather",
    "SparseSum",
    "Triples",
    "batch_norm",
    "default_core",
    "expand_rows",
    "fast_core",
    "find_neighbors",
    "fold",
    "for_steps",
    "gru_step",
    "initial_rows",
    "lstm_step",
    "measure",
    "neighbor_sum",
    "pool_contexts",
    "relu_neighbor_sum",
    "row_products",
    "segment_max",
    "segment_sum",
    "set_linear",
]
