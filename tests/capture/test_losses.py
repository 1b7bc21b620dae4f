"""Losses ask nothing of the CPU, so steps with them can be captured; also with bounds."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from recording import NothingFromPython
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode

from smpgnn.capture.padded import Capacity, PaddedStore
from smpgnn.data.cycles import cycle_graphs
from smpgnn.data.store import GraphBatch
from smpgnn.training.tasks import Classification, MixedTargets, MultiLabel, Regression, Task

TASKS: dict[str, Task] = {
    **{
        loss: Regression(names=("a", "b"), mean=(1.0, 2.0), scale=(3.0, 4.0), objective=loss)
        for loss in ("mae", "mse", "huber", "mae+huber")
    },
    "classes": Classification(classes=("x", "y", "z")),
    "balanced classes": Classification(classes=("x", "y", "z"), class_weights=(0.5, 1.0, 2.0)),
    "labels": MultiLabel(names=("a", "b"), classes=(("0", "1"),) * 2),
    "balanced labels": MultiLabel(
        names=("a", "b"), classes=(("0", "1"),) * 2, class_weights=((0.6, 4.0), (1.0, 1.0))
    ),
    "logarithms": Regression(names=("a", "b"), mean=(1.0, 2.0), scale=(3.0, 4.0), log10=True),
    "numbers and classes": MixedTargets(
        parts=(Regression(objective="mse"), Classification(classes=("x", "y", "z"))),
        scales=(0.5, 2.0),
    ),
}


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", TASKS)
def test_losses_ask_nothing_of_the_cpu(name: str, weighted: bool) -> None:
    task, rows = TASKS[name], 5
    columns = 1 if isinstance(task, Classification) else 2
    empty = torch.zeros(2, 0, dtype=torch.long)
    batch = GraphBatch(None, empty, None, torch.arange(rows), rows, torch.zeros(rows, columns))
    if weighted:
        side = torch.zeros(rows, columns, dtype=torch.int8)
        batch = replace(batch, weight=torch.ones(rows, 1), side=side)
    output = torch.randn(rows, task.graph_outputs)
    mode = FakeTensorMode()
    with FakeCopyMode(mode):
        batch, output = deepcopy((batch, output))
    output.requires_grad_()
    with mode, NothingFromPython():
        task.make_objective()(output, batch).backward()
    assert output.grad is not None


def test_padding_has_no_effect_on_weighted_losses() -> None:
    store = cycle_graphs(4, 12, 8, seed=0)
    side = torch.tensor([0, 0, 0, 1, 0, -1, 0, 0], dtype=torch.int8).unsqueeze(1)
    store = replace(store, weight=torch.arange(8.0).unsqueeze(1), side=side)
    batch, _ = PaddedStore(store, Capacity.of(store, 4)).batch(torch.tensor([3, 5, 1, -1]))
    assert batch.weight is not None
    assert batch.weight[:, 0].tolist() == [3, 5, 1, 0]
    assert batch.side is not None
    assert batch.side[:, 0].tolist() == [1, -1, 0, 0]
    for task in (Classification(class_weights=(0.7, 1.5)), Regression(mean=(0.5,))):
        output = torch.randn(4, task.outputs)
        expected = task.loss(output[:3], store.batch([3, 5, 1]))
        assert float(task.loss(output, batch)) == pytest.approx(float(expected), rel=1e-5)
