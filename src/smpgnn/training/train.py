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
from torch import Tensor

from smpgnn.config.options import MoleculesOptions, TableOptions, TrainOptions
from smpgnn.data.store import GraphBatch
from smpgnn.errors import InputError, one_sentence
from smpgnn.threads import suitable_threads
from smpgnn.training.baseline import baseline_record
from smpgnn.training.callbacks import Keeper, ProgressLine, Terminator, stage
from smpgnn.training.domain import test_errors, write_domain
from smpgnn.training.evaluation import evaluate_store, test_table
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
from smpgnn.training.run_data import RunData
from smpgnn.training.run_folder import RunFolder, default_output
from smpgnn.training.saved import SavedModel, load_model, pick_device
from smpgnn.training.start import started
from smpgnn.training.trainer import fit, make_trainer, quiet_libraries, run_logger
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
        if callbacks:
            raise InputError(
                "members train in separate processes, where callbacks cannot run: leave out folds, "
                "ensemble and calibration."
            )
        if started_processes() > 1:
            raise InputError("members train in separate processes: start one process only.")
    with contextlib.ExitStack() as locks:
        run = _open(options, prepared, resume=resume, quiet=quiet, locks=locks)
        if planned:
            assert isinstance(options, TableOptions)
            return _train_members(options, run, given)
        return _train(options, run, callbacks)


@dataclass
class _Run:
    """A run that begins or continues: its folder, which `locks` keep locked, and its data.

    `stored` is what the folder has stored about the data.
    """

    folder: RunFolder
    prepared: Prepared
    stored: RunData | None
    resume: bool
    quiet: bool
    locks: contextlib.ExitStack

    def claim(self, options: TrainOptions) -> None:
        """Fill the folder of a new run; note where the data of an old one are now."""
        if not self.resume:
            self.locks.enter_context(self.folder.alone())
            self.folder.create(options, self.prepared.run_data(options.task_name()))
        elif self.stored is not None:
            self.folder.write_data(options, self.stored)

    def tell(self) -> None:
        """Print the notes on the data."""
        notes = list(self.prepared.notes)
        if self.resume and self.stored is None and self.prepared.own is not None:
            notes.append(self.folder.no_split())
        for note in () if self.quiet else notes:
            print(note, file=sys.stderr)


def _open(
    options: TrainOptions,
    prepared: Prepared | None,
    *,
    resume: bool,
    quiet: bool,
    locks: contextlib.ExitStack,
) -> _Run:
    """Lock the folder of an old run, refuse it for a new one, and read the data."""
    folder, first = RunFolder(options.output), first_process()
    check_devices(options, pick_device(options.device))
    if first and resume:
        locks.enter_context(folder.alone())
        folder.tidy()
    elif first:
        folder.refuse_old()
    stored = folder.read_data() if resume else None
    if prepared is None:
        with stage("reading the data", quiet=quiet or not first):
            prepared = prepare(options, stored, old=resume and stored is None)
    elif stored is not None and first:
        stored.check(prepared.content(options.task_name()))
    return _Run(folder, prepared, stored, resume, quiet or not first, locks)


def _train(options: TrainOptions, run: _Run, more: Sequence[pl.Callback]) -> Result:
    device, folder = pick_device(options.device), run.folder
    start = folder.last if run.resume and folder.last.exists() else None
    if start is None:
        run.prepared = started(run.prepared, options)
    run.tell()
    prepared = run.prepared
    with stage("measuring the memory of a step", quiet=run.quiet):
        options = _fit_memory(options, prepared, device)
    if device.type == "cpu" and options.devices * options.nodes == 1:
        run.locks.enter_context(suitable_threads(_values_per_step(options, prepared)))
    if run.resume and prepared.own is not None and folder.model.exists():
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
        sealed = run.stored is not None  # older versions wrote no checksums
        checked = check_checkpoint(start, options, module.state_dict(), sealed=sealed)

    with quiet_libraries(), run_logger(options, folder.path) as logger:
        grouped = in_group()
        callbacks = [keeper, terminator, *([] if run.quiet else [ProgressLine(keeper)]), *more]
        trainer = make_trainer(options, device, logger, callbacks)
        if first_process():
            run.claim(options)
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


def _train_members(options: TableOptions, run: _Run, given: Given | None) -> Result:
    """Train the members side by side, then write the results of the run."""
    device, folder, start = pick_device(options.device), run.folder, time.monotonic()
    run.tell()
    run.claim(options)
    prepared = run.prepared
    fingerprint = prepared.content(options.task_name()).fingerprint
    jobs = jobs_of(options, fingerprint, splits_of(prepared.split_table()), given)
    train_all(options, jobs, on_gpu=device.type == "cuda", quiet=run.quiet)
    saved = load_members(folder.path, options)
    found = finish(folder, options, saved, prepared, device)
    _write_page(folder, options)
    return Result(
        folder.path,
        joined(saved, folder.path, options),
        best_epoch=0,
        validation=found.validation,
        test=found.test,
        seconds=time.monotonic() - start,
        test_sd=found.sd,
        test_of_members=found.alone,
        baseline=found.baseline,
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
    network, task, size, rows = saved.network, saved.task, options.batch_size, options.batch_rows
    validation = evaluate_store(network, task, prepared.splits.val, size, device, rows)
    shown, errors = list[list[Any]](), list[Tensor]()

    def keep(output: Any, batch: GraphBatch) -> None:
        pairs = zip(task.shown_targets(batch), task.predict(output), strict=True)
        shown.extend([*targets, *predicted] for targets, predicted in pairs)
        if prepared.smiles:
            errors.append(test_errors(task, output, batch))

    test, comparison = dict[str, float](), dict[str, Any]()
    if len(prepared.splits.test):
        test = evaluate_store(network, task, prepared.splits.test, size, device, rows, keep=keep)
    if write:
        if prepared.smiles:
            parts = (prepared.rows_of("train"), prepared.rows_of("test"))
            write_domain(folder, prepared, *parts, errors)
        folder.write_metrics(keeper.history)
        if test:
            folder.write_table(folder.predictions, test_table(prepared, task, shown))
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
