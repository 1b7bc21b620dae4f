"""Your own data: the metric chooses the model, and weights and losses do what they say."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from small_runs import GRAPHS, lines, record, ring, rings
from test_tasks import batch
from torch.nn import functional as F
from torch_geometric.data import Data

import smpgnn
from smpgnn.config.metrics import METRICS
from smpgnn.config.options import MoleculesOptions, from_config
from smpgnn.errors import InputError
from smpgnn.training.module import GraphModule
from smpgnn.training.prepare import Prepared, prepare
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.saved import load_model, save_model
from smpgnn.training.tasks import Classification, MultiLabel, OneLevelTask, Regression
from smpgnn.training.train import Result


def rare(count: int = 240) -> list[Data]:
    """Rings of which 21 of 240 are positive: those with the largest features, with some noise."""
    torch.manual_seed(0)
    graphs = [ring(3 + i % 6) for i in range(count)]
    value = torch.stack([graph.x[:, 0].mean() for graph in graphs]) + 0.3 * torch.randn(count)
    positive = value >= value.topk(count * 21 // 240).values[-1]
    for graph, label in zip(graphs, positive.int().tolist(), strict=True):
        graph.y = torch.tensor([label])
    return graphs


def train(graphs: list[Data], folder: Path, **options: Any) -> Result:
    return smpgnn.train("graphs", graphs, output=str(folder), quiet=True, **{**GRAPHS, **options})


RARE: dict[str, Any] = {"epochs": 6, "batch_size": 32, "lr": 3e-3,
                        "split_fractions": (0.5, 0.25, 0.25)}  # fmt: skip


@pytest.fixture(scope="module")
def rare_run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return train(rare(), tmp_path_factory.mktemp("rare") / "run", **RARE)


def test_a_rare_class_is_chosen_by_auc(rare_run: Result) -> None:
    history = lines(rare_run.folder)
    assert len({line["val_accuracy"] for line in history[:3]}) == 1  # it would choose epoch 1
    best = min(history, key=lambda line: (-line["val_auc"], line["val_log_loss"]))
    assert rare_run.best_epoch == best["epoch"] > 1
    assert rare_run.validation["auc"] == pytest.approx(best["val_auc"], abs=1e-6)
    names = METRICS["classification"]
    assert set(history[0]) == {"epoch", "train_loss", "lr", *(f"val_{name}" for name in names)}
    assert tuple(rare_run.test) == tuple(record(rare_run.folder)["test"]) == names


def test_equal_auc_is_decided_by_log_loss(tmp_path: Path) -> None:
    graphs = rings(60)
    for graph in graphs:
        graph.y = torch.tensor([int(graph.x[:, 0].mean() > 0)])
        graph.x[:, 0] = 5.0 * graph.y - 2.5  # easily told apart
    made = train(graphs, tmp_path / "run", epochs=6, lr=1e-2)
    history = lines(made.folder)
    areas = [line["val_auc"] for line in history]
    assert areas.count(1.0) > 1
    perfect = [line for line in history if line["val_auc"] == 1.0]
    assert made.best_epoch == min(perfect, key=lambda line: line["val_log_loss"])["epoch"]
    assert made.best_epoch > areas.index(1.0) + 1


class Stopped(Exception):
    pass


@pytest.mark.parametrize("more", [{}, {"schedule": "plateau", "decay_epochs": 1, "patience": 2}])
def test_a_resumed_run_chooses_the_same_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    options = {**RARE, "lr": 1e-2, **more}
    whole = train(rare(), tmp_path / "whole", **options)
    start = GraphModule.on_train_epoch_start

    def stop(self: GraphModule) -> None:
        if self.current_epoch == 2:
            raise Stopped
        start(self)

    with monkeypatch.context() as patch:
        patch.setattr(GraphModule, "on_train_epoch_start", stop)
        with pytest.raises(Stopped):
            train(rare(), tmp_path / "half", **options)
    assert len(lines(tmp_path / "half")) == 2
    again = smpgnn.train("graphs", rare(), output=str(tmp_path / "half"), resume=True, quiet=True)
    assert lines(again.folder) == lines(whole.folder)
    assert (again.best_epoch, again.test) == (whole.best_epoch, whole.test)


def test_another_metric_chooses_another_epoch(tmp_path: Path) -> None:
    made = train(rings(), tmp_path / "run", epochs=4, metric="spearman", lr=1e-2)
    values = [line["val_spearman"] for line in lines(made.folder)]
    assert made.best_epoch == values.index(max(values)) + 1
    assert next(iter(made.test)) == "spearman"
    by_rmse = train(rings(), tmp_path / "other", epochs=4, lr=1e-2)
    values = [line["val_rmse"] for line in lines(by_rmse.folder)]
    assert by_rmse.best_epoch == values.index(min(values)) + 1
    assert next(iter(by_rmse.test)) == "rmse"


SMILES = ["C" * (1 + row // 2) + ("O" if row % 2 else "") for row in range(16)]
PARTS = ["train"] * 10 + ["val"] * 3 + ["test"] * 3


def prepared(folder: Path, columns: dict[str, list[Any]], **options: Any) -> Prepared:
    path = folder / "data.csv"
    pd.DataFrame({"smiles": SMILES, "part": PARTS, **columns}).to_csv(path, index=False)
    targets = [name for name in columns if name != "w"]
    chosen = {"path": str(path), "targets": targets, "split_column": "part", **options}
    return prepare(MoleculesOptions().changed(**chosen))


def test_a_validation_split_of_one_class(tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {"a": [0, 1] * 5 + [0] * 3 + [0, 1, 1]}
    made = prepared(tmp_path, columns)
    assert (made.task.monitor, made.task.larger_is_better) == ("log_loss", False)
    assert made.notes[:3] == (
        "Target 'a': classes 0 (9), 1 (7).",
        "The model is chosen by its log loss.",
        "The validation split has only one class of 'a', so there is no AUC for it.",
    )
    with pytest.raises(InputError, match=r"^--metric prauc: has no value on the validation split"):
        prepared(tmp_path, columns, metric="prauc")
    assert prepared(tmp_path, columns, metric="mcc").task.monitor == "mcc"
    # one of two labels is enough
    two = {**columns, "b": [1, 0] * 5 + [0, 1, 1] + [None] * 3}
    made = prepared(tmp_path, two)
    assert (made.task.monitor, made.task.tie) == ("auc", "log_loss")
    assert made.notes[2].startswith("The validation split has only one class of 'a', ")


def test_no_metric_is_nan_in_the_record(tmp_path: Path) -> None:
    columns = {"a": [0, 1] * 5 + [0] * 6, "b": [1, 0] * 5 + [0, 1, 1] + [None] * 3}
    prepared(tmp_path, columns)
    made = smpgnn.train("molecules", path=str(tmp_path / "data.csv"), targets=list(columns),
                        split_column="part", output=str(tmp_path / "run"), quiet=True, epochs=1,
                        **{**GRAPHS, "num_layers": 1})  # fmt: skip
    assert "auc" in made.validation
    assert "auc a" not in made.validation
    assert {"auc", "auc a", "auc b", "log_loss b"}.isdisjoint(made.test)
    assert made.test["log_loss"] == made.test["log_loss a"]
    text = (made.folder / "run.json").read_text() + (made.folder / "metrics.csv").read_text()
    assert "nan" not in text.casefold()


def test_balanced_weights_are_those_of_scikit_learn(tmp_path: Path) -> None:
    column = ["x"] * 6 + ["y"] * 3 + ["z"] + ["x", "y", "z"] * 2
    task = prepared(tmp_path, {"a": column}, class_weight="balanced", task="classification").task
    assert isinstance(task, Classification)
    y = [0] * 6 + [1] * 3 + [2]
    weights = compute_class_weight("balanced", classes=torch.arange(3).numpy(), y=y)
    assert task.class_weights == pytest.approx(weights)
    output, target = torch.randn(10, 3), torch.tensor(y)
    each = F.cross_entropy(output, target, reduction="none")
    expected = (each * torch.tensor(weights)[target]).mean()
    part = batch(target.float().unsqueeze(1))
    assert float(task.loss(output, part)) == pytest.approx(float(expected), rel=1e-5)
    rows = torch.rand(10, 1)
    found = float(task.loss(output, replace(part, weight=rows)))
    expected = (each * torch.tensor(weights)[target] * rows[:, 0]).mean()
    assert found == pytest.approx(float(expected), rel=1e-5)


def test_balanced_weights_of_labels(tmp_path: Path) -> None:
    columns = {"a": [1] + [0] * 9 + [0, 1, 0] * 2, "b": [1, 0, None, None] * 4}
    task = prepared(tmp_path, columns, class_weight="balanced").task
    assert isinstance(task, MultiLabel)
    assert task.class_weights[0] == pytest.approx((10 / 18, 5.0))
    assert task.class_weights[1] == (1.0, 1.0)
    output, target = torch.randn(10, 1), torch.tensor([[1.0]] + [[0.0]] * 9)
    one = replace(task, names=("a",), classes=task.classes[:1], class_weights=((10 / 18, 5.0),))
    each = F.binary_cross_entropy_with_logits(output, target, reduction="none")
    expected = (each * torch.where(target > 0, 5.0, 10 / 18)).mean()
    assert float(one.loss(output, batch(target))) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [("mae", [0, 0.5, 3]), ("mse", [0, 0.25, 9]), ("huber", [0, 0.125, 2.5]),
     ("mae+huber", [0, 0.5 + 0.25, 3 + 8])],
)  # fmt: skip
def test_losses_of_numbers(loss: str, expected: list[float]) -> None:
    task = Regression(mean=(10.0,), scale=(2.0,), objective=loss)
    part = batch(torch.tensor([[10.0], [11.0], [16.0], [math.nan]]))
    output = torch.zeros(4, 1)
    assert float(task.loss(output, part)) == pytest.approx(sum(expected) / 3)
    part = replace(part, weight=torch.tensor([[7.0], [1.0], [0.5], [9.0]]))
    weighted = expected[1] + 0.5 * expected[2]
    assert float(task.loss(output, part)) == pytest.approx(weighted / 3)


def test_weights_of_rows(tmp_path: Path) -> None:
    size = [float(len(text)) for text in SMILES]
    made = prepared(tmp_path, {"y": size, "w": [2, 4] * 8}, weight_column="w")
    weight = made.splits.train.weight
    assert weight is not None
    assert weight[:, 0].tolist() == pytest.approx([2 / 3, 4 / 3] * 5)
    # batches carry them, and other weights are other data
    assert torch.equal(made.splits.train.batch([3, 0]).weight, weight[[3, 0]])
    other = prepared(tmp_path, {"y": size, "w": [2, 3] * 8}, weight_column="w")
    assert made.own is not None
    assert other.own is not None
    change = made.own.fingerprint.change(other.own.fingerprint, lambda row: f"row {row}")
    assert "the targets of 8 rows changed" in change
    plain = prepared(tmp_path, {"y": size, "w": [1] * 16})
    assert plain.splits.train.weight is None


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, None, *[1] * 14], "line 3: the weight 'w' is missing, but must be a number from 0 to"),
        ([1, 1, -2, *[1] * 13], "line 4: the weight 'w' is '-2', but must be"),
        ([1, 1, "inf", *[1] * 13], "line 4: the weight 'w' is 'inf', but must be"),
        ([1, "much", *[1] * 14], "line 3: the weight 'w' is 'much', but must be"),
        ([0] * 10 + [1] * 6, "all training rows have the weight 0 in column 'w'"),
    ],
)
def test_wrong_weights_are_refused(tmp_path: Path, weights: list[Any], message: str) -> None:
    size = [float(len(text)) for text in SMILES]
    with pytest.raises(InputError, match=message):
        prepared(tmp_path, {"y": size, "w": weights}, weight_column="w")


@pytest.mark.parametrize(
    "task", [Regression(), Classification(), MultiLabel()], ids=lambda task: type(task).__name__
)
def test_rows_of_weight_0_teach_nothing(task: OneLevelTask) -> None:
    part = replace(batch(torch.ones(3, 1)), weight=torch.tensor([[1.0], [0.0], [2.0]]))
    output = torch.zeros(3, task.graph_outputs, requires_grad=True)
    task.loss(output, part).backward()
    assert output.grad is not None
    slopes = output.grad[:, 0]
    assert slopes[1] == 0
    assert slopes[0] != 0
    assert slopes[2] == pytest.approx(2 * slopes[0].item())


def test_graphs_with_weights_in_their_table(tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
    folder.mkdir()
    for number in range(6):
        nodes = [{"id": k, "v": float(k + number)} for k in range(3)]
        edges = [{"source": 0, "target": 1}, {"source": 1, "target": 2}]
        text = json.dumps({"nodes": nodes, "links": edges})
        (folder / f"g{number}.json").write_text(text)
    labels = tmp_path / "labels.csv"
    names = [f"g{number}.json" for number in range(6)]
    frame = pd.DataFrame({"file": names, "y": range(6), "w": [1, 2, 3, 4, 5, 6]})
    frame.to_csv(labels, index=False)
    options: dict[str, Any] = {
        "path": str(folder), "labels": str(labels), "targets": ["y"], "weight_column": "w",
        "output": str(tmp_path / "run"), "quiet": True, "epochs": 1, **GRAPHS,
    }  # fmt: skip
    made = smpgnn.train("graphs", **options)
    assert math.isfinite(made.test["rmse"])
    with pytest.raises(InputError, match="--weight-column: applies to targets of graphs"):
        smpgnn.train("graphs", **{**options, "level": "node", "output": str(tmp_path / "a")})
    with pytest.raises(InputError, match="weight_column: applies to tables and files"):
        train(rings(), tmp_path / "b", weight_column="w")


def test_settings_of_earlier_versions() -> None:
    old = {"task_type": "molecules", "objective": "mae+huber"}
    assert from_config(old, "old") == MoleculesOptions(loss="mae+huber")
    assert from_config({**old, "objective": "mae"}, "old") == MoleculesOptions()
    assert MoleculesOptions().changed(objective="mae+huber").loss == "mae+huber"
    with pytest.raises(InputError, match=r"old: loss must be one of auto, mae, .*, not 'x'"):
        from_config({**old, "objective": "x"}, "old")


def test_a_run_with_earlier_metrics_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its model says which; the settings of such a run do not name any."""
    start = GraphModule.on_train_epoch_start

    def stop(self: GraphModule) -> None:
        if self.current_epoch == 2:
            raise Stopped
        start(self)

    before = Classification(name="y", classes=("0", "1"))
    with monkeypatch.context() as patch:
        patch.setattr(GraphModule, "on_train_epoch_start", stop)
        patch.setattr("smpgnn.training.own_run.own_task", lambda *_: (before, ()))
        with pytest.raises(Stopped):
            train(rare(), tmp_path / "run", **RARE)
    model = tmp_path / "run" / "model.safetensors"
    assert load_model(model).task == before
    save_model(model, load_model(model))
    made = smpgnn.train("graphs", rare(), output=str(tmp_path / "run"), resume=True, quiet=True)
    assert set(made.test) == {"accuracy"}
    assert len(lines(made.folder)) == RARE["epochs"]
    assert RunFolder(made.folder).read_options().metric == "auto"
