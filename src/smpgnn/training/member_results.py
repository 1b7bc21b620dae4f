"""The results of a run with members: held-out predictions, their metrics, and the calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smpgnn.config.options import TableOptions
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.errors import InputError
from smpgnn.files import write_text
from smpgnn.training.baseline import joined_baseline
from smpgnn.training.calibration import Calibration, HeldOut, calibrate
from smpgnn.training.domain import TestErrors, write_domain_of_members
from smpgnn.training.ensemble import Ensemble, Shown, categories_of, spread
from smpgnn.training.evaluation import outputs_of
from smpgnn.training.fold_table import FoldTable
from smpgnn.training.intervals import LEVEL
from smpgnn.training.member_plan import Member, members
from smpgnn.training.prepare import Prepared
from smpgnn.training.provenance import commit, device_name, versions
from smpgnn.training.run_data import CALIBRATION, SplitTable
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.saved import SavedModel, load_model
from smpgnn.training.tasks import OneLevelTask, Task
from smpgnn.training.tasks.quantities import numbers, output_of, quantities

if TYPE_CHECKING:
    import pandas as pd

Metrics = dict[str, float]


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


@dataclass(frozen=True, eq=False)
class Predictions:
    """What each member predicts for the rows that it never saw.

    Members of a single split also predict its validation rows, on which they were chosen.

    Shapes: values [M, N, Q] for all graphs (or nodes), NaN for all other rows; `test`, `validation`
    and `calibration` are positions in N.
    """

    task: Task
    store: GraphStore
    members: tuple[Member, ...]
    values: Tensor
    test: dict[tuple[int, int], Tensor]
    validation: Tensor
    calibration: Tensor
    table: SplitTable  # of all test rows
    position: Tensor  # of these rows in N

    def held_out(self, position: Tensor, calibration: Calibration) -> HeldOut:
        """Mean and spread over the members that never saw the rows; probabilities calibrated."""
        values = self.values[:, position]
        groups = [one.group for one in self.members]
        mean = calibration.calibrated(self.task, values.nanmean(0))
        return HeldOut(mean, spread(values, groups), self.target(position))

    def target(self, position: Tensor) -> Tensor:
        """The targets of these rows in the units of the quantities, [R, T]; bounds are NaN."""
        assert isinstance(self.task, OneLevelTask)
        return self.task.exact(self.batch(position)).cpu()

    def batch(self, position: Tensor) -> GraphBatch:
        """A batch with the targets of these rows only."""
        known = {entry.name for entry in fields(GraphBatch)}
        given = {
            entry.name: value[position]
            for entry in fields(self.store)
            if entry.name in known - {"x", "edge_index", "edge_attr"}
            and isinstance(value := getattr(self.store, entry.name), Tensor)
            and len(value) == self.values.size(1)
        }
        empty = torch.zeros(0, dtype=torch.long)
        return GraphBatch(None, empty.view(2, 0), None, empty, len(position), **given)

    def metrics(self, mean: Tensor, position: Tensor) -> Metrics:
        """The metrics of quantities [R, Q] on these rows."""
        collected = self.task.metrics()
        self.task.update(collected, output_of(self.task, mean), self.batch(position))
        values = {name: float(v) for name, v in self.task.results(collected).items()}
        return {name: value for name, value in values.items() if not math.isnan(value)}

    def of_groups(self) -> list[Metrics]:
        """The metrics on the test rows of each group of members, of their mean."""
        return [
            self.metrics(self.values[self._in(group)][:, rows].mean(0), rows)
            for group, rows in self.test.items()
        ]

    def of_members(self) -> list[Metrics]:
        """The metrics of each member alone on its test rows."""
        return [
            self.metrics(own[self.test[one.group]], self.test[one.group])
            for one, own in zip(self.members, self.values, strict=True)
        ]

    def _in(self, group: tuple[int, int]) -> list[int]:
        return [number for number, one in enumerate(self.members) if one.group == group]

    def frame(self, rows: HeldOut, calibration: Calibration, smiles: Sequence[str]) -> pd.DataFrame:
        """A line for each test row: its number, SMILES, targets, and predictions of unseen rows.

        `smiles` are those of all rows of a table of molecules.
        """
        import pandas as pd

        level = LEVEL if calibration.intervals and numbers(self.task) else 0.0
        shown = Shown(self.task, calibration, len(self.members) > 1, level)
        try:
            values = shown.rows(rows.mean, rows.spread)
        except InputError:  # too few calibration rows for intervals of this level
            shown = Shown(self.task, calibration, len(self.members) > 1)
            values = shown.rows(rows.mean, rows.spread)
        lines = self.table.frame().drop(columns="split")
        if smiles:
            lines.insert(1, "smiles", [smiles[row] for row in self.table.row.tolist()])
        taken = {"row", "node", "smiles", *shown.columns}
        names = [f"target_{n}" if n in taken else n for n in self.task.target_names()]
        targets = self.task.shown_targets(self.batch(self.position))
        pairs = zip(targets, values, strict=True)
        more = pd.DataFrame([[*t, *v] for t, v in pairs], columns=[*names, *shown.columns])
        floats = more.select_dtypes("float64").columns
        found: pd.DataFrame = pd.concat(
            [lines.reset_index(drop=True), more.astype(dict.fromkeys(floats, "float32"))], axis=1
        )
        return found


def predict_unseen(
    saved: Sequence[SavedModel], options: TableOptions, prepared: Prepared, device: torch.device
) -> Predictions:
    """Apply each member to the rows that it was not trained or chosen on."""
    assert prepared.whole is not None
    store, rows, planned = prepared.whole.store, prepared.whole.rows, members(options)
    splits = splits_of(prepared.split_table())
    nodes = saved[0].spec.level == "node"

    def positions(table: SplitTable) -> tuple[SplitTable, Tensor]:
        if nodes and table.node is None:
            graphs = table.outputs(rows, store.node_ptr)
            first = store.node_ptr[graphs]
            table = table.with_nodes(store.num_nodes[graphs])
            assert table.node is not None
            return table, first.repeat_interleave(store.num_nodes[graphs]) + table.node
        return table, table.outputs(rows, store.node_ptr)

    test = {group: positions(table.of("test")) for group, table in splits.items()}
    first = next(iter(splits.values()))
    held, val = (
        torch.zeros(0, dtype=torch.long) if options.folds else positions(first.of(part))[1]
        for part in (CALIBRATION, "val")
    )
    values = []
    for member, one in zip(planned, saved, strict=True):
        wanted = torch.cat([test[member.group][1], held, val])
        graphs = torch.searchsorted(store.node_ptr, wanted, right=True) - 1 if nodes else wanted
        graphs = torch.unique(graphs)
        part = categories_of(one).encode(store.select(graphs))
        found = torch.cat(
            [
                quantities(one.task, output).cpu()
                for output, _ in outputs_of(
                    one.network, part, options.batch_size, device, options.batch_rows
                )
            ]
        )
        total = int(store.node_ptr[-1]) if nodes else len(store)
        own = found.new_full((total, found.size(1)), torch.nan)
        where = graphs
        if nodes:
            sizes = store.num_nodes[graphs]
            offset = store.node_ptr[graphs] - (sizes.cumsum(0) - sizes)
            where = torch.arange(int(sizes.sum())) + offset.repeat_interleave(sizes)
        unseen = torch.zeros(total, dtype=torch.bool)
        unseen[wanted] = True
        own[where] = torch.where(unseen[where, None], found, torch.nan)
        values.append(own)
        one.network.cpu()
    repeat = next(iter(test))[0]
    once = [pair for group, pair in test.items() if group[0] == repeat]
    position = torch.cat([where for _, where in once])
    order = position.argsort()
    return Predictions(
        task=saved[0].task,
        store=store,
        members=planned,
        values=torch.stack(values),
        test={group: where for group, (_, where) in test.items()},
        validation=val,
        calibration=held,
        table=_joined([table for table, _ in once], order),
        position=position[order],
    )


def splits_of(table: SplitTable | FoldTable) -> Mapping[tuple[int, int], SplitTable]:
    """The split of each group of members."""
    return table.splits if isinstance(table, FoldTable) else {(0, 0): table}


def _joined(tables: Sequence[SplitTable], order: Tensor) -> SplitTable:
    node = [table.node for table in tables if table.node is not None]
    return SplitTable(
        torch.cat([table.row for table in tables])[order],
        torch.cat([table.part for table in tables])[order],
        torch.cat(node)[order] if node else None,
    )


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
    folder: RunFolder, options: TableOptions, prepared: Prepared, device: torch.device
) -> Results:
    """Compute and write the results of a run whose members are trained."""
    saved = load_members(folder.path, options)
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
        _write_reliability(folder, fitted.diagrams)
    results = summary(found, calibration, [one["validation"] for one in single])
    if results.test:
        shown = found.held_out(found.position, calibration)
        folder.write_predictions(found.frame(shown, calibration, prepared.smiles))
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
            "device": device_name(device),
            "wall_time_s": round(sum(one["wall_time_s"] for one in single), 2),
            "peak_memory_mib": max(one["peak_memory_mib"] for one in single),
            "versions": versions(),
            "commit": commit(),
        }
    )
    return results


def _write_domain(
    folder: RunFolder, prepared: Prepared, found: Predictions, calibration: Calibration
) -> None:
    """Store the training molecules, and the errors of the mean of the members."""
    errors, position = TestErrors(found.task), found.position
    if len(position):
        mean = found.held_out(position, calibration).mean
        errors.keep(output_of(found.task, mean), found.batch(position))
    repeat = found.members[0].repeat
    first = [one for one in found.members if one.first and one.repeat == repeat]
    groups = [one.folder(folder.path) for one in first]
    splits = list(splits_of(prepared.split_table()).values())
    write_domain_of_members(folder, prepared, splits, groups, found.table.row, errors)


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
        return Results(_mean(validation), {}, {}, {})
    if folds:
        of_groups = found.of_groups()
        test, sd = _mean(of_groups), _sd(of_groups)
    else:
        rows = found.held_out(found.position, calibration)
        test, sd = found.metrics(rows.mean, found.position), {}
    return Results(_mean(validation), test, sd, _mean(found.of_members()))


def _mean(values: Sequence[Metrics]) -> Metrics:
    """The mean of each metric that all have."""
    return {name: fmean(one[name] for one in values) for name in _shared(values)}


def _sd(values: Sequence[Metrics]) -> Metrics:
    return {name: stdev(one[name] for one in values) for name in _shared(values)}


def _shared(values: Sequence[Metrics]) -> list[str]:
    return [name for name in values[0] if all(name in one for one in values)]


def _write_reliability(folder: RunFolder, lines: list[dict[str, Any]]) -> None:
    import pandas as pd

    if lines:
        text = pd.DataFrame(lines).to_csv(index=False, lineterminator="\n", float_format="%.7g")
        write_text(folder.path / "reliability.csv", text)
