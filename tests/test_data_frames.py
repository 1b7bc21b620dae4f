"""DataFrames and Series wherever a path or a list is taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

import smpgnn
from smpgnn.data.molecule_splits import molecule_split
from smpgnn.data.splits import given_split, stratified_split
from smpgnn.errors import InputError
from smpgnn.inference.predict import Model

SMALL: dict[str, Any] = {
    "hidden_channels": 8,
    "num_layers": 1,
    "epochs": 1,
    "device": "cpu",
    "logger": "none",
    "quiet": True,
}
ENDS = ("", "O", "N", "Cl")


def table() -> pd.DataFrame:
    """Molecules with an odd index, in the types of pandas."""
    smiles = ["C" * (1 + row // 4) + ENDS[row % 4] for row in range(32)]
    frame = pd.DataFrame(
        {
            "smiles": pd.Series(smiles, dtype="string"),
            "size": pd.Series([None, *map(len, smiles[1:])], dtype="Int64"),
            "polar": pd.Series([text[-1] in "ON" for text in smiles], dtype="boolean"),
            "part": pd.Categorical(
                [("train", "train", "val", "test")[(r // 4) % 4] for r in range(32)]
            ),
        }
    )
    return frame.set_axis([f"m{3 * row % 32}" for row in range(32)])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    place = tmp_path_factory.mktemp("run") / "run"
    split = {"split_column": "part"}
    result = smpgnn.train("molecules", table(), targets="size", output=place, **split, **SMALL)
    return smpgnn.load(result.folder)


def test_predictions_have_the_index_of_the_input(model: Model) -> None:
    frame = table()
    wanted = model.predict(frame["smiles"].tolist())
    assert wanted.index.equals(pd.RangeIndex(32))
    for inputs in (frame, frame["smiles"], frame["smiles"].astype("category")):
        found = model.predict(inputs)
        assert found.index.equals(frame.index)
        pd.testing.assert_frame_equal(found.reset_index(drop=True), wanted)
    assert model.predict(frame["smiles"].to_numpy()).equals(wanted)
    joined = pd.concat([frame, model.predict(frame)], axis=1)
    assert joined.shape == (32, 6)
    odd = pd.Series(["CCO", pd.NA, None, np.nan, "C1CC"], index=list("abcde"), dtype=object)
    assert model.predict(odd)["error"].notna().tolist() == [False, True, True, True, True]


def test_explain_and_evaluate(model: Model) -> None:
    frame = table().head(4)
    wanted = model.explain(frame["smiles"].tolist())
    for inputs in (frame, frame["smiles"]):
        pd.testing.assert_frame_equal(model.explain(inputs), wanted)
    assert np.isfinite(list(model.evaluate(table()).values())).all()
    with pytest.raises(InputError, match="data has no column 'size'"):
        model.evaluate(frame[["smiles"]])


def test_a_file_gives_the_same_run(model: Model, tmp_path: Path) -> None:
    table().to_csv(tmp_path / "data.csv", index=False)
    split = {"split_column": "part"}
    again = smpgnn.train(
        "molecules",
        tmp_path / "data.csv",
        targets="size",
        output=tmp_path / "run",
        **split,
        **SMALL,
    )
    there = smpgnn.load(again.folder).predict(table())
    pd.testing.assert_frame_equal(there, model.predict(table()))


def test_row_numbers_in_a_series(model: Model, tmp_path: Path) -> None:
    rows = {
        name: pd.Series(np.flatnonzero(table()["part"] == name), index=None)
        for name in ("train", "val", "test")
    }
    again = smpgnn.train(
        "molecules", table(), targets=["size"], output=tmp_path / "run", **rows, **SMALL
    )
    there = smpgnn.load(again.folder).predict(table())
    pd.testing.assert_frame_equal(there, model.predict(table()))


def test_without_test_rows(tmp_path: Path) -> None:
    rows = {"train": range(20), "val": range(20, 32)}
    result = smpgnn.train(
        "molecules", table(), targets="polar", output=tmp_path / "run", **rows, **SMALL
    )
    assert result.test == {}
    assert "auc" in result.validation
    assert not (result.folder / "test_predictions.csv").exists()
    parts = {"train": table().head(20), "val": table().tail(12)}
    again = smpgnn.train("molecules", targets="polar", output=tmp_path / "two", **parts, **SMALL)
    assert again.validation == result.validation


def test_splits_of_series() -> None:
    frame = table()
    rings = ["", "c1ccccc1", "C1CCC1", "c1ccncc1"]
    smiles = pd.Series(
        [r + t for r, t in zip(rings * 8, frame["smiles"], strict=True)], frame.index
    )
    for kind in ("scaffold", "butina"):
        of_list = molecule_split(kind, smiles.tolist())
        for one, other in zip(molecule_split(kind, smiles), of_list, strict=True):  # type: ignore[arg-type]
            assert torch.equal(one, other)
    for one, other in zip(
        stratified_split(frame["polar"]), stratified_split(frame["polar"].tolist()), strict=True
    ):
        assert torch.equal(one, other)
    assert (
        given_split(frame["part"]).val.tolist() == given_split(frame["part"].tolist()).val.tolist()
    )


def test_labels_of_graph_files(tmp_path: Path) -> None:
    folder, lines = tmp_path / "graphs", []
    folder.mkdir()
    for number in range(20):
        graph = nx.cycle_graph(3 + number % 5)
        content = nx.node_link_data(graph, edges="edges")
        (folder / f"g{number}.json").write_text(json.dumps(content))
        lines.append({"file": f"g{number}.json", "size": len(graph), "w": 1.0 + number % 2})
    labels = pd.DataFrame(lines).sample(frac=1, random_state=0)
    labels.to_csv(tmp_path / "labels.csv", index=False)
    options = {"targets": "size", "weight_column": "w", **SMALL}
    one, two = (
        smpgnn.train("graphs", folder, labels=given, output=tmp_path / name, **options)
        for name, given in (("one", labels), ("two", tmp_path / "labels.csv"))
    )
    assert one.test == two.test
    model = smpgnn.load(one.folder)
    assert model.evaluate(folder, labels=labels) == model.evaluate(
        folder, labels=tmp_path / "labels.csv"
    )
    with pytest.raises(InputError, match=r"the DataFrame has no row for graph g\d+.json"):
        model.evaluate(folder, labels=labels.head(5))
    with pytest.raises(InputError, match="labels: applies to graph files only: set y"):
        smpgnn.train("graphs", [], labels=labels, **SMALL)
