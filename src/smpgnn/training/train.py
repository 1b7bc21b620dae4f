"""Train a model: one function for all tasks, called from Python and from the command line."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.loggers import Logger

from smpgnn.config.options import MoleculesOptions, TableOptions, TrainOptions
from smpgnn.data.store import GraphBatch
from smpgnn.errors import InputError, Terminated
from smpgnn.threads import suitable_threads
from smpgnn.training.baseline import baseline_record
from smpgnn.training.callbacks import Keeper, ProgressLine, Terminator, stage
from smpgnn.training.domain import TestErrors, write_domain
from smpgnn.training.evaluation import TestPredictions, evaluate_store
from smpgnn.training.loggers import run_logger
from smpgnn.training.member_plan import members
from smpgnn.training.member_results import finish, joined, load_members, splits_of
from smpgnn.training.members import Given, jobs_of, train_all
from smpgnn.training.memory import check_memory, fitting_rows
from smpgnn.training.module import GraphModule
from smpgnn.training.prepare import Prepared, prepare
from smpgnn.training.processes import (
    check_devices,
    check_environment,
    first_process,
    in_group,
    leave_group,
    started_processes,
    watching,
)
from smpgnn.training.provenance import commit, device_name, versions
from smpgnn.training.resume import check_checkpoint, damaged
from smpgnn.training.row_counts import context_rows
from smpgnn.training.run_folder import RunFolder, default_output
from smpgnn.training.saved import SavedModel, load_model, pick_device
from smpgnn.training.start import started


@dataclass(frozen=True)
class Result:
    """The result of a run: its folder, the best network, and its metrics on each split.

    `baseline` is that entry of run.json, for tables of molecules.
    `test` is empty if the run has no test rows.

    A run with members has the mean validation metrics of its members. Its test metrics are those of
    all members together, or the mean over held-out folds with standard deviation `test_sd`;
    `test_of_members` are those of single members, on average.
    """

    folder: Path
    saved: SavedModel
    best_epoch: int  # 0: the run has members
    validation: dict[str, float]
    test: dict[str, float]
    seconds: float
    test_sd: dict[str, float] = field(default_factory=dict)
    test_of_members: dict[str, float] = field(default_factory=dict)
    baseline: dict[str, Any] | None = None


def train_run(
    options: TrainOptions,
    *,
    resume: bool = False,
    prepared: Prepared | None = None,
    quiet: bool = False,
    callbacks: Sequence[pl.Callback] = (),
    given: Given | None = None,
) -> Result:
    """Train with these settings, into their run folder.

    Args:
        options: all settings; if `output` is empty, a folder under runs/ is chosen.
        resume: continue the run in `output` from its last finished epoch; the options are then
            those of `resumed_options`.
        prepared: your own data, in place of those that the options name.
        quiet: print no notes and no progress bar.
        callbacks: of Lightning, called after ours; the first of ours has the history of the run.
        given: the data from Python behind `prepared`, for the processes of members.
    """
    planned = members(options)
    if not options.output:
        options = replace(options, output=default_output(options))
    check_environment()
    if planned:
        assert isinstance(options, TableOptions)
        if callbacks:
            raise InputError(
                "members train in processes of their own, without callbacks: leave out folds, "
                "ensemble and calibration."
            )
        return _train_members(options, resume, prepared, quiet, given)
    with contextlib.ExitStack() as locks:
        return _train(options, resume, prepared, quiet, callbacks, locks)


def _train(
    options: TrainOptions,
    resume: bool,
    prepared: Prepared | None,
    quiet: bool,
    more: Sequence[pl.Callback],
    locks: contextlib.ExitStack,
) -> Result:
    """Train, with a lock on the run folder from the first write to it."""
    device, first = pick_device(options.device), first_process()
    check_devices(options, device)
    folder = RunFolder(options.output)
    if first and resume:
        locks.enter_context(folder.alone())
        folder.tidy()
    elif first:
        folder.refuse_old()

    saved_data = folder.read_data() if resume else None
    if prepared is None:
        with stage("reading the data", quiet=quiet or not first):
            prepared = prepare(options, saved_data, old=resume and saved_data is None)
    elif saved_data is not None and first:
        saved_data.check(prepared.content(options.task_name()))
    start = folder.last if resume and folder.last.exists() else None
    if start is None:
        prepared = started(prepared, options)
    if first and not quiet:
        for note in prepared.notes:
            print(note, file=sys.stderr)
        if resume and saved_data is None and prepared.own is not None:
            print(folder.no_split(), file=sys.stderr)
    with stage("measuring the memory of a step", quiet=quiet or not first):
        options = _fit_memory(options, prepared, device)
    if device.type == "cpu" and options.devices * options.nodes == 1:
        locks.enter_context(suitable_threads(_values_per_step(options, prepared)))
    if resume and prepared.own is not None and folder.model.exists():
        # the run goes on with its loss and metrics, also if the defaults have changed since
        before = load_model(folder.model)
        spec = replace(prepared.spec, usual_nodes=before.spec.usual_nodes)
        prepared = replace(prepared, task=before.task, spec=spec)

    torch.manual_seed(options.seed)
    network = prepared.network()
    module = GraphModule(network, prepared, options)
    saved = SavedModel(network, prepared.spec, prepared.task, prepared.source)
    keeper, terminator = Keeper(folder, saved, options.patience, options.keep), Terminator()
    checked = False
    if start is not None:
        sealed = saved_data is not None  # older versions wrote no checksums
        checked = check_checkpoint(start, options, module.state_dict(), sealed=sealed)

    with _quiet_libraries(), run_logger(options, folder.path) as logger:
        grouped = in_group()
        callbacks = [keeper, terminator, *([] if quiet else [ProgressLine(keeper)]), *more]
        trainer = _trainer(options, device, logger, callbacks)
        if first and not resume:
            locks.enter_context(folder.alone())
            folder.create(options, prepared.run_data(options.task_name()))
        elif first and saved_data is not None:
            folder.write_data(options, saved_data)  # the data may have moved
        lost = (
            f"{folder.path}: another process of the training has ended: "
            "add --resume to continue the run."
        )
        with watching(trainer, lost):
            _fit(trainer, module, start, terminator, checked)
            # if the folder is named after the time, only the first process knows its name
            folder = RunFolder(trainer.strategy.broadcast(str(folder.path)))
            if in_group() and not grouped:
                leave_group()
        return _finish(folder, keeper, prepared, options, device, write=trainer.is_global_zero)


def _train_members(
    options: TableOptions,
    resume: bool,
    prepared: Prepared | None,
    quiet: bool,
    given: Given | None,
) -> Result:
    """Train the members side by side, then write the results of the run."""
    device, folder, start = pick_device(options.device), RunFolder(options.output), time.monotonic()
    if started_processes() > 1:
        raise InputError("members train in processes of their own: start one process only.")
    with contextlib.ExitStack() as locks:
        if resume:
            locks.enter_context(folder.alone())
            folder.tidy()
        else:
            folder.refuse_old()
        saved_data = folder.read_data() if resume else None
        if prepared is None:
            prepared = prepare(options, saved_data)
        if not quiet:
            for note in prepared.notes:
                print(note, file=sys.stderr)
        content = prepared.content(options.task_name())
        if resume and saved_data is not None:
            saved_data.check(content)
            folder.write_data(options, saved_data)  # the data may have moved
        else:
            locks.enter_context(folder.alone())
            folder.create(options, prepared.run_data(options.task_name()))
        splits = splits_of(prepared.split_table())
        jobs = jobs_of(options, content.fingerprint, splits, given)
        train_all(options, jobs, on_gpu=device.type == "cuda", quiet=quiet)
        found = finish(folder, options, prepared, device)
        _write_page(folder, options)
    seconds = time.monotonic() - start
    saved = joined(load_members(folder.path, options), folder.path, options)
    return Result(
        folder.path,
        saved,
        0,
        found.validation,
        found.test,
        seconds,
        found.sd,
        found.alone,
        found.baseline,
    )


def _write_page(folder: RunFolder, options: TrainOptions) -> None:
    """Write the page of a run whose results are written."""
    if options.report:
        from smpgnn.pages.run_page import write_after_training

        write_after_training(folder.path)


def _values_per_step(options: TrainOptions, prepared: Prepared) -> float:
    """About how many numbers the rows of a batch have; a network without contexts has fewer."""
    store, spec = prepared.splits.train, prepared.spec
    rows = context_rows(store.num_nodes, spec).double().mean().item()
    rows *= min(options.batch_size, len(store))
    if options.batch_rows:
        rows = min(rows, options.batch_rows)
    return rows * spec.options.hidden_channels


def _fit_memory(options: TrainOptions, prepared: Prepared, device: torch.device) -> TrainOptions:
    """Choose `batch_rows` for --auto-batch, and refuse batches that will not fit."""
    store, spec = prepared.splits.train, prepared.spec
    if options.auto_batch:
        rows = fitting_rows(store, spec, device, precision=options.precision)
        options = replace(options, batch_rows=rows, auto_batch=False)
    check_memory(
        store,
        spec,
        options.batch_size,
        options.batch_rows,
        device,
        optimizer=options.optimizer,
        precision=options.precision,
    )
    return options


def _trainer(
    options: TrainOptions,
    device: torch.device,
    logger: Logger | bool,
    callbacks: list[pl.Callback],
) -> pl.Trainer:
    if options.precision == "tf32" and device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    several = options.devices * options.nodes > 1
    try:
        trainer = pl.Trainer(
            accelerator="gpu" if device.type == "cuda" else device.type,
            devices=options.devices,
            num_nodes=options.nodes,
            strategy="ddp" if several else "auto",
            max_epochs=options.epochs,
            deterministic=True if device.type == "cpu" else "warn",
            # batches by rows: their number changes from epoch to epoch
            reload_dataloaders_every_n_epochs=1 if options.batch_rows else 0,
            callbacks=callbacks,
            logger=logger,
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
    except (ValueError, RuntimeError, KeyError, MisconfigurationException) as error:
        # the environment of Slurm or torchrun does not fit the options
        detail = " ".join(str(error).split())
        raise InputError(
            f"--devices {options.devices} --nodes {options.nodes}: {detail}"
        ) from error
    return trainer


def _fit(
    trainer: pl.Trainer,
    module: GraphModule,
    start: Path | None,
    terminator: Terminator,
    checked: bool,
) -> None:
    """Train from the checkpoint `start`, if there is one; `checked`: its checksum matches."""
    try:
        if trainer.num_nodes > 1:
            terminator.waiting()
        trainer.fit(module, ckpt_path=start, weights_only=True)
    except SystemExit as stop:
        if trainer.interrupted:  # Lightning exits on every interrupt
            ended = terminator.called or isinstance(stop.__context__, Terminated)
            raise Terminated if ended else KeyboardInterrupt from None
        raise
    except torch.OutOfMemoryError as error:
        raise InputError(
            f"out of memory on {trainer.strategy.root_device}: start a new run with a lower "
            f"--batch-size (now {module.options.batch_size}) or --batch-rows, or with fewer layers."
        ) from error
    except Exception as error:
        if start is None or terminator.began:
            raise
        if not checked:
            raise damaged(start) from error
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
        raise InputError(
            f"{start}: cannot be resumed ({reason}): delete it to restart the run."
        ) from error
    finally:
        terminator.met()


def _finish(
    folder: RunFolder,
    keeper: Keeper,
    prepared: Prepared,
    options: TrainOptions,
    device: torch.device,
    *,
    write: bool,
) -> Result:
    """Evaluate the weights kept on validation and test data, and write the results."""
    seconds, saved = keeper.seconds, load_model(folder.model)
    predictions = TestPredictions(saved.task)
    network, task, size, rows = saved.network, saved.task, options.batch_size, options.batch_rows
    validation = evaluate_store(network, task, prepared.splits.val, size, device, rows)
    errors = TestErrors(saved.task) if prepared.smiles else None

    def keep(output: Any, batch: GraphBatch) -> None:
        predictions.keep(output, batch)
        if errors is not None:
            errors.keep(output, batch)

    test, comparison = dict[str, float](), dict[str, Any]()
    if len(prepared.splits.test):
        test = evaluate_store(network, task, prepared.splits.test, size, device, rows, keep=keep)
    if write:
        if errors is not None:
            write_domain(folder, prepared, errors)
        folder.write_metrics(keeper.history)
        if test:
            folder.write_predictions(predictions.frame(prepared))
        if test and isinstance(options, MoleculesOptions) and options.baseline:
            network_metrics = {"validation": validation, "test": test}
            comparison["baseline"] = baseline_record(prepared, options.seed, network_metrics)
        folder.write_record(
            {
                "task": options.task_name(),
                "model": options.network.model,
                "parameters": sum(p.numel() for p in saved.network.parameters()),
                "epochs": len(keeper.history),
                "best_epoch": keeper.kept_epoch,
                "validation": validation,
                "test": test,
                **comparison,
                "seed": options.seed,
                "device": device_name(device),
                "wall_time_s": round(seconds, 2),
                "peak_memory_mib": round(keeper.peak_mib, 1),
                "memory_of": "tensors on the GPU" if device.type == "cuda" else "whole process",
                "versions": versions(),
                "commit": commit(),
            }
        )
        folder.draw_curves(saved.task.monitor, keeper.history)
        _write_page(folder, options)
    return Result(folder.path, saved, keeper.kept_epoch, validation, test, seconds, **comparison)


@contextlib.contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Silence Lightning, and restore what it sets for the whole process."""
    strict = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    precision = torch.get_float32_matmul_precision()
    handler = signal.getsignal(signal.SIGINT)
    for name in ("pytorch_lightning", "lightning.pytorch", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pytorch_lightning.*")
        warnings.filterwarnings("ignore", module="lightning_fabric.*")
        warnings.filterwarnings("ignore", message=".*deterministic.*", category=UserWarning)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=warn_only)
            torch.set_float32_matmul_precision(precision)
            if signal.getsignal(signal.SIGINT) is not handler:
                signal.signal(signal.SIGINT, handler)
