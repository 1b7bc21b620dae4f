"""Train a model: one function for all tasks, from Python and from the command line."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import warnings
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.loggers import TensorBoardLogger

from smpgnn.checksums import last_line_fits
from smpgnn.config.options import TrainOptions
from smpgnn.errors import InputError, Terminated
from smpgnn.training.callbacks import Keeper, ProgressLine, Terminator
from smpgnn.training.evaluation import TestPredictions, evaluate_store
from smpgnn.training.loader import StoreDataModule
from smpgnn.training.memory import check_memory, fitting_rows
from smpgnn.training.module import GraphModule
from smpgnn.training.peak import memory_of
from smpgnn.training.prepare import Prepared, prepare
from smpgnn.training.processes import (
    check_environment,
    first_process,
    in_group,
    leave_group,
    started_processes,
    watching,
)
from smpgnn.training.row_counts import context_rows
from smpgnn.training.run_data import RunData
from smpgnn.training.run_folder import (
    RunFolder,
    commit,
    default_output,
    device_name,
    settings,
    versions,
)
from smpgnn.training.saved import SavedModel, load_model, pick_device


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
        resume: go on with the run in `output` from its last finished epoch; the options are then
            those that `resumed_options` gives.
        prepared: data of one's own, instead of what the options name.
        quiet: without notes and a progress bar.
    """
    if not options.output:
        options = replace(options, output=default_output(options))
    check_environment()
    with contextlib.ExitStack() as claims:
        return _train_alone(options, resume, prepared, quiet, claims)


def _train_alone(
    options: TrainOptions,
    resume: bool,
    prepared: Prepared | None,
    quiet: bool,
    claims: contextlib.ExitStack,
) -> Result:
    """Train, with a claim to the run folder from the moment that something is written there."""
    device = pick_device(options.device)
    _check_devices(options, device)
    grouped = in_group()
    folder = RunFolder(options.output)
    first = first_process()
    if first and resume:
        claims.enter_context(folder.alone())
        folder.tidy()
    elif first:
        folder.refuse_old()
    saved_data = folder.read_data() if resume else None
    if prepared is None:
        prepared = prepare(options, saved_data)
    elif saved_data is not None and first:
        saved_data.check(prepared.content(options.task_name()))
    if first and not quiet:
        for note in prepared.notes:
            print(note, file=sys.stderr)
        if resume and saved_data is None and prepared.own is not None:
            print(folder.split_again(), file=sys.stderr)
    if options.auto_batch:
        rows = fitting_rows(
            prepared.splits.train, prepared.spec, device, precision=options.precision
        )
        options = replace(options, batch_rows=rows, auto_batch=False)
    check_memory(
        prepared.splits.train,
        prepared.spec,
        options.batch_size,
        options.batch_rows,
        device,
        optimizer=options.optimizer,
        precision=options.precision,
    )
    torch.manual_seed(options.seed)
    network = prepared.network()
    module = GraphModule(network, prepared.task, options)
    saved = SavedModel(network, prepared.spec, prepared.task, prepared.source)
    keeper = Keeper(folder, saved, options.patience)
    start = str(folder.last) if resume and folder.last.exists() else None
    checked = False
    if start is not None:
        checked = _check_checkpoint(start, module, sealed=saved_data is not None)
    spec, terminator = prepared.spec, Terminator()
    with _calm():
        callbacks = [keeper, ProgressLine(keeper, quiet), terminator]
        try:
            trainer = _trainer(options, device, folder, callbacks)
        except (ValueError, RuntimeError, KeyError, MisconfigurationException) as error:
            # what Slurm or torchrun say in the environment does not fit
            detail = " ".join(str(error).split())
            raise InputError(
                f"--devices {options.devices} --nodes {options.nodes}: {detail}"
            ) from error
        if not resume and first:
            claims.enter_context(folder.alone())
            content = prepared.content(options.task_name())
            folder.create(options, RunData(content.fingerprint, prepared.split_table()))
        elif saved_data is not None and first:
            folder.write_data(options, saved_data)  # the data may have moved
        data = StoreDataModule(
            prepared.splits,
            options.batch_size,
            rows=lambda sizes: context_rows(sizes, spec),
            batch_rows=options.batch_rows,
            seed=options.seed,
        )
        lost = (
            f"{folder.path}: another process of the training has ended: "
            "add --resume to continue the run."
        )
        with watching(trainer, lost):
            _fit(trainer, module, data, start, terminator, checked)
            # where the folder is named after the time, only the first process knows its name
            folder = RunFolder(trainer.strategy.broadcast(str(folder.path)))
            if in_group() and not grouped:
                leave_group()
        return _finish(folder, keeper, prepared, options, device, write=trainer.is_global_zero)


def _fit(
    trainer: pl.Trainer,
    module: GraphModule,
    data: StoreDataModule,
    start: str | None,
    terminator: Terminator,
    checked: bool,
) -> None:
    """Train from the checkpoint `start`, if there is one; `checked`: its checksum fits."""
    try:
        if trainer.num_nodes > 1:
            terminator.waiting()
        trainer.fit(module, datamodule=data, ckpt_path=start, weights_only=True)
    except SystemExit as stop:
        if trainer.interrupted:  # Lightning makes an exit of every interrupt
            ended = terminator.called or isinstance(stop.__context__, Terminated)
            raise Terminated if ended else KeyboardInterrupt from None
        raise
    except torch.OutOfMemoryError as error:
        raise InputError(
            f"out of memory on {trainer.strategy.root_device}: start a new run with a lower "
            f"--batch-size (now {data.batch_size}) or --batch-rows, or with fewer layers."
        ) from error
    except Exception as error:
        if start is None or terminator.began:
            raise
        if not checked:
            raise _damaged(start) from error
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
        raise InputError(
            f"{start}: cannot be resumed ({reason}): delete it to restart the run."
        ) from error
    finally:
        terminator.met()


def _damaged(path: str) -> InputError:
    return InputError(
        f"{path}: is damaged or not a checkpoint of smpgnn: delete it to restart the run."
    )


def _check_checkpoint(path: str, module: GraphModule, *, sealed: bool) -> bool:
    """Refuse a checkpoint that is damaged or of another run; nothing in it can run.

    Those of older versions are not `sealed`, that is, may have no checksum; returns whether there
    is one.
    """
    try:
        fits = last_line_fits(path)
        if fits is False or (sealed and fits is None):
            raise _damaged(path)
        with zipfile.ZipFile(path) as file:  # torch packs nothing, so this cannot grow
            if sum(entry.file_size for entry in file.infolist()) > Path(path).stat().st_size:
                raise _damaged(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
        shapes = {name: value.shape for name, value in content["state_dict"].items()}
        whole = {"epoch", "loops", "callbacks", "optimizer_states", "plateau"} <= set(content)
        before = dict(content.get("settings", {}))
    except Exception as error:  # there is no end to what a damaged file may cause
        raise _damaged(path) from error
    if not whole or shapes != {name: value.shape for name, value in module.state_dict().items()}:
        raise InputError(f"{path}: belongs to another run: delete it to restart the run.")
    for name, value in settings(module.options).items():
        if name in before and before[name] != value:
            raise InputError(
                f"{Path(path).with_name('config.yaml')}: {name} is {value}, but the run has "
                f"{before[name]}: change it back, or start a new run."
            )
    return bool(fits)


def _check_devices(options: TrainOptions, device: torch.device) -> None:
    started = started_processes()
    if started not in (1, options.devices * options.nodes):
        raise InputError(
            f"--devices {options.devices} --nodes {options.nodes}: {started} processes were "
            "started: use the same numbers as for torchrun or srun."
        )
    if options.auto_batch and options.devices * options.nodes > 1:
        raise InputError(  # each would see other free memory, and cut other batches
            "--auto-batch: works with one process only: set --batch-rows instead."
        )
    on_gpu = device.type == "cuda"
    there = torch.cuda.device_count() if on_gpu else max(8, os.cpu_count() or 1)
    if options.devices > there:
        what = f"{there} GPU" if on_gpu else f"{os.cpu_count()} processors"
        raise InputError(f"--devices {options.devices}: this machine has only {what}.")


def _trainer(
    options: TrainOptions,
    device: torch.device,
    folder: RunFolder,
    callbacks: list[pl.Callback],
) -> pl.Trainer:
    if options.precision == "tf32" and device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    several = options.devices * options.nodes > 1
    trainer = pl.Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=options.devices,
        num_nodes=options.nodes,
        strategy="ddp" if several else "auto",
        max_epochs=options.epochs,
        deterministic="warn" if device.type == "cuda" else True,
        # by rows, an epoch may have more batches than the one before
        reload_dataloaders_every_n_epochs=1 if options.batch_rows else 0,
        callbacks=callbacks,
        logger=TensorBoardLogger(str(folder.path), name="", version="tensorboard"),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=10**9,
        use_distributed_sampler=False,
    )
    environment = getattr(trainer.strategy, "cluster_environment", None)
    if environment is not None:
        environment.validate_settings(num_devices=options.devices, num_nodes=options.nodes)
    return trainer


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
    shown = TestPredictions(saved.task)
    parts = {
        name: evaluate_store(
            saved.network, saved.task, store, options.batch_size, device, options.batch_rows, keep
        )
        for name, store, keep in (
            ("validation", prepared.splits.val, lambda output, batch: None),
            ("test", prepared.splits.test, shown.keep),
        )
    }
    if write:
        folder.write_metrics(keeper.history)
        shown.write(folder, prepared)
        folder.write_record(
            {
                "task": options.task_name(),
                "model": options.network.model,
                "parameters": sum(p.numel() for p in saved.network.parameters()),
                "epochs": len(keeper.history),
                "best_epoch": keeper.best_epoch,
                **parts,
                "seed": options.seed,
                "device": device_name() if device.type == "cuda" else _processor(),
                "wall_time_s": round(seconds, 2),
                "peak_memory_mib": round(keeper.peak.mib, 1),
                "memory_of": memory_of(device),
                "versions": versions(),
                "commit": commit(),
            }
        )
        folder.draw_curves(saved.task.monitor, keeper.history)
    return Result(
        folder.path, saved, keeper.best_epoch, parts["validation"], parts["test"], seconds
    )


def _processor() -> str:
    return device_name() if not torch.cuda.is_available() else "cpu"


class _calm(warnings.catch_warnings):
    """Without the chatter of Lightning about things that are as they should be.

    What Lightning sets for the whole process is put back in the end.
    """

    def __enter__(self) -> Any:
        entered = super().__enter__()
        self._strict = torch.are_deterministic_algorithms_enabled()
        self._warn = torch.is_deterministic_algorithms_warn_only_enabled()
        self._products = torch.get_float32_matmul_precision()
        for name in ("pytorch_lightning", "lightning.pytorch", "lightning_fabric"):
            logging.getLogger(name).setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", module="pytorch_lightning.*")
        warnings.filterwarnings("ignore", module="lightning_fabric.*")
        warnings.filterwarnings("ignore", message=".*deterministic.*", category=UserWarning)
        self._handler = signal.getsignal(signal.SIGINT)
        return entered

    def __exit__(self, *details: Any) -> None:
        torch.use_deterministic_algorithms(self._strict, warn_only=self._warn)
        torch.set_float32_matmul_precision(self._products)
        if signal.getsignal(signal.SIGINT) is not self._handler:
            signal.signal(signal.SIGINT, self._handler)
        super().__exit__(*details)
