"""The plain baseline of runs on molecules: same split, same metrics, and a plain verdict."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small_members
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import roc_auc_score

import smpgnn
from smpgnn.config.options import MoleculesOptions
from smpgnn.data.base import Splits
from smpgnn.errors import InputError
from smpgnn.training import baseline
from smpgnn.training.baseline import baseline_record, features
from smpgnn.training.own_data import molecules
from smpgnn.training.prepare import Prepared
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.tasks import Classification, MultiLabel
from smpgnn.training.verdict import split_metrics, verdict

pytest.importorskip("rdkit")
OPTIONS: dict[str, Any] = {
    "hidden_channels": 8, "num_layers": 2, "extractor_channels": 8, "epochs": 1, "device": "cpu",
    "quiet": True,
}  # fmt: skip


def table(rows: int = 120) -> pd.DataFrame:
    """Chains with an end: a number, two classes, three classes; some cells are empty."""
    ends = ["", "O", "N", "Cl", "C(=O)O"]
    smiles = ["C" * (1 + row // 5) + ends[row % 5] for row in range(rows)]
    frame = pd.DataFrame({"smiles": smiles, "size": [len(s) + 0.5 for s in smiles]})
    frame["polar"] = [int("O" in s) for s in smiles]
    frame["long"] = [int(len(s) > 12) for s in smiles]
    frame["kind"] = ["alkane" if s == "C" * len(s) else s[-1:] for s in smiles]
    frame.loc[::7, "long"] = np.nan
    frame["w"] = 1.0 + frame.index % 3
    return frame


def prepared(*targets: str, **options: Any) -> Prepared:
    return molecules(MoleculesOptions(targets=targets, **options), None, data=table())


def record(data: Prepared) -> dict[str, Any]:
    nothing = {part: {data.task.monitor: 0.0} for part in ("validation", "test")}
    return baseline_record(data, 3, nothing)


def known(data: Prepared, part: str, column: int = 0) -> np.ndarray:
    return getattr(data.splits, part).y[:, column].double().numpy()


def test_numbers_are_those_of_trees_on_the_same_rows() -> None:
    data = prepared("size", weight_column="w")
    x = {part: features(data, part) for part in ("train", "test")}
    assert x["train"].shape == (len(data.splits.train), 2048 + 79)
    weight = data.splits.train.weight[:, 0].numpy()
    both = [(x["train"] == value).sum(0) for value in (0, 1)]  # of bits: none splits 9 rows off
    kept = (both[0] >= 10) & (both[1] >= 10)
    for column in range(2048, x["train"].shape[1]):
        most = np.unique(x["train"][:, column], return_counts=True)[1].max()
        kept[column] = len(weight) - most >= 10
    trees = HistGradientBoostingRegressor(**baseline.SETTINGS, random_state=3)
    trees.fit(x["train"][:, kept], known(data, "train"), weight)
    error = trees.predict(x["test"][:, kept]) - known(data, "test")
    assert record(data)["test"]["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-4)


def test_classes_are_those_of_trees_on_the_known_rows() -> None:
    data = prepared("polar", "long", class_weight="balanced")
    assert isinstance(data.task, MultiLabel)
    y = known(data, "train", 1)
    there = ~np.isnan(y)
    assert not there.all()
    trees = HistGradientBoostingClassifier(**baseline.SETTINGS, random_state=3)
    weight = np.asarray(data.task.class_weights[1])[y[there].astype(int)]
    x = features(data, "train")[there]
    kept = baseline._splittable(x)
    trees.fit(x[:, kept], y[there], weight)
    wanted, said = known(data, "val", 1), trees.predict_proba(features(data, "val")[:, kept])[:, 1]
    seen = ~np.isnan(wanted)
    expected = roc_auc_score(wanted[seen], said[seen])
    assert record(data)["validation"]["auc long"] == pytest.approx(expected)


def test_several_classes_are_scored_as_the_network_is() -> None:
    data = prepared("kind")
    found = record(data)
    assert isinstance(data.task, Classification)
    assert set(found["test"]) <= set(data.task.metric_names)
    assert found["test"]["accuracy"] > 0.4
    assert np.isfinite(found["test"]["log_loss"])


def test_logarithms_and_targets_of_mixed_kinds_have_a_baseline() -> None:
    one, other = prepared("size"), prepared("size", log_target=True)
    x, kept = features(one, "train"), baseline._splittable(features(one, "train"))
    trees = HistGradientBoostingRegressor(**baseline.SETTINGS, random_state=3)
    trees.fit(x[:, kept], np.log10(known(other, "train")))
    real = np.log10(known(other, "test"))
    error = trees.predict(features(other, "test")[:, kept]) - real
    found = record(other)["test"]
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-3)
    both = prepared("size", "kind", log_target=True, class_weight="balanced")
    found = record(both)["test"]
    assert found["rmse size"] < 0.5
    assert found["accuracy kind"] > 0.4


def test_descriptor_columns_are_features() -> None:
    data = prepared("size", descriptors=("w",))
    assert features(data, "test").shape[1] == 2048 + 79 + 1
    np.testing.assert_array_equal(features(data, "test")[:, -1], data.splits.test.u[:, 0])


def test_a_class_that_training_lacks_has_a_small_probability() -> None:
    data = prepared("kind")
    y = torch.where(data.splits.train.y == 1, 2.0, data.splits.train.y)
    parts = vars(data.splits) | {"train": replace(data.splits.train, y=y)}
    found = record(replace(data, splits=Splits(**parts)))
    assert np.isfinite(found["test"]["log_loss"])
    y = torch.full_like(y, torch.nan)
    y[:3] = 2.0
    parts["train"] = replace(data.splits.train, y=y)
    found = record(replace(data, splits=Splits(**parts)))
    assert np.isfinite(found["test"]["log_loss"])


def test_few_rows_of_many_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "MOST_ROWS", 10)
    assert record(prepared("size"))["rows"] == 10
    monkeypatch.setattr(baseline, "MOST_TARGETS", 1)
    assert "more than 1 targets" in record(prepared("polar", "long"))["skipped"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "size"
    smpgnn.train("molecules", table(), targets=["size"], output=str(folder), **OPTIONS)
    return folder


def test_a_run_has_its_baseline(run: Path) -> None:
    record = RunFolder(run).read_record()
    found = record["baseline"]
    assert found["name"] == "gradient boosting"
    assert found["metric"] == "rmse"
    ahead = found["better"]["test"]
    values = {"network": record["test"]["rmse"], "baseline": found["test"]["rmse"]}
    assert values[ahead] == min(values.values())
    assert ("The network is ahead" in verdict(record)) == (ahead == "network")
    assert list(split_metrics(record)) == [
        "validation", "test", "validation, gradient boosting", "test, gradient boosting",
    ]  # fmt: skip


def test_members_share_the_baselines_of_their_folds(tmp_path: Path) -> None:
    """One member of each fold fits it; the run has the mean, and similarities to unseen rows."""
    options = {name: value for name, value in OPTIONS.items() if name != "quiet"}
    result = small_members.run(
        tmp_path / "run", table(60), targets=["size"], folds=2, ensemble=2, **options
    )
    members = {
        name: RunFolder(tmp_path / "run" / "members" / name).read_record().get("baseline")
        for name in ("fold1-member1", "fold1-member2", "fold2-member1", "fold2-member2")
    }
    assert members["fold1-member2"] is None
    assert members["fold2-member2"] is None
    one, other = members["fold1-member1"], members["fold2-member1"]
    found = RunFolder(tmp_path / "run").read_record()["baseline"]
    assert found == result.baseline
    for part in ("validation", "test"):
        assert found[part]["rmse"] == pytest.approx((one[part]["rmse"] + other[part]["rmse"]) / 2)
    assert "on the held-out folds" in verdict(RunFolder(tmp_path / "run").read_record())
    near = pd.read_csv(tmp_path / "run" / "similarity.csv")
    shown = pd.read_csv(tmp_path / "run" / "test_predictions.csv")
    assert near["row"].tolist() == shown["row"].tolist()
    np.testing.assert_allclose(
        near["error_size"], shown["predicted_size"] - shown["size"], atol=1e-4
    )
    splits = pd.read_csv(tmp_path / "run" / "splits.csv")
    tested = splits[splits["split"] == "test"].set_index("row")["fold"]
    assert (tested[near["row"]].to_numpy() != tested[near["nearest_row"]].to_numpy()).all()
    model = smpgnn.load(tmp_path / "run", device="cpu")
    predicted = model.predict([table()["smiles"][3]], interval=0.8, domain=True)
    assert {"low_size", "high_size", "std_size"} <= {*predicted.columns}
    assert list(predicted.columns)[-4:] == ["similarity", "nearest", "nearest_row", "error"]
    assert predicted["similarity"][0] == 1  # all rows were for training of some member
    with pytest.raises(InputError, match="each of its 4 members has embeddings of its own"):
        model.embed(["CCO"])
    assert smpgnn.load(tmp_path / "run" / "members" / "fold1-member1").embed(["CC"]).shape == (1, 9)
    with pytest.raises(InputError, match="has members: name one of the folders"):
        smpgnn.train("molecules", table(), from_run=tmp_path / "run", targets=["size"], quiet=True)


def test_no_baseline_on_demand(tmp_path: Path) -> None:
    result = smpgnn.train(
        "molecules", table(), targets=["size"], baseline=False, output=str(tmp_path), **OPTIONS
    )
    assert result.baseline is None
    assert verdict(RunFolder(tmp_path).read_record()) == ""


def test_without_scikit_learn_the_run_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    smpgnn.train("molecules", table(), targets=["size"], output=str(tmp_path), **OPTIONS)
    text = verdict(RunFolder(tmp_path).read_record())
    assert text == 'There is no baseline without scikit-learn: pip install "smpgnn[chem]".'


@pytest.mark.parametrize(
    ("test", "validation", "words"),
    [
        ((0.5, 0.6), (0.5, 0.7), ["network is ahead of gradient boosting", "also favour the net"]),
        ((0.7, 0.6), (0.5, 0.7), ["boosting is ahead of the network", "rows favour the network"]),
        ((0.5, 0.5), (0.5, 0.5), ["Neither the network nor gradient boosting", "favour neither"]),
    ],
)
def test_the_verdict_is_plain(
    test: tuple[float, float], validation: tuple[float, float], words: list[str]
) -> None:
    pairs = {"test": test, "validation": validation}
    better = {
        part: "none" if one == other else "network" if one < other else "baseline"
        for part, (one, other) in pairs.items()
    }
    parts = [{part: {"rmse": pair[which]} for part, pair in pairs.items()} for which in (0, 1)]
    entry = {"name": "gradient boosting", "metric": "rmse", "better": better, **parts[1]}
    text = verdict({**parts[0], "baseline": entry})
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    "change",
    [
        {"better": {}},
        {"better": {"test": [], "validation": "none"}},
        {"test": {}},
        {"metric": 3},
        {"validation": None},
    ],
)
def test_a_damaged_entry_is_refused(run: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    content = json.loads((run / "run.json").read_text())
    content["baseline"] |= change
    del content["sha256"]
    (tmp_path / "run.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"run.json: was changed .* \('baseline'\)"):
        RunFolder(tmp_path).read_record()
