"""A split column with a mistake: the message names the line of the file, not the molecule."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from commands import SMALL, smpgnn


def refused(*words: object) -> str:
    found = smpgnn("train", *words, *SMALL)
    assert (found.status, found.out, found.err.count("\n")) == (2, "", 1), found
    return found.err


def test_lines_are_those_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    rows = ["CC,1,train", "nonsense(,2,train", "", "CCO,3,val", "CCN,4,tset", "CCC,5,test"]
    path.write_text("smiles,y,part\n" + "\n".join(rows) + "\n")
    words = ("molecules", path, "--targets", "y", "--output", tmp_path / "run")
    error = refused(*words, "--split-column", "part")
    assert f"{path}, column 'part', line 6: the split is 'tset', but must be 'train'" in error
    frame = pd.DataFrame({"smiles": ["C(", "CC", "CCO"], "y": [1.0, 2.0, 3.0], "part": 3 * [None]})
    frame.to_parquet(path)
    assert "column 'part', row 2: the split is empty" in refused(*words, "--split-column", "part")


def test_lines_are_those_of_the_labels(home: Path, tmp_path: Path) -> None:
    labels = pd.read_csv(home / "labels.csv").iloc[::-1]  # in another order than the graphs
    labels.loc[labels["file"] == "g03.json", "part"] = "?"
    path = tmp_path / "labels.csv"
    labels.to_csv(path, index=False)
    words = ("graphs", home / "graphs", "--labels", path, "--targets", "kind")
    words = (*words, "--output", tmp_path / "run", "--split-column", "part")
    line = path.read_text().splitlines().index("g03.json,ring,7,?") + 1
    assert f"{path}, column 'part', line {line}: the split is '?'" in refused(*words)
    labels["part"] = "train"
    labels.to_csv(path, index=False)
    assert f"{path}, column 'part' has no row 'val'" in refused(*words)


def test_graphs_by_time(home: Path, tmp_path: Path) -> None:
    labels = pd.read_csv(home / "labels.csv")
    labels["day"] = [f"2024-01-{1 + row:02}" for row in range(len(labels))][::-1]
    path = tmp_path / "labels.csv"
    labels.to_csv(path, index=False)
    words = ("graphs", home / "graphs", "--labels", path, "--split", "time", "--split-time", "day")
    assert "--split-time: name the targets as well" in refused(*words)
    words = (*words, "--targets", "kind", "--output", tmp_path / "run")
    assert smpgnn("train", *words, *SMALL).status == 0
    day = labels.set_index("file")["day"]
    names = sorted(day.index)
    split = pd.read_csv(tmp_path / "run" / "splits.csv").set_index("row")["split"]
    days = {
        part: [day[names[row - 1]] for row in split.index[split == part]]
        for part in ("train", "val", "test")
    }
    assert max(days["train"]) < min(days["val"])
    assert max(days["val"]) < min(days["test"])
    labels.loc[2, "day"] = "soon"
    labels.to_csv(path, index=False)
    assert f"{path}, column 'day', line 4: the time is 'soon'" in refused(
        *words[:-1], tmp_path / "other"
    )
