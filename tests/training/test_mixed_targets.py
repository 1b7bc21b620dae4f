"""Numbers and classes in one table; bounds; logarithms."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from small_runs import GRAPHS, lines
from test_tasks import batch, scores
from torch import Tensor
from torch.nn import functional as F

import smpgnn
from smpgnn.config.metrics import METRICS
from smpgnn.config.options import MoleculesOptions
from smpgnn.data.graphs import read_graphs
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.training.prepare import Prepared, prepare
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.saved import load_model
from smpgnn.training.tasks import (
    Classification,
    MixedTargets,
    Regression,
    task_from_dict,
)
from smpgnn.training.tasks.mixed import constant_loss

NAN = math.nan
NUMBER = Regression(
    names=("a",), mean=(1.0,), scale=(2.0,), metric_names=METRICS["regression"], objective="mse"
)
KIND = Classification(
    name="b", classes=("x", "y", "z"), metric_names=METRICS["classification"], monitor="auc"
)
MIXED = MixedTargets(
    parts=(NUMBER, KIND),
    scales=(0.5, 4.0),
    metric_names=METRICS["mixed"],
)


def outputs(rows: int = 6) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    target = torch.stack([torch.randn(rows), torch.arange(rows) % 3.0], dim=1)
    target[0, 0] = target[3, 1] = target[4, 1] = NAN
    return torch.randn(rows, 4), target


def test_the_loss_is_a_mean_over_all_targets() -> None:
    output, target = outputs()
    a = [(output[r, 0] - (target[r, 0] - 1) / 2).square() / 0.5 for r in (1, 2, 3, 4, 5)]
    wanted = target[:, 1].nan_to_num().long()
    each = F.cross_entropy(output[:, 1:], wanted, reduction="none")
    b = [each[r] / 4 for r in (0, 1, 2, 5)]
    part = batch(target)
    assert float(MIXED.loss(output, part)) == pytest.approx(float(sum(a) + sum(b)) / 9)
    assert MIXED.known(part) == 9
    weight = torch.tensor([[1.0], [0.0], [0.5], [2.0], [1.0], [3.0]])
    rows = [weight[r, 0] * x for r, x in zip((1, 2, 3, 4, 5), a, strict=True)]
    rows += [weight[r, 0] * x for r, x in zip((0, 1, 2, 5), b, strict=True)]
    found = MIXED.loss(output, replace(part, weight=weight))
    assert float(found) == pytest.approx(float(sum(rows)) / 9)
    nothing = batch(torch.full((2, 2), NAN))
    assert float(MIXED.loss(torch.randn(2, 4), nothing)) == 0.0


@pytest.mark.parametrize("level", ["graph", "node"])
def test_a_target_has_the_metrics_of_its_task(level: str) -> None:
    output, target = outputs(9)
    parts = (replace(NUMBER, level=level), replace(KIND, level=level))
    found = scores(replace(MIXED, parts=parts, level=level), output, batch(target, level))
    number = scores(parts[0], output[:, :1], batch(target[:, :1], level))
    kind = scores(parts[1], output[:, 1:], batch(target[:, 1:], level))
    for name, values in (("a", number), ("b", kind)):
        for metric, value in values.items():
            assert found[metric] == found[f"{metric} {name}"] == pytest.approx(value)
    assert found["relative_error a"] == pytest.approx(number["rmse"] / 2)
    assert found["relative_error b"] == pytest.approx(2 * (1 - kind["auc"]))
    mean = (found["relative_error a"] + found["relative_error b"]) / 2
    assert found["relative_error"] == pytest.approx(mean)
    assert set(found) == {*METRICS["mixed"], "relative_error a", "relative_error b",
                          *(f"{m} a" for m in number), *(f"{m} b" for m in kind)}  # fmt: skip


def test_constant_predictions_have_relative_error_1() -> None:
    y = torch.tensor([[1.0, 0], [3.0, 1], [5.0, 2], [7.0, 0]])
    store = GraphStore(torch.arange(5), torch.zeros(5).long(), torch.zeros(2, 0).long(), y=y)
    number = Regression.fit(("a",), replace(store, y=y[:, :1]))
    number = replace(number, metric_names=METRICS["regression"])
    task = replace(MixedTargets.fit((number, KIND), store, "graph"), metric_names=METRICS["mixed"])
    frequencies = torch.tensor([0.5, 0.25, 0.25]).log()
    output = torch.cat([torch.zeros(4, 1), frequencies.expand(4, 3)], dim=1)
    found = scores(task, output, batch(y))
    assert found["relative_error"] == found["relative_error a"] == found["relative_error b"] == 1
    assert float(task.loss(output, batch(y))) == pytest.approx(1.0)
    balanced = replace(KIND, class_weights=(2 / 3, 4 / 3, 4 / 3))
    even = constant_loss(balanced, batch(y[:, 1:]))
    assert even == pytest.approx(math.log(3))


def test_predictions_are_side_by_side() -> None:
    output, target = (tensor[:2] for tensor in outputs())
    assert MIXED.columns() == [
        "predicted_a", "predicted_b", "probability_b_x", "probability_b_y", "probability_b_z",
    ]  # fmt: skip
    rows = MIXED.predict(output)
    assert [row[0] for row in rows] == pytest.approx((2 * output[:, 0] + 1).tolist())
    assert [row[1:] for row in rows] == KIND.predict(output[:, 1:])
    shown = MIXED.shown_targets(batch(target))
    assert shown[1] == [pytest.approx(target[1, 0].item()), "y"]
    assert MIXED.score_names() == ["a", "b=x", "b=y", "b=z"]
    assert torch.equal(MIXED.scores(output)[:, 1:], KIND.scores(output[:, 1:]))
    assert (MIXED.outputs, MIXED.graph_outputs, MIXED.target_names()) == (4, 4, ["a", "b"])


def test_tasks_are_saved_as_plain_values() -> None:
    content = json.loads(json.dumps(MIXED.to_dict()))
    assert task_from_dict(content) == MIXED
    for change in (
        {"parts": []},
        {"parts": [content["parts"][0]]},
        {"parts": [content["parts"][0], {"kind": "GraphProperties"}]},
        {"parts": [{**content["parts"][0], "level": "node"}, content["parts"][1]]},
        {"parts": [{**content["parts"][0], "names": ["a", "c"]}, content["parts"][1]]},
        {"parts": "ab"},
        {"metric_names": ["relative_error", "rmse"]},
        {"monitor": "best"},
    ):
        with pytest.raises(InputError):
            task_from_dict({**content, **change})


def test_classes_alone_are_compared_by_auc(tmp_path: Path) -> None:
    task = prepared(tmp_path, table(), "toxic", "end").task
    assert isinstance(task, MixedTargets)
    assert (task.monitor, task.tie) == ("auc", "log_loss")
    assert task.metric_names == METRICS["classification"]
    target = torch.stack([torch.arange(8) % 2.0, torch.arange(8) % 4.0], dim=1)
    found = scores(task, torch.randn(8, 6), batch(target))
    names = METRICS["classification"]
    assert set(found) == {*names, *(f"{m} {n}" for m in names for n in ("toxic", "end"))}
    assert task.metric_groups() == [(names, ["toxic", "end"])]


# Bounds


@pytest.mark.parametrize("loss", ["mae", "mse", "huber", "mae+huber"])
def test_no_loss_on_the_right_side_of_a_bound(loss: str) -> None:
    task = Regression(mean=(10.0,), scale=(2.0,), objective=loss, metric_names=("rmse", "mae"))
    target = torch.tensor([[10.0], [10.0], [10.0], [10.0], [12.0]])
    side = torch.tensor([[1], [1], [-1], [-1], [0]], dtype=torch.int8)
    output = torch.tensor([[3.0], [-3.0], [3.0], [-3.0], [4.0]], requires_grad=True)
    part = replace(batch(target), side=side)
    (slope,) = torch.autograd.grad(task.loss(output, part), output)
    assert slope[:, 0].sign().tolist() == [0, -1, 1, 0, 1]
    wrong, right = output.detach()[[1, 2, 4]], target[[1, 2, 4]]
    alone = task.loss(wrong, batch(right))
    assert task.loss(output, part).item() == pytest.approx(alone.item() * 3 / 5)
    assert scores(task, output.detach(), part) == {"rmse": 6.0, "mae": 6.0}  # of the last alone
    assert task.shown_targets(part) == [[">10"], [">10"], ["<10"], ["<10"], [12.0]]


def test_batches_carry_bounds() -> None:
    y, side = torch.randn(4, 2), torch.tensor([[0, 1], [-1, 0], [0, 0], [1, 1]], dtype=torch.int8)
    store = GraphStore(torch.arange(5), torch.zeros(5).long(), torch.zeros(2, 0).long(), y=y,
                       side=side)  # fmt: skip
    assert torch.equal(store.batch([3, 1]).side, side[[3, 1]])
    assert torch.equal(GraphStore.concat([store, store]).select([5, 0]).side, side[[1, 0]])
    with pytest.raises(InputError, match="side has 1 entries instead of 4"):
        replace(store, side=side[:1])


# Runs

SMILES = ["C" * (1 + row // 4 % 8) + ("", "O", "N", "Cl")[row % 4] for row in range(32)]
SMALL: dict[str, Any] = {**GRAPHS, "epochs": 2, "quiet": True}


def table() -> pd.DataFrame:
    size = [len(text.replace("Cl", "X")) + 0.25 * (row % 3) for row, text in enumerate(SMILES)]
    dose = [f">{10 * s:g}" if row % 8 == 5 else f"{10 * s:g}" for row, s in enumerate(size)]
    dose[8] = "≤ 30"
    return pd.DataFrame(
        {
            "smiles": SMILES,
            "size": [s if row % 5 else None for row, s in enumerate(size)],
            "toxic": [int("O" in text or "N" in text) if row % 7 else None
                      for row, text in enumerate(SMILES)],
            "end": [("none", "O", "N", "Cl")[row % 4] for row in range(32)],
            "dose [mg]": dose,
        }
    )  # fmt: skip


def train(folder: Path, targets: list[str], **options: Any) -> Any:
    table().to_csv(folder / "data.csv", index=False)
    return smpgnn.train(
        "molecules", path=str(folder / "data.csv"), targets=targets, output=str(folder / "run"),
        **{**SMALL, **options},
    )  # fmt: skip


def prepared(folder: Path, frame: pd.DataFrame, *targets: str, **options: Any) -> Prepared:
    frame.to_csv(folder / "data.csv", index=False)
    return prepare(MoleculesOptions(path=str(folder / "data.csv"), targets=targets, **options))


def test_a_run_of_mixed_targets(tmp_path: Path) -> None:
    made = train(tmp_path, ["size", "toxic", "end"], epochs=4, lr=1e-2)
    task = made.saved.task
    assert isinstance(task, MixedTargets)
    assert [type(part) for part in task.parts] == [Regression, Classification, Classification]
    history = [line["val_relative_error"] for line in lines(made.folder)]
    assert made.best_epoch == history.index(min(history)) + 1
    assert made.validation["relative_error"] == pytest.approx(min(history), rel=1e-5)
    assert {"rmse", "rmse size", "auc", "auc toxic", "log_loss end"} <= set(made.test)
    assert "auc size" not in made.test
    model = smpgnn.load(made.folder, device="cpu")
    frame = model.predict(SMILES[:3])
    assert list(frame) == [
        "predicted_size", "predicted_toxic", "probability_toxic_0", "probability_toxic_1",
        "predicted_end", "probability_end_Cl", "probability_end_N", "probability_end_O",
        "probability_end_none", "error",
    ]  # fmt: skip
    predictions = pd.read_csv(made.folder / "test_predictions.csv")
    assert list(predictions)[:5] == ["row", "smiles", "size", "toxic", "end"]
    values = model.evaluate(table())
    known = table().dropna(subset="size")
    error = model.predict(known["smiles"].tolist())["predicted_size"].to_numpy() - known["size"]
    assert values["rmse size"] == pytest.approx(float((error**2).mean() ** 0.5), rel=1e-5)
    atoms = model.explain(["CCO"], steps=16)
    shown = [f"added_{name}" for name in task.score_names()]
    total = atoms[shown].astype(float).sum()
    assert total["added_size"] == pytest.approx(model.predict(["CCO"])["predicted_size"][0])
    shares = model.predict(["CCO"])
    odds = math.log(shares["probability_toxic_1"][0] / shares["probability_toxic_0"][0])
    assert total["added_toxic=1"] == pytest.approx(odds, abs=1e-4)


def test_options_for_one_kind_of_target(tmp_path: Path) -> None:
    targets = ("size", "toxic")
    made = prepared(tmp_path, table(), *targets, loss="mse", class_weight="balanced", metric="auc")
    task = made.task
    assert isinstance(task, MixedTargets)
    number, kind = task.parts
    assert isinstance(number, Regression)
    assert isinstance(kind, Classification)
    assert number.objective == "mse"
    assert len(kind.class_weights) == 2
    assert (task.monitor, task.tie, task.larger_is_better) == ("auc", "log_loss", True)
    assert prepared(tmp_path, table(), *targets, metric="rmse").task.tie == ""
    assert prepared(tmp_path, table(), *targets, task="regression").task.target_names() == [
        *targets
    ]
    assert "Target 'toxic': classes 0 (13), 1 (14); 5 missing." in made.notes


def test_bounds_in_a_table(tmp_path: Path) -> None:
    made = prepared(tmp_path, table(), "dose [mg]")
    note = next(note for note in made.notes if note.startswith("Target"))
    assert "mg, median" in note
    assert "4 only known to be larger than a bound; 1 only known to be smaller" in note
    sides = [part.side for part in vars(made.splits).values()]
    assert sum(int((side != 0).sum()) for side in sides) == 5
    other = table()
    other.loc[5, "dose [mg]"] = other.loc[5, "dose [mg]"].replace(">", "<")
    changed = prepared(tmp_path, other, "dose [mg]")
    assert made.own is not None
    assert changed.own is not None
    change = made.own.fingerprint.change(changed.own.fingerprint, lambda row: f"row {row}")
    assert change == "the targets of 1 row changed (first: row 5)"
    run = train(tmp_path, ["dose [mg]"])
    summary = json.loads((run.folder / "data.json").read_text())["summary"]
    assert summary["targets"]["dose [mg]"]["above"] == 4
    part = ["train"] * 20 + ["val"] * 8 + ["test"] * 4
    few = table().assign(part=part)
    few.loc[20:27, "dose [mg]"] = ">5"
    with pytest.raises(InputError, match="the validation split has no known target"):
        prepared(tmp_path, few, "dose [mg]", split_column="part")


def test_logarithms_are_learned_and_predictions_are_not(tmp_path: Path) -> None:
    made = train(tmp_path, ["dose [mg]"], log_target=True, split_fractions=(0.5, 0.25, 0.25))
    task = load_model(made.folder / "model.safetensors").task
    assert isinstance(task, Regression)
    assert task.log10
    assert "log10 of the target" in task.units()
    model = smpgnn.load(made.folder, device="cpu")
    frame = table()
    exact = frame[~frame["dose [mg]"].str.contains(">|≤")]
    found = model.predict(exact["smiles"].tolist())["predicted_dose [mg]"].astype(float)
    assert (found > 0).all()
    given = exact["dose [mg]"].astype(float).reset_index(drop=True)
    error = (found.map(math.log10) - given.map(math.log10)).abs().mean()
    assert model.evaluate(frame)["mae"] == pytest.approx(error, rel=1e-4)
    atoms = model.explain(["CCO"], steps=16)
    total = atoms["added_log10(dose [mg])"].astype(float).sum()
    assert 10**total == pytest.approx(model.predict(["CCO"])["predicted_dose [mg]"][0], rel=1e-4)
    predictions = pd.read_csv(made.folder / "test_predictions.csv")
    given = predictions["dose [mg]"].astype(str).str.strip("<>").astype(float)
    assert set(given) <= set(frame["dose [mg]"].str.strip(">≤ ").astype(float))
    ratio = predictions["predicted_dose [mg]"] / given
    assert ratio.between(0.01, 100).all()
    frame.loc[3, "dose [mg]"] = "0"
    with pytest.raises(InputError, match=r"row 4: target 'dose \[mg\]' is '0', but --log-target"):
        model.evaluate(frame)
    both = prepared(tmp_path, table(), "dose [mg]", "toxic", log_target=True).task
    assert isinstance(both, MixedTargets)
    assert both.units() == "The metrics of dose [mg] are those of log10."


def test_runs_of_earlier_versions_go_on_with_numbers(tmp_path: Path) -> None:
    """They took a column of two numbers for numbers, beside other numbers."""
    made = train(tmp_path, ["size", "toxic"], task="regression", epochs=1)
    config = made.folder / "config.yaml"
    config.write_text(config.read_text().replace("task: regression", "task: auto"))
    folder = RunFolder(made.folder)
    again = prepare(folder.read_options(), folder.read_data())
    assert again.task == made.saved.task
    assert isinstance(prepare(folder.read_options()).task, MixedTargets)


def test_bounds_of_graphs(tmp_path: Path) -> None:
    nodes = [{"id": k, "v": float(k), "w": f"{k}.5" if k else ">2"} for k in range(3)]
    edges = [{"source": 0, "target": 1}, {"source": 1, "target": 2}]
    text = "\n".join(json.dumps({"nodes": nodes, "links": edges}) for _ in range(6))
    (tmp_path / "g.jsonl").write_text(text)
    labels = pd.DataFrame({"graph": range(6), "y": ["1.5", ">2", "3", "<1", "5", "6"]})
    labels.to_csv(tmp_path / "labels.csv", index=False)
    table = read_graphs(tmp_path / "g.jsonl", labels=tmp_path / "labels.csv", target="y")
    assert table.store.side is not None
    assert table.store.side[:, 0].tolist() == [0, 1, 0, -1, 0, 0]
    again = read_graphs(tmp_path / "g.jsonl", labels=tmp_path / "labels.csv", schema=table.schema)
    assert again.store.side is not None
    assert torch.equal(again.store.side, table.store.side)
    with pytest.raises(InputError, match="target 'w' has bounds such as '>5', which only targets"):
        read_graphs(tmp_path / "g.jsonl", target="w", level="node")
