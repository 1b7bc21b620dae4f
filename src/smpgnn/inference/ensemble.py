"""The model of a run with members: it predicts their mean, and knows how far they disagree."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import torch

from smpgnn.config.options import TableOptions
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.errors import InputError
from smpgnn.inference.predict import Model
from smpgnn.training.ensemble import Ensemble, Shown, spread
from smpgnn.training.member_plan import MEMBERS, members
from smpgnn.training.member_results import joined, load_members
from smpgnn.training.network import run_network
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.tasks.base import numbers, quantities


class EnsembleModel(Model):
    """The members of a run as one model.

    Numbers have a column `std_<target>`, the standard deviation of the members.
    """

    def __init__(self, path: str | Path, device: str = "auto") -> None:
        options = RunFolder(path).read_options()
        if not isinstance(options, TableOptions) or not members(options):
            raise InputError(
                f"{path}: its config.yaml is that of a single model, but it has the folder "
                f"'{MEMBERS}': restore config.yaml."
            )
        found = load_members(path, options)
        super().__init__(joined(found, path, options), device, path)
        self._members = [Model(one, device) for one in found]
        self._show(0.0)

    def _show(self, level: float) -> None:
        network = self.ensemble
        several = len(network.networks) > 1
        self.shown = Shown(self.task, network.calibration, several, level)
        self.columns = [*self.shown.columns, "error"]

    @property
    def ensemble(self) -> Ensemble:
        """The network of the model."""
        assert isinstance(self.network, Ensemble)
        return self.network

    def members(self) -> list[Model]:
        return self._members

    def encoded(self, store: GraphStore) -> GraphStore:
        super().encoded(store)  # refuses other numbers of features
        return store  # each member has categories of its own

    def with_interval(self, level: float) -> EnsembleModel:
        if not (isinstance(level, int | float) and math.isfinite(level) and 0 < level < 1):
            raise InputError(f"--interval must be between 0 and 1, such as 0.9, not {level!r}.")
        parts = numbers(self.task)
        if not parts:
            raise InputError(
                "--interval: is for numbers, but this model predicts classes: use their "
                "probabilities."
            )
        for part in parts:
            self.ensemble.calibration.intervals_of(part.name).quantile(level)
        found = copy.copy(self)
        found._show(level)
        return found

    def _run(self, batch: GraphBatch) -> list[list[Any]]:
        network = self.ensemble
        with torch.no_grad():
            pairs = zip(self._members, network.categories, strict=True)
            each = torch.stack(
                [
                    quantities(one.task, run_network(one.network, categories.encode(batch)))
                    for one, categories in pairs
                ]
            )
            mean = network.calibration.calibrated(self.task, each.mean(0))
            return self.shown.rows(mean, spread(each, network.groups))
