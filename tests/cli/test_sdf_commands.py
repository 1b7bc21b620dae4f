"""SDF and Mol files on the command line; bad records; all of a chemist's options at once."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest
from commands import SMALL, done, molecules, smpgnn
from rdkit import Chem

from smpgnn.data.sdf import UNREADABLE


def write_sdf(path: Path, frame: pd.DataFrame) -> None:
    records = []
    for _, row in frame.iterrows():
        block = Chem.MolToMolBlock(Chem.MolFromSmiles(row["smiles"]))
        values = row.drop("smiles").dropna().items()
        properties = "".join(f"> <{name}>\n{value}\n\n" for name, value in values)
        records.append(f"{block}{properties}$$$$\n")
    path.write_text("".join(records))


def test_predict_evaluate_explain(size_run: Path, home: Path, tmp_path: Path) -> None:
    frame = molecules(10)
    write_sdf(tmp_path / "a.sdf", frame)
    text = (tmp_path / "a.sdf").read_text()
    records = text.split("$$$$\n")
    records[2] = records[2].replace("M  END", "M  EN")
    records[5] = records[5].replace("V2000", "V9000")
    (tmp_path / "bad.sdf.gz").write_bytes(gzip.compress("$$$$\n".join(records).encode()))
    done("predict", size_run, home / "data.csv", "-o", tmp_path / "csv.csv")
    csv = pd.read_csv(tmp_path / "csv.csv")["predicted_size"][:10]
    found = done("predict", size_run, tmp_path / "bad.sdf.gz", "-o", tmp_path / "out.csv")
    assert found.out.startswith("10 rows written")
    assert "2 of them have no prediction" in found.out
    out = pd.read_csv(tmp_path / "out.csv")
    assert out.columns[0] == "smiles"
    assert set(frame.columns) <= set(out)
    bad = out["error"].notna()
    assert out.index[bad].tolist() == [2, 5]
    assert set(out["error"][bad]) == {"the structure of the record cannot be read"}
    assert set(out["smiles"][bad]) == {UNREADABLE}
    assert out["predicted_size"][~bad].tolist() == pytest.approx(csv[~bad].tolist(), rel=1e-4)
    values = done("evaluate", size_run, tmp_path / "bad.sdf.gz", "--json")
    assert "2 rows left out, the first at record 3: the structure of the record" in values.err
    frame[~bad].to_csv(tmp_path / "good.csv", index=False)
    same = done("evaluate", size_run, tmp_path / "good.csv", "--json")
    assert json.loads(values.out) == pytest.approx(json.loads(same.out), rel=1e-4)
    (tmp_path / "one.mol").write_text(records[1])
    done("explain", size_run, tmp_path / "one.mol", "-o", tmp_path / "e.csv", "--steps", "4")
    assert pd.read_csv(tmp_path / "e.csv")["smiles"].unique().tolist() == ["CO"]
    assert "size" in done("info", tmp_path / "a.sdf").out


def test_a_chemists_options(tmp_path: Path) -> None:
    frame = molecules()
    frame["IC50 [nM]"] = [f">{100 + row}" if row % 9 == 4 else 1.5 + row for row in range(40)]
    frame["smiles"] = [f"{text}.O" if row % 2 else text for row, text in enumerate(frame["smiles"])]
    write_sdf(tmp_path / "a.sdf", frame[["smiles", "long", "IC50 [nM]"]])
    run = tmp_path / "run"
    found = done(
        "train", "molecules", tmp_path / "a.sdf", "--targets", "IC50 [nM]", "long", "--standardize",
        "--replicates", "mean", "--log-target", "--output", run, *SMALL,
    )  # fmt: skip
    notes = found.err.splitlines()
    assert notes[0].startswith("Standardised: ")
    assert "larger than a bound; learned as log10." in notes[1]
    assert notes[2] == "Target 'long': classes no (20), yes (20)."
    table = found.out.splitlines()
    assert table[0].startswith("Test relative_error ")
    heads = [line.split() for line in table if line.startswith("   ")]
    assert heads[0] == ["relative_error"]
    assert (heads[1][0], heads[2][0]) == ("rmse", "auc")
    assert "The metrics of IC50 [nM] are those of log10." in table
    again = done("evaluate", run)
    assert again.out.splitlines()[0].split() == ["relative_error"]
    done("predict", run, tmp_path / "a.sdf", "-o", tmp_path / "out.csv")
    out = pd.read_csv(tmp_path / "out.csv")
    assert (out["predicted_IC50 [nM]"] > 0).all()
    assert out["predicted_long"].isin(["yes", "no"]).all()
    assert "predicted_IC50 [nM], predicted_long" in done("info", run).out


def test_refusals(tmp_path: Path) -> None:
    molecules().to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "a.sdf").write_text("smiles,size\nC,1\n")
    for words, message in (
        (("a.sdf", "--targets", "size"), "a.sdf is not an SDF or Mol file (its first record"),
        (("a.csv", "--targets", "kind", "--log-target"), "--log-target: is for numbers, but 'kind"),
        (("a.csv", "--targets", "size", "long", "--loss", "rmse"), "--loss"),
        (("a.csv", "--targets", "size", "--metric", "auc"), "--metric auc: is for classes"),
    ):
        path, *rest = words
        found = smpgnn("train", "molecules", tmp_path / path, *rest, "--output", tmp_path / "run")
        assert found.status == 2
        assert message in found.err
        assert not (tmp_path / "run").exists()
