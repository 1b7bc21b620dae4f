"""The one LightningModule: a network, a task, an optimiser and a schedule."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.core.optimizer import LightningOptimizer
from torch import Tensor, nn

from smpgnn.capture.steps import can_capture
from smpgnn.config.options import TrainOptions
from smpgnn.data.base import Splits
from smpgnn.data.store import GraphBatch
from smpgnn.training.loader import store_bytes
from smpgnn.training.run_folder import settings
from smpgnn.training.schedule import Plateau, rate_factor
from smpgnn.training.steps import EvaluationStep, TrainingStep
from smpgnn.training.tasks import Task


class GraphModule(pl.LightningModule):
    """Trains a network on a task.

    Batches are the indices of their graphs. Every epoch starts from a seed made of the run's seed
    and its number, and the learning rate follows from the step, so a resumed run continues as if it
    had not been interrupted.
    """

    def __init__(self, network: nn.Module, task: Task, options: TrainOptions) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.network, self.task, self.options = network, task, options
        self.objective = task.make_objective()
        self.validation = task.metrics()
        self.plateau = Plateau(options.decay, options.decay_epochs)
        self._losses: list[Tensor] = []

    def on_train_start(self) -> None:
        options, splits = self.options, self.trainer.datamodule.splits  # type: ignore[attr-defined]
        capture = captures_steps(options, self.network, splits, self.device)
        self._step = TrainingStep(
            self.network,
            self.objective,
            splits.train,
            options.batch_size,
            clip=options.clip,
            precision=options.precision,
            capture=capture,
            weight=self._share if self.trainer.world_size > 1 else None,
            backward=self.manual_backward,
        )
        self._evaluation = EvaluationStep(
            self.network,
            splits.val,
            options.batch_size,
            precision=options.precision,
            capture=capture,
        )

    def on_train_epoch_start(self) -> None:
        seed = 1_000_003 * self.options.seed + self.current_epoch
        torch.manual_seed(seed + 7919 * self.global_rank)
        self._losses = []

    def on_train_batch_start(self, batch: Tensor, batch_idx: int) -> None:
        steps = int(self.trainer.num_training_batches)
        factor = rate_factor(self.options, self.current_epoch * steps + batch_idx, steps)
        if self.options.schedule == "plateau":
            factor *= self.plateau.scale
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = self.options.lr * factor

    def training_step(self, graphs: Tensor, batch_idx: int) -> None:
        self._losses.append(self._step(graphs))
        optimizer = self.optimizers()
        assert isinstance(optimizer, LightningOptimizer)
        optimizer.step()

    def _share(self, batch: GraphBatch) -> Tensor:
        """Processes may have unequal parts of a batch; their losses count by the known targets."""
        mine = torch.tensor(float(self.task.known(batch)), device=self.device)
        everyone = self.all_gather(mine)
        assert isinstance(everyone, Tensor)
        return mine * self.trainer.world_size / everyone.sum().clamp(min=1)

    def validation_step(self, graphs: Tensor, batch_idx: int) -> None:
        output, batch = self._evaluation(graphs)
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


def captures_steps(
    options: TrainOptions, network: nn.Module, splits: Splits, device: torch.device
) -> bool:
    """Whether training captures its steps: one process, and data that fit the GPU."""
    return (
        options.cuda_graphs
        and options.devices * options.nodes == 1
        and options.batch_rows == 0
        and store_bytes(splits.train) < 2**30
        and can_capture(network, device)
    )
