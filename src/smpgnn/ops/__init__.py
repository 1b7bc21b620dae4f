"""The hot operations on the rows of contexts.

Each has a plain form in torch and, for a GPU with Triton, fused kernels.
"""

from smpgnn.ops.affine import add_product
from smpgnn.ops.batch_norm import batch_norm
from smpgnn.ops.default_core import DefaultWeights, default_core
from smpgnn.ops.fast_core import fast_core
from smpgnn.ops.fold import NormState, fold
from smpgnn.ops.initial import initial_rows
from smpgnn.ops.moments import Moments, measure
from smpgnn.ops.neighbor import Lift, neighbor_sum, relu_neighbor_sum
from smpgnn.ops.pool import pool_contexts
from smpgnn.ops.recurrent import gated_state
from smpgnn.ops.routes import Neighbors, Routes, find_neighbors
from smpgnn.ops.set_map import set_linear
from smpgnn.ops.set_to_set import NodeSets, set_to_set
from smpgnn.ops.sparse import SparseSum, expand_rows, segment_max, segment_sum

__all__ = [
    "DefaultWeights",
    "Lift",
    "Moments",
    "Neighbors",
    "NodeSets",
    "NormState",
    "Routes",
    "SparseSum",
    "add_product",
    "batch_norm",
    "default_core",
    "expand_rows",
    "fast_core",
    "find_neighbors",
    "fold",
    "gated_state",
    "initial_rows",
    "measure",
    "neighbor_sum",
    "pool_contexts",
    "relu_neighbor_sum",
    "segment_max",
    "segment_sum",
    "set_linear",
    "set_to_set",
]
