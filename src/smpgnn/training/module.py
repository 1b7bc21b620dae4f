"""The one LightningModule: a network, a task, an optimiser and a schedule."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from smpgnn.data.store import GraphBatch
from smpgnn.options import TrainOptions
from smpgnn.training.schedule import Plateau, rate_factor
from smpgnn.training.tasks import Task


class GraphModule(pl.LightningModule):
    """Trains a network on a task.

    Every epoch starts from a seed made of the run's seed and its number, and the learning rate
    follows from the step, so a run that was interrupted goes on as if it had not been.
    """

    def __init__(self, network: nn.Module, task: Task, options: TrainOptions) -> None:
        super().__init__()
        self.network, self.task, self.options = network, task, options
        self.validation = task.metrics()
        self.plateau = Plateau(options.decay, options.decay_epochs)
        self.train_loss = 0.0
        self._losses: list[Tensor] = []

    def forward(self, batch: GraphBatch) -> Any:
        return run_network(self.network, batch)

    def on_train_epoch_start(self) -> None:
        seed = 1_000_003 * self.options.seed + self.current_epoch
        torch.manual_seed(seed + 7919 * self.global_rank)
        self._losses = []

    def on_train_batch_start(self, batch: GraphBatch, batch_idx: int) -> None:
        steps = int(self.trainer.num_training_batches)
        factor = rate_factor(self.options, self.current_epoch * steps + batch_idx, steps)
        if self.options.schedule == "plateau":
            factor *= self.plateau.scale
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = self.options.lr * factor

    def training_step(self, batch: GraphBatch, batch_idx: int) -> Tensor:
        loss = self.task.loss(self(batch), batch)
        if self.trainer.world_size > 1:
            loss = loss * self._share(batch)
        self._losses.append(loss.detach())
        return loss

    def _share(self, batch: GraphBatch) -> Tensor:
        """Processes may have unequal parts of a batch; their losses count by the known targets."""
        mine = torch.tensor(float(self.task.known(batch)), device=self.device)
        everyone = self.all_gather(mine)
        assert isinstance(everyone, Tensor)
        return mine * self.trainer.world_size / everyone.sum().clamp(min=1)

    def validation_step(self, batch: GraphBatch, batch_idx: int) -> None:
        self.task.update(self.validation, self(batch), batch)

    def on_validation_epoch_end(self) -> None:
        """The end of an epoch: its training steps are done, and so is the validation."""
        loss = torch.stack(self._losses).mean()
        self.log("train_loss", loss, sync_dist=self.trainer.world_size > 1)
        self.log("lr", float(self.trainer.optimizers[0].param_groups[0]["lr"]))
        values = {name: value.float() for name, value in self.task.results(self.validation).items()}
        self.validation.reset()
        for name, value in values.items():
            self.log(f"val_{name}", value)  # torchmetrics has already summed over the processes
        if self.options.schedule == "plateau":
            watched = float(values[self.task.monitor])
            self.plateau.report(-watched if self.task.larger_is_better else watched)
            if self.options.lr * self.plateau.scale < self.options.min_lr:
                self.trainer.should_stop = True

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["plateau"] = asdict(self.plateau)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.plateau = Plateau(**checkpoint["plateau"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        options, parameters = self.options, self.network.parameters()
        if options.optimizer == "sgd":
            return torch.optim.SGD(
                parameters, options.lr, momentum=options.momentum, weight_decay=options.weight_decay
            )
        kind = torch.optim.AdamW if options.optimizer == "adamw" else torch.optim.Adam
        return kind(parameters, options.lr, weight_decay=options.weight_decay)


def run_network(network: nn.Module, batch: GraphBatch) -> Any:
    """Call a network on a batch; edge features are given to those that take them."""
    backbone: Any = network.backbone
    edge_attr = batch.edge_attr if backbone.edge_channels else None
    return network(
        batch.x if backbone.in_channels else None,
        batch.edge_index,
        edge_attr,
        batch.batch,
        num_nodes=batch.num_nodes,
        batch_size=batch.num_graphs,
    )
