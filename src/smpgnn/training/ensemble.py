"""Several trained models as one: it predicts the mean of its members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from smpgnn.data.categories import Categories
from smpgnn.data.tables import free_names
from smpgnn.training.calibration import Calibration
from smpgnn.training.saved import SavedModel
from smpgnn.training.tasks import Task
from smpgnn.training.tasks.base import numbers, output_of, quantities


def categories_of(saved: SavedModel) -> Categories:
    """The categories that a model was trained with."""
    found = Categories.from_dict(saved.source.get("categories", {}))
    return found if saved.spec.edge_channels else replace(found, edge=())


class Ensemble(nn.Module):
    """Networks with the same input; the output corresponds to the mean of their quantities.

    It has the `task` of its first member. Probabilities are calibrated.

    Args:
        members: the trained models.
        groups: of each; those of a group differ by their seed only.
        calibration: of probabilities and intervals.
    """

    capturable = False  # the calibration is computed on the CPU

    def __init__(
        self, members: Sequence[SavedModel], groups: Sequence[Any], calibration: Calibration
    ) -> None:
        super().__init__()
        self.networks = nn.ModuleList(member.network for member in members)
        self.tasks = [member.task for member in members]
        # those of the training rows of each member
        self.categories = [categories_of(member) for member in members]
        self.groups, self.calibration = list(groups), calibration

    @property
    def task(self) -> Task:
        """The task of the ensemble."""
        return self.tasks[0]

    @property
    def backbone(self) -> Any:
        """That of a member, which says which input they take."""
        return self.networks[0].backbone

    @property
    def level(self) -> Any:
        """Whether the outputs belong to graphs or nodes."""
        return getattr(self.networks[0], "level", "graph")

    def forward(
        self,
        x: Tensor | None,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        *rest: Any,
        **more: Any,
    ) -> Tensor:
        """The output of the mean."""
        each = []
        members = zip(self.networks, self.tasks, self.categories, strict=True)
        for network, task, categories in members:
            nodes, edges = categories.features(x, edge_attr)
            each.append(quantities(task, network(nodes, edge_index, edges, *rest, **more)))
        mean = torch.stack(each).mean(0)
        return output_of(self.task, self.calibration.calibrated(self.task, mean))


def spread(values: Tensor, groups: Sequence[Any]) -> Tensor:
    """The standard deviation of members, [R, Q]; NaN where fewer than two have a value.

    If groups have several members, it is within the groups (the root of the mean variance), so that
    it means the same for a row that all members predict as for a row of one fold.

    Shapes: values [M, R, Q], NaN where a member has none.
    """
    inside = [
        values[[number for number, one in enumerate(groups) if one == group]]
        for group in dict.fromkeys(groups)
    ]
    if any(len(part) > 1 for part in inside):
        variances = [part.var(0) for part in inside if len(part) > 1]
        return torch.stack(variances).nanmean(0).sqrt()
    known = ~values.isnan()
    gap = torch.where(known, values - values.nanmean(0), 0.0)
    count = known.sum(0)
    found = (gap.square().sum(0) / (count - 1).clamp(min=1)).sqrt()
    return torch.where(count > 1, found, torch.nan)


@dataclass(frozen=True)
class Shown:
    """How the predictions of an ensemble are shown: its usual columns, then its spread.

    Args:
        task: of the ensemble.
        calibration: of its intervals.
        several: whether it has several members, and so a spread.
        level: the probability with which an interval contains the target; 0: no intervals.
    """

    task: Task
    calibration: Calibration
    several: bool
    level: float = 0.0
    columns: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        kinds = [*(("low", "high") if self.level else ()), *(("std",) if self.several else ())]
        more = [f"{kind}_{part.name}" for part in numbers(self.task) for kind in kinds]
        object.__setattr__(self, "columns", tuple(free_names([*self.task.columns(), *more])))

    def rows(self, mean: Tensor, deviation: Tensor) -> list[list[Any]]:
        """The values of the columns.

        Shapes: mean (calibrated) and deviation [R, Q], the deviation NaN if unknown.
        """
        columns: list[list[float]] = []
        for part in numbers(self.task):
            (column,) = part.columns
            own = deviation[:, column].cpu().numpy()
            if self.level:
                width = self.calibration.intervals_of(part.name).half_width(self.level, own)
                middle, half = mean[:, column].cpu(), torch.from_numpy(width)
                columns += [part.shown(middle + sign * half).tolist() for sign in (-1, 1)]
            if self.several:
                columns.append(own.tolist())
        shown = self.task.predict(output_of(self.task, mean))
        if not columns:
            return shown
        return [[*row, *more] for row, more in zip(shown, zip(*columns, strict=True), strict=True)]
