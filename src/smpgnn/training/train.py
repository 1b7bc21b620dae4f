"""Train a model: one function for all tasks, called from Python and from the command line."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any

import pytorch_lightning as pl
import torch

from smpgnn.config.options import MoleculesOptions, TableOptions, TrainOptions
from smpgnn.data.store import GraphBatch
from smpgnn.errors import InputError, one_sentence
from smpgnn.threads import suitable_threads
from smpgnn.training.baseline import baseline_record
from smpgnn.training.callbacks import Keeper, ProgressLine, Terminator, stage
from smpgnn.training.domain import TestErrors, write_domain
from smpgnn.training.evaluation import TestPredictions, evaluate_store
from smpgnn.training.loggers import run_logger
from smpgnn.training.member_plan import members
from smpgnn.training.member_results import finish, joined, load_members
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
from smpgnn.training.provenance import origin
from smpgnn.training.resume import check_checkpoint
from smpgnn.training.row_counts import context_rows
from smpgnn.training.run_folder import RunFolder, default_output
from smpgnn.training.saved import SavedModel, load_model, pick_device
from smpgnn.training.start import started
from smpgnn.training.trainer import fit, make_trainer, quiet_libraries
from smpgnn.training.unseen import splits_of


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
        prepared: your own data, instead of those that the options name.
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
                "members train in separate processes, where callbacks cannot run: leave out folds, "
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
        # the run keeps its loss and metrics, even if the defaults have changed since
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

    with quiet_libraries(), run_logger(options, folder.path) as logger:
        grouped = in_group()
        callbacks = [keeper, terminator, *([] if quiet else [ProgressLine(keeper)]), *more]
        trainer = make_trainer(options, device, logger, callbacks)
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
            fit(trainer, module, start, terminator, checked)
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
        raise InputError("members train in separate processes: start one process only.")
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
    """Write the page of a run whose results are written: whatever fails, the run is finished."""
    if not options.report:
        return
    try:
        from smpgnn.pages.run_page import write_report

        write_report(folder.path)
    except Exception as error:
        reason = error if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        text = f"smpgnn: the run is finished, but its page could not be written ({reason})"
        again = f"smpgnn report {quote(str(folder.path))}"
        print(one_sentence(f"{text}; {again} tries again."), file=sys.stderr)


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
                "wall_time_s": round(seconds, 2),
                "peak_memory_mib": round(keeper.peak_mib, 1),
                **origin(device),
            }
        )
        folder.draw_curves(saved.task.monitor, keeper.history)
        _write_page(folder, options)
    return Result(folder.path, saved, keeper.kept_epoch, validation, test, seconds, **comparison)
