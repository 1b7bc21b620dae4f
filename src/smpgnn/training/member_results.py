"""The results of a run with members: their metrics together, and the calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import stdev
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from smpgnn.config.options import TableOptions
from smpgnn.errors import InputError
from smpgnn.training.baseline import joined_baseline, mean_metrics
from smpgnn.training.calibration import Calibration, calibrate
from smpgnn.training.domain import test_errors, write_domain
from smpgnn.training.ensemble import Ensemble
from smpgnn.training.member_plan import members
from smpgnn.training.prepare import Prepared
from smpgnn.training.provenance import origin
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.saved import SavedModel, load_model
from smpgnn.training.tasks.base import output_of, targets_only
from smpgnn.training.unseen import Metrics, Predictions, predict_unseen, splits_of


def load_members(folder: str | Path, options: TableOptions) -> tuple[SavedModel, ...]:
    """The trained members of a run; all must be finished."""
    planned = members(options)
    missing = [one for one in planned if not RunFolder(one.folder(folder)).record.exists()]
    if missing:
        raise InputError(
            f"{folder}: {len(missing)} of {len(planned)} members are not trained to the end "
            f"(first: {missing[0].name}): add --resume to train them."
        )
    return tuple(load_model(one.folder(folder)) for one in planned)


def joined(found: Sequence[SavedModel], folder: str | Path, options: TableOptions) -> SavedModel:
    """The model of a run with these members: the mean of their predictions, calibrated."""
    groups = [one.group for one in members(options)]
    network = Ensemble(found, groups, Calibration.load(Path(folder)))
    return SavedModel(network.eval(), found[0].spec, found[0].task, found[0].source)


@dataclass(frozen=True)
class Results:
    """The metrics of a run with members.

    Args:
        validation: mean over the members.
        test: of the ensemble on the test rows, or the mean over held-out folds; empty without.
        sd: standard deviation over held-out folds; empty without folds.
        alone: mean over the members, each alone on its test rows.
        baseline: the entry of run.json, if there is one.
    """

    validation: Metrics
    test: Metrics
    sd: Metrics
    alone: Metrics
    baseline: dict[str, Any] | None = None


def finish(
    folder: RunFolder,
    options: TableOptions,
    saved: Sequence[SavedModel],
    prepared: Prepared,
    device: torch.device,
) -> Results:
    """Compute and write the results of a run from its trained members."""
    found = predict_unseen(saved, options, prepared, device)
    single = [RunFolder(one.folder(folder.path)).read_record() for one in found.members]
    calibration, about = Calibration(), dict[str, Any]()
    if options.folds or len(found.calibration):
        rows = found.position if options.folds else found.calibration
        raw = found.held_out(rows, calibration)
        choice, test = raw, None
        if not options.folds:
            choice = found.held_out(found.validation, calibration)
            if len(found.position):
                test = found.held_out(found.position, calibration)
        fitted = calibrate(found.task, raw, choice, test)
        calibration = fitted.calibration
        calibration.save(folder.path)
        about = {"calibration": {
            "rows": "held-out folds" if options.folds else "calibration rows",
            "targets": fitted.record,
        }}  # fmt: skip
        if fitted.diagrams:
            bins = pd.DataFrame(fitted.diagrams)
            folder.write_table(folder.path / "reliability.csv", bins, float_format="%.7g")
    results = summary(found, calibration, [one["validation"] for one in single])
    if results.test:
        shown = found.held_out(found.position, calibration)
        frame = found.frame(shown, calibration, prepared.smiles)
        folder.write_table(folder.predictions, frame)
    if prepared.smiles:
        _write_domain(folder, prepared, found, calibration)
    entries = [one["baseline"] for one in single if "baseline" in one]
    if entries:
        metrics = {"validation": results.validation, "test": results.test}
        about["baseline"] = joined_baseline(found.task, entries, metrics)
        results = replace(results, baseline=about["baseline"])
    names = ("parameters", "epochs", "best_epoch", "validation", "test", "seed", "wall_time_s")
    folder.write_record(
        {
            "task": options.task_name(),
            "model": options.network.model,
            "parameters": sum(one["parameters"] for one in single),
            "members": [
                {"name": member.name, "fold": member.fold, "repeat": member.repeat}
                | {name: one[name] for name in names}
                for member, one in zip(found.members, single, strict=True)
            ],
            "validation": results.validation,
            "test": results.test,
            "test_sd": results.sd,
            "test_of_members": results.alone,
            **about,
            "seed": options.seed,
            "wall_time_s": round(sum(one["wall_time_s"] for one in single), 2),
            "peak_memory_mib": max(one["peak_memory_mib"] for one in single),
            **origin(device),
        }
    )
    return results


def _write_domain(
    folder: RunFolder, prepared: Prepared, found: Predictions, calibration: Calibration
) -> None:
    """Store the molecules that any member was trained on, and the errors of the members' mean."""
    errors, position = list[Tensor](), found.position
    if len(position):
        mean = output_of(found.task, found.held_out(position, calibration).mean)
        errors.append(test_errors(found.task, mean, targets_only(found.store, position)))
    splits = splits_of(prepared.split_table()).values()
    train = torch.unique(torch.cat([table.of("train").row for table in splits]))
    repeat = found.members[0].repeat
    first = [one for one in found.members if one.first and one.repeat == repeat]
    groups = [one.folder(folder.path) for one in first]
    write_domain(folder, prepared, train, found.table.row, errors, groups)


def held_out_folds(
    folder: Path, options: TableOptions, prepared: Prepared, device: torch.device
) -> Results:
    """The metrics of the members of a cross-validation on their held-out folds."""
    found = predict_unseen(load_members(folder, options), options, prepared, device)
    single = [RunFolder(one.folder(folder)).read_record() for one in found.members]
    return summary(found, Calibration(), [one["validation"] for one in single])


def summary(found: Predictions, calibration: Calibration, validation: Sequence[Metrics]) -> Results:
    """The metrics of the members together."""
    folds = any(one.fold for one in found.members)
    if not len(found.position):  # a split from Python without test rows
        return Results(mean_metrics(validation), {}, {}, {})
    if folds:
        of_groups = found.of_groups()
        test, sd = mean_metrics(of_groups), _sd(of_groups)
    else:
        rows = found.held_out(found.position, calibration)
        test, sd = found.metrics(rows.mean, found.position), {}
    return Results(mean_metrics(validation), test, sd, mean_metrics(found.of_members()))


def _sd(values: Sequence[Metrics]) -> Metrics:
    """The standard deviation of each metric that all have."""
    return {name: stdev(one[name] for one in values) for name in mean_metrics(values)}
