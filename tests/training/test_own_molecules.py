"""Tables of molecules: replicates, standardisation, SDF; a molecule is in one split."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from rdkit import Chem
from small_runs import GRAPHS

import smpgnn
from smpgnn.config.options import MoleculesOptions
from smpgnn.data.standardize import standardized
from smpgnn.errors import InputError
from smpgnn.training.prepare import Prepared, prepare

SMALL: dict[str, Any] = {**GRAPHS, "epochs": 1, "quiet": True}
#: Thirty acids, amines and rings; then the first ten as salts or hydrates, and with a solvent.
ACIDS = [
    "C" * (1 + row // 3) + ("C(=O)O", "CN", f"C1C{'C' * (row // 3)}C1")[row % 3]
    for row in range(30)
]
SALTS = [
    {0: text[:-1] + "[O-].[Na+]", 1: text[:-1] + "[NH3+].[Cl-]", 2: text + ".O"}[row % 3]
    for row, text in enumerate(ACIDS[:10])
]
AGAIN = [f"{text}.CO" if row % 2 else f"{text}.O" for row, text in enumerate(ACIDS[:10])]


def table() -> pd.DataFrame:
    smiles = [*ACIDS, *SALTS, *AGAIN]
    size = [
        float(len(standardized(text)[0])) + 0.5 * (row // 30) for row, text in enumerate(smiles)
    ]
    return pd.DataFrame(
        {
            "smiles": smiles,
            "size": size,
            "kind": ["ab"[row % 4 == 0] for row in range(50)],
            "year": [2000 + (7 * row) % 50 for row in range(50)],
        }
    )


def prepared(folder: Path, frame: pd.DataFrame, **options: Any) -> Prepared:
    frame.to_csv(folder / "data.csv", index=False)
    values = {"path": str(folder / "data.csv"), "targets": ("size",), **options}
    return prepare(MoleculesOptions(**values))


def rows_of(made: Prepared) -> list[list[int]]:
    return [made.split_table().of(name).row.tolist() for name in ("train", "val", "test")]


@pytest.mark.parametrize("replicates", ["keep", "mean"])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"split": "stratified"},
        {"targets": ("kind",)},
        {"targets": ("size", "kind")},
        {"split": "scaffold"},
        {"split": "butina"},
        {"split": "time", "split_time": "year"},
    ],
    ids=str,
)
def test_a_molecule_is_on_one_side(
    options: dict[str, Any], standardize: bool, replicates: str, tmp_path: Path
) -> None:
    frame = table()
    made = prepared(tmp_path, frame, standardize=standardize, replicates=replicates, **options)
    names = [
        standardized(text)[0] if standardize else Chem.CanonSmiles(text)
        for text in frame["smiles"]
    ]  # fmt: skip
    sides = [{names[row] for row in rows} for rows in rows_of(made)]
    different = len(set(names))
    assert different == (30 if standardize else 48)  # two hydrates come twice
    assert sum(map(len, sides)) == different
    used = sum(map(len, rows_of(made)))
    assert used == (different if replicates == "mean" else 50)
    assert sum(len(part) for part in vars(made.splits).values()) == used


def test_replicates_are_averaged_after_standardisation(tmp_path: Path) -> None:
    frame = table()
    made = prepared(tmp_path, frame, standardize=True, replicates="mean")
    names = [standardized(text)[0] for text in frame["smiles"]]
    mean = frame["size"].groupby(names).mean()
    for rows, part in zip(rows_of(made), vars(made.splits).values(), strict=True):
        assert part.y[:, 0].tolist() == pytest.approx([mean[names[row]] for row in rows])
    assert made.summary is not None
    assert (made.summary.molecules, made.summary.several, made.summary.several_rows) == (30, 10, 30)
    assert made.summary.changed == 20
    assert made.notes[:2] == (
        "Standardised: the largest organic fragment, neutralised; 20 molecules changed.",
        "Replicates: of 30 molecules 10 have several rows (30 in all), which are averaged.",
    )


def test_averaged_rows_have_the_earliest_time(tmp_path: Path) -> None:
    frame = table()
    options: dict[str, Any] = {"standardize": True, "split": "time", "split_time": "year"}
    kept = prepared(tmp_path, frame, **options)
    merged = prepared(tmp_path, frame, replicates="mean", **options)
    names = [standardized(text)[0] for text in frame["smiles"]]
    first = frame["year"].groupby(names).min()
    for made in (kept, merged):
        train, val, test = ([first[names[row]] for row in rows] for rows in rows_of(made))
        assert max(train) < min(val) <= max(val) < min(test)


def test_conflicting_classes_are_named(tmp_path: Path) -> None:
    frame = table()
    kinds = frame["kind"].groupby([standardized(text)[0] for text in frame["smiles"]]).nunique()
    count = int((kinds > 1).sum())
    made = prepared(tmp_path, frame, targets=("kind",), standardize=True)
    (note,) = (note for note in made.notes if "different classes" in note)
    assert note == (
        f"Target 'kind': {count} molecules have rows of different classes (first: CC(=O)O, line 2 "
        "and line 32)."
    )  # fmt: skip
    made = prepared(tmp_path, frame, targets=("kind",), standardize=True, replicates="mean")
    (note,) = (note for note in made.notes if "different classes" in note)
    assert note.endswith("; the most frequent class counts, none if there are several.")


def test_a_given_split_is_not_averaged_over(tmp_path: Path) -> None:
    frame = table().assign(part=["train"] * 20 + ["val"] * 5 + ["test"] * 5 + ["train"] * 20)
    options: dict[str, Any] = {"standardize": True, "replicates": "mean", "split_column": "part"}
    made = prepared(tmp_path, frame, **options)
    assert [len(rows) for rows in rows_of(made)] == [20, 5, 5]
    frame.loc[40, "part"] = "test"
    message = r"--replicates mean: line 2 and line 42 have the same molecule, but the given split"
    with pytest.raises(InputError, match=message):
        prepared(tmp_path, frame, **options)
    with pytest.raises(InputError, match=r"mean: row 1 and row 31 have the same molecule"):
        smpgnn.train("molecules", frame, targets=["size"], train=range(20), val=range(20, 25),
                     test=range(25, 30), standardize=True, replicates="mean",
                     output=str(tmp_path / "run"), **SMALL)  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_a_run_repeats_its_choices(tmp_path: Path) -> None:
    frame = table()
    frame.to_csv(tmp_path / "data.csv", index=False)
    made = smpgnn.train("molecules", path=str(tmp_path / "data.csv"), targets=["size"],
                        standardize=True, replicates="mean", output=str(tmp_path / "run"),
                        **{**SMALL, "epochs": 2})  # fmt: skip
    stored = json.loads((made.folder / "data.json").read_text())["summary"]
    assert (stored["rows"], stored["replicates"], stored["standardize"]) == (50, "mean", True)
    assert stored["targets"]["size"]["known"] == 30
    model = smpgnn.load(made.folder, device="cpu")
    found = model.predict([*ACIDS[:10], *SALTS, *AGAIN, "C(", "CN(C)(C)C"])
    values = found["predicted_size"][:30].to_numpy(float).reshape(3, 10)
    np.testing.assert_allclose(values[1:], values[:1].repeat(2, axis=0), atol=1e-4)
    assert "valence" in found["error"][31]
    # the rows of test_predictions.csv are the first of their molecule
    test = pd.read_csv(made.folder / "test_predictions.csv")
    splits = pd.read_csv(made.folder / "splits.csv")
    assert test["row"].tolist() == splits[splits["split"] == "test"]["row"].tolist()
    assert splits["row"].max() <= 30
    again = smpgnn.train("molecules", path=str(tmp_path / "data.csv"), output=str(tmp_path / "run"),
                         resume=True, quiet=True)  # fmt: skip
    assert again.test == made.test
    assert json.loads((made.folder / "data.json").read_text())["summary"] == stored
    atoms = model.explain([SALTS[0]], steps=8)
    assert atoms["smiles"].unique().tolist() == ["CC(=O)O"]
    assert atoms["element"].tolist() == ["(rest)", "C", "C", "O", "O"]
    atom = atoms["added_size"].astype(float)
    assert atom.sum() == pytest.approx(values[1, 0], rel=1e-4)


def test_sdf_gives_the_run_of_its_table(tmp_path: Path) -> None:
    frame = table().iloc[:30]
    writer = Chem.SDWriter(str(tmp_path / "data.sdf"))
    for row, text in enumerate(frame["smiles"]):
        molecule = Chem.MolFromSmiles(text)
        for name in ("size", "kind", "year"):
            molecule.SetProp(name, str(frame[name][row]))
        writer.write(molecule)
    writer.close()
    csv = frame.assign(smiles=[Chem.CanonSmiles(text) for text in frame["smiles"]])
    csv.to_csv(tmp_path / "data.csv", index=False)
    made = {
        kind: smpgnn.train("molecules", str(tmp_path / f"data.{kind}"), targets=["size", "kind"],
                           output=str(tmp_path / kind), **SMALL)
        for kind in ("sdf", "csv")
    }  # fmt: skip
    assert made["sdf"].test == made["csv"].test
    weights = [run.saved.network.state_dict() for run in made.values()]
    assert all(torch.equal(weights[0][name], value) for name, value in weights[1].items())
