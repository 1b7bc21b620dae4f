"""Train a model: one function for all tasks, from Python and from the command line."""

from __future__ import annotations

import logging
import os
import signal
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import TensorBoardLogger
from torch import nn

from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.options import TrainOptions
from smpgnn.training.callbacks import Keeper, ProgressLine
from smpgnn.training.loader import BatchLoader, StoreDataModule
from smpgnn.training.memory import check_memory
from smpgnn.training.module import GraphModule, run_network
from smpgnn.training.prepare import Prepared, prepare
from smpgnn.training.run_folder import (
    RunFolder,
    commit,
    default_output,
    device_name,
    versions,
)
from smpgnn.training.saved import SavedModel, load_model, pick_device
from smpgnn.training.tasks import Task


@dataclass(frozen=True)
class Result:
    """What came of a run: its folder, the best network, and its metrics on each part."""

    folder: Path
    saved: SavedModel
    best_epoch: int
    validation: dict[str, float]
    test: dict[str, float]
    seconds: float


def train_run(
    options: TrainOptions,
    *,
    resume: bool = False,
    prepared: Prepared | None = None,
    quiet: bool = False,
) -> Result:
    """Train as the options say, into their run folder.

    Args:
        options: all settings; where `output` is empty a folder under runs/ is chosen.
        resume: go on with the run in `output` from its last finished epoch.
        prepared: data of one's own, instead of what the options name.
        quiet: without a progress bar.
    """
    if resume and not options.output:
        raise InputError("--resume: name the run with --output.")
    if not options.output:
        options = replace(options, output=default_output(options))
    device = pick_device(options.device)
    folder = RunFolder(options.output)
    first = int(os.environ.get("LOCAL_RANK", "0")) == 0 and os.environ.get("NODE_RANK", "0") == "0"
    if resume:
        options = resumed_options(folder, options)
    torch.manual_seed(options.seed)
    if prepared is None:
        prepared = prepare(options)
    check_memory(
        prepared.splits.train, prepared.spec, options.batch_size, options.batch_rows, device
    )
    network = prepared.spec.build()
    if not resume and first:
        folder.create(options)
    saved = SavedModel(network, prepared.spec, prepared.task, prepared.source)
    keeper = Keeper(folder, saved, options.patience)
    module = GraphModule(network, prepared.task, options)
    with _calm():
        trainer = _trainer(options, device, folder, [keeper, ProgressLine(keeper, quiet)])
        data = StoreDataModule(
            prepared.splits,
            options.batch_size,
            batch_rows=options.batch_rows,
            seed=options.seed,
        )
        start = str(folder.last) if resume and folder.last.exists() else None
        _fit(trainer, module, data, start)
    if trainer.interrupted:
        raise KeyboardInterrupt
    return _finish(folder, keeper, prepared, options, device, write=trainer.is_global_zero)


def evaluate_store(
    network: nn.Module, task: Task, store: GraphStore, batch_size: int, device: torch.device
) -> dict[str, float]:
    """The metrics of a network on all graphs of a store."""
    metrics = task.metrics().to(device)
    network = network.to(device).eval()
    with torch.no_grad():
        for batch in BatchLoader(store.to(device), batch_size):
            task.update(metrics, run_network(network, batch), batch)
    return {name: float(value) for name, value in metrics.compute().items()}


def _fit(
    trainer: pl.Trainer, module: GraphModule, data: StoreDataModule, start: str | None
) -> None:
    try:
        trainer.fit(module, datamodule=data, ckpt_path=start, weights_only=True)
    except (RuntimeError, EOFError, OSError, KeyError) as error:
        if start is None or _is_ours(error):
            raise
        raise InputError(
            f"{start}: cannot be resumed ({str(error).splitlines()[0]}): delete it to start anew."
        ) from error


def _is_ours(error: BaseException) -> bool:
    return isinstance(error, InputError)


def resumed_options(folder: RunFolder, options: TrainOptions) -> TrainOptions:
    """The settings of the run itself; only where it runs and how long may change."""
    stored = folder.read_options()
    if stored.task_name() != options.task_name():
        raise InputError(
            f"{folder.path}: is a run of '{stored.task_name()}', not of '{options.task_name()}'."
        )
    return replace(
        stored,
        output=options.output,
        device=options.device,
        devices=options.devices,
        nodes=options.nodes,
        data_dir=options.data_dir or stored.data_dir,
    )


def _trainer(
    options: TrainOptions, device: torch.device, folder: RunFolder, callbacks: list[pl.Callback]
) -> pl.Trainer:
    if options.precision == "tf32":
        torch.set_float32_matmul_precision("high")
    several = options.devices * options.nodes > 1
    return pl.Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=options.devices,
        num_nodes=options.nodes,
        strategy="ddp" if several else "auto",
        precision="bf16-mixed" if options.precision == "bfloat16" else "32-true",
        max_epochs=options.epochs,
        gradient_clip_val=options.clip or None,
        deterministic="warn" if device.type == "cuda" else True,
        callbacks=callbacks,
        logger=TensorBoardLogger(str(folder.path), name="", version="tensorboard"),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=10**9,
        use_distributed_sampler=False,
    )


def _finish(
    folder: RunFolder,
    keeper: Keeper,
    prepared: Prepared,
    options: TrainOptions,
    device: torch.device,
    *,
    write: bool,
) -> Result:
    seconds = keeper.seconds
    saved = load_model(folder.model)
    parts = {
        "validation": evaluate_store(
            saved.network, saved.task, prepared.splits.val, options.batch_size, device
        ),
        "test": evaluate_store(
            saved.network, saved.task, prepared.splits.test, options.batch_size, device
        ),
    }
    if write:
        folder.write_record(
            {
                "task": options.task_name(),
                "model": options.model,
                "parameters": sum(p.numel() for p in saved.network.parameters()),
                "epochs": len(keeper.history),
                "best_epoch": keeper.best_epoch,
                **parts,
                "seed": options.seed,
                "device": device_name() if device.type == "cuda" else _processor(),
                "wall_time_s": round(seconds, 2),
                "versions": versions(),
                "commit": commit(),
            }
        )
        folder.draw_curves(saved.task.monitor)
    return Result(
        folder.path, saved, keeper.best_epoch, parts["validation"], parts["test"], seconds
    )


def _processor() -> str:
    return device_name() if not torch.cuda.is_available() else "cpu"


class _calm(warnings.catch_warnings):
    """Without the chatter of Lightning about things that are as they should be."""

    def __enter__(self) -> Any:
        entered = super().__enter__()
        for name in ("pytorch_lightning", "lightning.pytorch", "lightning_fabric"):
            logging.getLogger(name).setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", module="pytorch_lightning.*")
        warnings.filterwarnings("ignore", module="lightning_fabric.*")
        warnings.filterwarnings("ignore", message=".*deterministic.*", category=UserWarning)
        self._handler = signal.getsignal(signal.SIGINT)
        return entered

    def __exit__(self, *details: Any) -> None:
        if signal.getsignal(signal.SIGINT) is not self._handler:
            signal.signal(signal.SIGINT, self._handler)
        super().__exit__(*details)
