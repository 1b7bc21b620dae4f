"""Metrics of torchmetrics: that of the graph-properties benchmark, and those of your own data."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from smpgnn.data.store import GraphBatch


class LogMSEBySize(Metric):
    r"""log10 of the squared error of the six graph properties, averaged over graph sizes.

    As published, with the mean squared error :math:`e_{t,n}` of target t on graphs of n nodes:

    .. math:: \frac16 \sum_t \log_{10} \operatorname{mean}_n e_{t,n}
    """

    full_state_update = False
    largest = 1024

    def __init__(self) -> None:
        super().__init__()
        self.node_error: Tensor
        self.graph_error: Tensor
        self.graphs: Tensor
        for name, width in (("node_error", 3), ("graph_error", 3)):
            zeros = torch.zeros(self.largest, width, dtype=torch.float64)
            self.add_state(name, zeros, dist_reduce_fx="sum")
        self.add_state(
            "graphs", torch.zeros(self.largest, dtype=torch.float64), dist_reduce_fx="sum"
        )

    def update(self, nodes: Tensor, graphs: Tensor, batch: GraphBatch) -> None:
        assert batch.y is not None
        assert batch.y_node is not None
        size = torch.bincount(batch.batch, minlength=batch.num_graphs)
        self.node_error.index_add_(0, size[batch.batch], (nodes - batch.y_node).double().square())
        self.graph_error.index_add_(0, size, (graphs - batch.y).double().square())
        self.graphs.index_add_(0, size, torch.ones_like(size, dtype=torch.float64))

    def by_target(self) -> Tensor:
        """log10 of the error of dist, ecc, lap, conn, diam, rad, [6]."""
        there = self.graphs > 0
        size = torch.arange(self.largest, device=self.graphs.device)[there].unsqueeze(1)
        count = self.graphs[there].unsqueeze(1)
        nodes = self.node_error[there] / (count * size)
        graphs = self.graph_error[there] / count
        return torch.cat([nodes.mean(0), graphs.mean(0)]).log10()

    def compute(self) -> Tensor:
        return self.by_target().mean()


class Scores(Metric):
    """Keeps outputs and targets of all batches, and scores them together.

    Args:
        score: computes the metrics from both, in float64 on the CPU.
    """

    full_state_update = False

    def __init__(self, score: Callable[[Tensor, Tensor], dict[str, Tensor]]) -> None:
        super().__init__()
        self.score = score
        self.output: list[Tensor]
        self.target: list[Tensor]
        for name in ("output", "target"):
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(self, output: Tensor, target: Tensor) -> None:
        self.output.append(output.detach().float().clone())  # a captured step overwrites its output
        self.target.append(target.detach().clone())

    def compute(self) -> dict[str, Tensor]:
        output, target = dim_zero_cat(self.output), dim_zero_cat(self.target)
        return self.score(output.cpu().double(), target.cpu().double())
