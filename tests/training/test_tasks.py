"""Losses and metrics by hand: missing targets, units, names, precision."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from benchmark_metric import log_mse_by_size
from torch import Tensor

from smpgnn.data.properties import property_graphs
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.errors import InputError
from smpgnn.training.tasks import (
    Classification,
    GraphProperties,
    MultiLabel,
    Regression,
    Task,
    task_from_dict,
)

NAN = math.nan


def batch(y: Tensor, level: str = "graph") -> GraphBatch:
    n = len(y)
    graph = torch.arange(n) if level == "graph" else torch.zeros(n, dtype=torch.long)
    return GraphBatch(
        x=None,
        edge_index=torch.zeros(2, 0, dtype=torch.long),
        edge_attr=None,
        batch=graph,
        num_graphs=n if level == "graph" else 1,
        y=y if level == "graph" else None,
        y_node=y if level == "node" else None,
    )


def scores(task: Task, output: Tensor, part: GraphBatch) -> dict[str, float]:
    metrics = task.metrics()
    task.update(metrics, output, part)
    return {name: float(value) for name, value in task.results(metrics).items()}


@pytest.mark.parametrize("level", ["graph", "node"])
def test_regression_by_hand(level: str) -> None:
    task = Regression(names=("a",), mean=(10.0,), scale=(2.0,), level=level)
    part = batch(torch.tensor([[10.0], [14.0], [NAN]], dtype=torch.float64), level)
    output = torch.tensor([[0.0], [1.0], [5.0]])  # means 10, 12 and (unasked) 20
    assert float(task.loss(output, part)) == pytest.approx((0 + 1) / 2)
    assert scores(task, output, part) == {"mae": 1.0, "mse": 2.0}
    assert task.known(part) == 2
    assert task.predict(output) == [[10.0], [12.0], [20.0]]
    assert task.columns() == ["predicted_a"]


def test_large_errors_weigh_more_with_huber_beside() -> None:
    task = Regression(names=("a",), mean=(10.0,), scale=(2.0,), objective="mae+huber")
    part = batch(torch.tensor([[10.0], [14.0], [18.0], [NAN]]))
    output = torch.tensor([[0.0], [1.0], [1.0], [5.0]], requires_grad=True)  # errors 0, 1, 3
    loss = task.loss(output, part)
    assert loss.item() == pytest.approx((0 + (1 + 2 * 0.5) + (3 + 2 * (2 * 3 - 2))) / 3)
    (slope,) = torch.autograd.grad(loss, output)
    assert slope[:, 0].tolist() == pytest.approx([0, -(1 + 2 * 1) / 3, -(1 + 2 * 2) / 3, 0])
    assert scores(task, output.detach(), part)["mae"] == pytest.approx((0 + 2 + 6) / 3)


def test_several_targets_with_dots_in_their_names() -> None:
    task = Regression(names=("log.S", "b"), mean=(0.0, 0.0), scale=(1.0, 1.0))
    part = batch(torch.tensor([[1.0, NAN], [3.0, NAN]]))
    found = scores(task, torch.zeros(2, 2), part)
    assert found["mae"] == found["mae log.S"] == 2.0
    assert math.isnan(found["mae b"])
    assert float(task.loss(torch.zeros(2, 2), part)) == 2.0


def test_scaling_is_fitted_to_the_known_training_targets() -> None:
    y = torch.tensor([[1.0, NAN], [3.0, 5.0]])
    store = GraphStore(torch.tensor([0, 1, 2]), torch.zeros(3).long(), torch.zeros(2, 0).long(),
                       y=y)  # fmt: skip
    task = Regression.fit(("a", "b"), store)
    assert task.mean == (2.0, 5.0)
    assert task.scale == (1.0, 1.0)  # a constant is not divided by 0
    with pytest.raises(InputError, match="target 'b' has no value in the training split"):
        Regression.fit(("a", "b"), replace(store, y=torch.tensor([[1.0, NAN], [3.0, NAN]])))


def test_bfloat16_does_not_blur_the_mean() -> None:
    # 1001 is 1000 in bfloat16: half a scale off, were it computed there
    task = Regression(names=("a",), mean=(1001.0,), scale=(2.0,))
    part = batch(torch.tensor([[1001.0], [1003.0]]))
    output = torch.tensor([[0.0], [1.0]], dtype=torch.bfloat16)
    assert float(task.loss(output, part)) == 0.0
    assert scores(task, output, part)["mae"] == 0.0


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_classification_by_hand(level: str, dtype: torch.dtype) -> None:
    task = Classification(name="c", classes=("x", "y", "z"), level=level)
    y = torch.tensor([[0], [2], [1]]).to(dtype)
    output = torch.tensor([[9.0, 0, 0], [0, 0, 9.0], [9.0, 0, 0]])
    assert scores(task, output, batch(y, level))["accuracy"] == pytest.approx(2 / 3)
    if dtype.is_floating_point:
        y[2] = NAN
        assert scores(task, output, batch(y, level))["accuracy"] == 1.0
        assert task.known(batch(y, level)) == 2
        assert float(task.loss(output, batch(y, level))) == pytest.approx(
            math.log(1 + 2 * math.exp(-9)), rel=1e-3
        )
    rows = task.predict(output)
    assert [row[0] for row in rows] == ["x", "z", "x"]
    assert task.columns() == [
        "predicted_c",
        "probability_c_x",
        "probability_c_y",
        "probability_c_z",
    ]
    assert sum(rows[0][1:]) == pytest.approx(1.0)


def test_several_labels_by_hand() -> None:
    task = MultiLabel(names=("a", "b"), classes=(("no", "yes"), ("0", "1")))
    part = batch(torch.tensor([[1.0, NAN], [0.0, 1.0]]))
    output = torch.tensor([[9.0, 9.0], [9.0, 9.0]])
    assert scores(task, output, part)["accuracy"] == pytest.approx(2 / 3)
    assert float(task.loss(output, part)) == pytest.approx(9 / 3, abs=1e-3)
    assert task.known(part) == 3
    assert task.predict(output)[0][::2] == ["yes", "1"]
    assert task.columns() == ["predicted_a", "probability_a_yes", "predicted_b", "probability_b_1"]


@pytest.mark.parametrize("kind", ["regression", "classification", "labels"])
def test_a_batch_without_known_targets_has_loss_0(kind: str) -> None:
    task: Task = {
        "regression": Regression(),
        "classification": Classification(),
        "labels": MultiLabel(),
    }[kind]
    output = torch.randn(2, task.graph_outputs, requires_grad=True)
    loss = task.loss(output, batch(torch.tensor([[NAN], [NAN]])))
    loss.backward()
    assert loss.item() == 0.0
    assert output.grad is not None
    assert not output.grad.any()


def test_graph_properties_are_scored_as_the_benchmark_does() -> None:
    store = property_graphs((5, 6, 9), 4, seed=0)
    part = store.batch()
    task = GraphProperties()
    torch.manual_seed(0)
    assert part.y is not None
    assert part.y_node is not None
    output = torch.randn_like(part.y_node.float()), torch.randn_like(part.y.float())
    size = store.num_nodes
    expected = torch.cat(
        [
            log_mse_by_size(output[0], part.y_node, size[part.batch]),
            log_mse_by_size(output[1], part.y, size),
        ]
    )
    assert scores(task, output, part)["log_mse"] == pytest.approx(float(expected.mean()))
    # batch by batch makes no difference
    metrics = task.metrics()
    for g in range(len(store)):
        rows = part.batch == g
        task.update(metrics, (output[0][rows], output[1][[g]]), store.batch([g]))
    assert float(task.results(metrics)["log_mse"]) == pytest.approx(float(expected.mean()))


@pytest.mark.parametrize(
    "task",
    [
        Regression(names=("a", "b"), mean=(1.0, 2.0), scale=(3.0, 4.0), level="node"),
        Classification(name="ü", classes=("x", "y", "z")),
        MultiLabel(names=("a",), classes=(("no", "yes"),)),
        GraphProperties(),
    ],
    ids=lambda task: type(task).__name__,
)
def test_tasks_survive_json(task: Task) -> None:
    assert task_from_dict(json.loads(json.dumps(task.to_dict()))) == task


def test_an_unknown_kind_of_task_is_refused() -> None:
    with pytest.raises(InputError, match="unknown task 'os'"):
        task_from_dict({"kind": "os"})
