"""What the members of a run predict for the rows that they never saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smpgnn.config.options import TableOptions
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.training.calibration import Calibration, HeldOut
from smpgnn.training.ensemble import Shown, categories_of, spread
from smpgnn.training.evaluation import outputs_of, prediction_table
from smpgnn.training.intervals import LEVEL
from smpgnn.training.member_plan import Member, members
from smpgnn.training.prepare import Prepared
from smpgnn.training.run_data import CALIBRATION, FoldTable, SplitTable
from smpgnn.training.saved import SavedModel
from smpgnn.training.tasks import OneLevelTask, Task
from smpgnn.training.tasks.base import numbers, output_of, quantities, targets_only

if TYPE_CHECKING:
    import pandas as pd

Metrics = dict[str, float]


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
        return self.task.exact(targets_only(self.store, position)).cpu()

    def metrics(self, mean: Tensor, position: Tensor) -> Metrics:
        """The metrics of quantities [R, Q] on these rows."""
        collected = self.task.metrics()
        self.task.update(collected, output_of(self.task, mean), targets_only(self.store, position))
        return self.task.defined(collected)

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

    def frame(
        self, held_out: HeldOut, calibration: Calibration, smiles: Sequence[str]
    ) -> pd.DataFrame:
        """A line for each test row: its number, SMILES, targets, and predictions of unseen rows."""
        level = LEVEL if calibration.intervals and numbers(self.task) else 0.0
        shown = Shown(self.task, calibration, len(self.members) > 1, level)
        try:
            values = shown.rows(held_out.mean, held_out.spread)
        except InputError:  # too few calibration rows for intervals of this level
            shown = Shown(self.task, calibration, len(self.members) > 1)
            values = shown.rows(held_out.mean, held_out.spread)
        targets = self.task.shown_targets(targets_only(self.store, self.position))
        rows = [[*known, *value] for known, value in zip(targets, values, strict=True)]
        return prediction_table(self.task, self.table, shown.columns, rows, smiles)


def predict_unseen(
    saved: Sequence[SavedModel], options: TableOptions, prepared: Prepared, device: torch.device
) -> Predictions:
    """Apply each member to the rows that it was not trained or chosen on."""
    assert prepared.whole is not None
    store, rows, planned = prepared.whole.store, prepared.whole.rows, members(options)
    splits = splits_of(prepared.split_table())
    nodes = saved[0].spec.level == "node"

    def positions(table: SplitTable) -> tuple[SplitTable, Tensor]:
        """The rows, or all nodes of these graphs, and where they are among all."""
        if nodes and table.node is None:
            table = table.with_nodes(store.num_nodes[table.outputs(rows, store.node_ptr)])
        return table, table.outputs(rows, store.node_ptr)

    test = {group: positions(table.of("test")) for group, table in splits.items()}
    first = next(iter(splits.values()))
    held, val = (
        torch.zeros(0, dtype=torch.long) if options.folds else positions(first.of(part))[1]
        for part in (CALIBRATION, "val")
    )
    graph = torch.arange(len(store))  # of each row, or of each node
    if nodes:
        graph = graph.repeat_interleave(store.num_nodes)
    values = []
    for member, one in zip(planned, saved, strict=True):
        unseen = torch.zeros(len(graph), dtype=torch.bool)
        unseen[torch.cat([test[member.group][1], held, val])] = True
        needed = torch.zeros(len(store), dtype=torch.bool)
        needed[graph[unseen]] = True
        part = categories_of(one).encode(store.select(needed.nonzero().flatten()))
        size, limit = options.batch_size, options.batch_rows
        outputs = outputs_of(one.network, part, size, device, limit)
        found = torch.cat([quantities(one.task, output).cpu() for output, _ in outputs])
        own = found.new_full((len(graph), found.size(1)), torch.nan)
        own[needed[graph]] = found
        own[~unseen] = torch.nan
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
