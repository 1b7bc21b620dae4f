"""The fused kernels as operators of torch: visible to autograd, torch.compile and CUDA graphs.

Every operator has a plain counterpart in torch (the functions named `…_reference` in `smpgnn.ops`),
which serves on the CPU, for derivatives of higher order, and as the standard of the tests.
"""

from smpgnn.ops.cuda.edges import (
    aggregate,
    aggregate_backward,
    attention,
    attention_backward,
    gated_sum,
    gated_sum_backward,
    relu_sum,
    relu_sum_backward,
)
from smpgnn.ops.cuda.layers import (
    batch_norm,
    batch_norm_backward,
    default_core,
    default_core_backward,
    fast_core,
    fast_core_backward,
    fold,
    fold_backward,
    set_linear,
    set_linear_backward,
    set_linear_terms,
)
from smpgnn.ops.cuda.recurrent import (
    gated_state,
    gated_state_backward,
    set_to_set,
    set_to_set_backward,
)
from smpgnn.ops.cuda.reductions import (
    measure,
    measure_backward,
    pool,
    pool_backward,
    segment_max,
    segment_max_backward,
    segment_sum,
)
from smpgnn.ops.cuda.rivals import (
    column_sums,
    pairs,
    perceptron,
    perceptron_backward,
    squares,
)

__all__ = [
    "aggregate",
    "aggregate_backward",
    "attention",
    "attention_backward",
    "batch_norm",
    "batch_norm_backward",
    "column_sums",
    "default_core",
    "default_core_backward",
    "fast_core",
    "fast_core_backward",
    "fold",
    "fold_backward",
    "gated_state",
    "gated_state_backward",
    "gated_sum",
    "gated_sum_backward",
    "measure",
    "measure_backward",
    "pairs",
    "perceptron",
    "perceptron_backward",
    "pool",
    "pool_backward",
    "relu_sum",
    "relu_sum_backward",
    "segment_max",
    "segment_max_backward",
    "segment_sum",
    "set_linear",
    "set_linear_backward",
    "set_linear_terms",
    "set_to_set",
    "set_to_set_backward",
    "squares",
]
