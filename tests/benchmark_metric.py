"""The metric of the graph-properties benchmark, written down a second time."""

from __future__ import annotations

import torch
from torch import Tensor


def log_mse_by_size(prediction: Tensor, target: Tensor, size: Tensor) -> Tensor:
    """log10 of the squared error, averaged over graph sizes, [T].

    Shapes: prediction, target [R, T]; size [R], the number of nodes of each row's graph (a row
    is a graph or a node, depending on the targets).
    """
    count = torch.bincount(size)
    error = (prediction.double() - target.double()).square()
    total = error.new_zeros(count.numel(), error.size(1)).index_add_(0, size, error)
    present = count > 0
    return (total[present] / count[present, None]).mean(0).log10()
