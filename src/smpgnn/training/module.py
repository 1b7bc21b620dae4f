"""The one LightningModule: a network, a task, an optimiser and a schedule."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.core.optimizer import LightningOptimizer
from torch import Tensor, nn

from smpgnn.capture.steps import Recorder
from smpgnn.config.options import TrainOptions
from smpgnn.data.store import GraphBatch
from smpgnn.training.average import WeightAverage
from smpgnn.training.network import run_network
from smpgnn.training.run_folder import settings
from smpgnn.training.schedule import Plateau, rate_factor
from smpgnn.training.tasks import Task


class GraphModule(pl.LightningModule):
    """Trains a network on a task.

    With `options.average` the network that is validated is the average of its weights (`average`).
    Every epoch starts from a seed made of the run's seed and its number, and the learning rate
    follows from the step, so a run that was interrupted goes on as if it had not been.
    """

    def __init__(self, network: nn.Module, task: Task, options: TrainOptions) -> None:
        super().__init__()
        self.network, self.task, self.options = network, task, options
        self.objective = task.make_objective()
        self.average = WeightAverage(network, options.average) if options.average else None
        self._recorder: Recorder | None = None
        self.validation = task.metrics()
        self.plateau = Plateau(options.decay, options.decay_epochs)
        self.train_loss = 0.0
        self._losses: list[Tensor] = []

    def forward(self, batch: GraphBatch) -> Any:
        return run_network(self.network, batch)

    @property
    def evaluated(self) -> nn.Module:
        """The network to validate and to keep: the one that is trained, or its average."""
        return self.network if self.average is None else self.average.network

    def record(self, recorder: Recorder) -> None:
        """Train by recorded steps; batches are then the numbers of the graphs."""
        self._recorder = recorder
        self.automatic_optimization = False

    def on_train_start(self) -> None:
        if self.average is not None:
            self.average.follow(self.network)
        if self._recorder is not None:
            self._recorder.record()

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

    def on_train_batch_end(self, outputs: Any, batch: GraphBatch, batch_idx: int) -> None:
        if self.average is not None:
            self.average.update(self.global_step)

    def training_step(self, batch: GraphBatch | Tensor, batch_idx: int) -> Tensor | None:
        if self._recorder is not None:
            assert isinstance(batch, Tensor)
            self._losses.append(self._recorder.step(batch))
            optimizer = self.optimizers()
            assert isinstance(optimizer, LightningOptimizer)
            optimizer.step()
            return None
        assert isinstance(batch, GraphBatch)
        loss: Tensor = self.objective(self(batch), batch)
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

    def validation_step(self, batch: GraphBatch | Tensor, batch_idx: int) -> None:
        if isinstance(batch, Tensor):
            assert self._recorder is not None
            output, batch = self._recorder.outputs(batch)
        else:
            output = run_network(self.evaluated, batch)
        self.task.update(self.validation, output, batch)

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
        checkpoint["settings"] = settings(self.options)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.plateau = Plateau(**checkpoint["plateau"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        options, parameters = self.options, self.network.parameters()
        if options.optimizer == "sgd":
            return torch.optim.SGD(
                parameters, options.lr, momentum=options.momentum, weight_decay=options.weight_decay
            )
        kind = torch.optim.AdamW if options.optimizer == "adamw" else torch.optim.Adam
        fused = True if self.device.type == "cuda" else None  # one launch instead of a dozen
        return kind(parameters, options.lr, weight_decay=options.weight_decay, fused=fused)
