"""The LightningModule: data, network, loss, optimiser and schedule of a training run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Self

import pytorch_lightning as pl
import torch
from pytorch_lightning.core.optimizer import LightningOptimizer
from torch import Tensor, nn

from smpgnn.capture.steps import can_capture
from smpgnn.config.options import TrainOptions
from smpgnn.data.base import Splits
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.training.loader import BatchLoader, store_bytes
from smpgnn.training.prepare import Prepared
from smpgnn.training.resume import settings
from smpgnn.training.row_counts import context_rows
from smpgnn.training.saved import to_cpu
from smpgnn.training.schedule import Plateau, rate_factor
from smpgnn.training.steps import EvaluationStep, TrainingStep
from smpgnn.training.transfer import freeze

#: Stores below this many bytes are moved to the GPU as a whole, and on large GPUs those below this
#: share of its memory: the index of all their contexts, for captured steps, takes far more.
_SMALL, _SHARE = 2**30, 1 / 64


class GraphModule(pl.LightningModule):
    """Trains a network on a task.

    Batches are graph indices. Every epoch starts from a seed made of the run's seed and its number,
    and the learning rate is a function of the step, so a resumed run continues as if it had not
    been interrupted.
    """

    def __init__(self, network: nn.Module, prepared: Prepared, options: TrainOptions) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.network, self.task, self.options = network, prepared.task, options
        self.splits, self.spec = prepared.splits, prepared.spec
        self.objective = self.task.make_objective()
        self.validation = self.task.metrics()
        self.plateau = Plateau(options.decay, options.decay_epochs)
        self._frozen = freeze(network) if getattr(options, "freeze", False) else ()
        self._losses: list[Tensor] = []
        if self._frozen:
            self.train()

    def setup(self, stage: str) -> None:
        device = self.trainer.strategy.root_device
        if device.type == "cuda" and self._is_small(device):
            self.splits = Splits(*(part.to(device) for part in vars(self.splits).values()))

    def train(self, mode: bool = True) -> Self:
        """Frozen modules stay in eval mode, so their running statistics do not change."""
        super().train(mode)
        for module in self._frozen:
            module.eval()
        return self

    def train_dataloader(self) -> BatchLoader:
        return self._loader(self.splits.train, self.options.seed)

    def val_dataloader(self) -> BatchLoader:
        return self._loader(self.splits.val, None)

    def _loader(self, store: GraphStore, seed: int | None) -> BatchLoader:
        return BatchLoader(
            store,
            self.options.batch_size,
            rows=context_rows(store.num_nodes, self.spec),
            batch_rows=self.options.batch_rows,
            seed=seed,
            epoch=lambda: self.current_epoch,
            rank=self.global_rank,
            world_size=self.trainer.world_size,
        )

    def transfer_batch_to_device(
        self, batch: Tensor, device: torch.device, dataloader_idx: int
    ) -> Tensor:
        return batch  # indices stay on the CPU

    def configure_optimizers(self) -> torch.optim.Optimizer:
        options = self.options
        parameters = [p for p in self.network.parameters() if p.requires_grad]
        if options.optimizer == "sgd":
            return torch.optim.SGD(
                parameters, options.lr, momentum=options.momentum, weight_decay=options.weight_decay
            )
        kind = torch.optim.AdamW if options.optimizer == "adamw" else torch.optim.Adam
        fused = True if self.device.type == "cuda" else None  # one launch instead of a dozen
        return kind(parameters, options.lr, weight_decay=options.weight_decay, fused=fused)

    def on_train_start(self) -> None:
        options, capture = self.options, self._captures_steps()
        self._step = TrainingStep(
            self.network,
            self.objective,
            self.splits.train,
            options,
            capture=capture,
            weight=self._share if self.trainer.world_size > 1 else None,
            backward=self.manual_backward,
        )
        self._evaluation = EvaluationStep(
            self.network,
            self.splits.val,
            options.batch_size,
            precision=options.precision,
            capture=capture,
        )

    def _captures_steps(self) -> bool:
        """Whether to capture steps as CUDA graphs: one process, and data that fit the GPU."""
        options = self.options
        return (
            options.cuda_graphs
            and options.devices * options.nodes == 1
            and options.batch_rows == 0
            and can_capture(self.network, self.device)
            and self._is_small(self.device)
        )

    def _is_small(self, gpu: torch.device) -> bool:
        """Whether the training graphs are moved to the GPU as a whole."""
        memory = torch.cuda.get_device_properties(gpu).total_memory
        return store_bytes(self.splits.train) < max(_SMALL, _SHARE * memory)

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
        """The weight of this process's loss: its share of the known targets of all processes."""
        mine = torch.tensor(float(self.task.known(batch)), device=self.device)
        everyone = self.all_gather(mine)
        assert isinstance(everyone, Tensor)
        return mine * self.trainer.world_size / everyone.sum().clamp(min=1)

    def validation_step(self, graphs: Tensor, batch_idx: int) -> None:
        output, batch = self._evaluation(graphs)
        self.task.update(self.validation, output, batch)

    def on_validation_epoch_end(self) -> None:
        """Log an epoch, whose training steps and validation are done."""
        loss = torch.stack(self._losses).mean()
        self.log("train_loss", loss, sync_dist=self.trainer.world_size > 1)
        self.log("lr", float(self.trainer.optimizers[0].param_groups[0]["lr"]))
        values = {name: value.float() for name, value in self.task.results(self.validation).items()}
        self.validation.reset()
        for name, value in values.items():
            self.log(f"val_{name}", value)  # torchmetrics has already summed over the processes
        if self.options.schedule == "plateau":
            self.plateau.report(*self.task.rank({k: float(v) for k, v in values.items()}))
            if self.options.lr * self.plateau.scale < self.options.min_lr:
                self.trainer.should_stop = True

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["plateau"] = asdict(self.plateau)
        checkpoint["settings"] = settings(self.options)
        for name in ("state_dict", "optimizer_states"):
            checkpoint[name] = to_cpu(checkpoint[name])

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.plateau = Plateau(**checkpoint["plateau"])
