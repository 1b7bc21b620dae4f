"""The nearest training molecule: found as RDKit finds it, and stored in the run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import smpgnn
from smpgnn.errors import InputError
from smpgnn.inference.domain import FILE, Domain
from smpgnn.inference.predict import predict_table
from smpgnn.training.run_folder import RunFolder

pytest.importorskip("rdkit")
SMILES = ["CCO", "CCN", "c1ccccc1O", "OCC", "CC(=O)Oc1ccccc1C(=O)O", "C1CCCCC1"]
OPTIONS: dict[str, Any] = {
    "hidden_channels": 8, "num_layers": 2, "extractor_channels": 8, "epochs": 1, "device": "cpu",
    "quiet": True, "baseline": False,
}  # fmt: skip


def table(rows: int = 50) -> pd.DataFrame:
    ends = ["", "O", "N", "Cl", "c1ccccc1"]
    smiles = ["C" * (1 + row // 5) + ends[row % 5] for row in range(rows)]
    frame = pd.DataFrame({"smiles": smiles, "size": [len(s) + 0.5 for s in smiles]})
    frame["polar"] = [("no", "yes")["O" in s or "N" in s] for s in smiles]
    frame["kind"] = [s.lstrip("C") or "alkane" for s in smiles]
    frame["long"] = [("no", "yes")[len(s) > 6] for s in smiles]
    frame.loc[::6, "long"] = None
    frame.loc[9, "smiles"] = "not a molecule"
    return frame


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    table().to_csv(folder / "data.csv", index=False)
    smpgnn.train(
        "molecules", folder / "data.csv", targets=["size"], output=str(folder / "run"), **OPTIONS
    )
    (folder / "data.csv").rename(folder / "moved.csv")
    return folder / "run"


def test_similarities_are_those_of_rdkit(tmp_path: Path) -> None:
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator
    from rdkit.DataStructs import TanimotoSimilarity

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    asked = ["CCCO", "Oc1ccccc1C", "OCC", "CC(=O)O"]
    one, known = (
        [generator.GetFingerprint(Chem.MolFromSmiles(s)) for s in some] for some in (asked, SMILES)
    )
    expected = np.array([[TanimotoSimilarity(a, b) for b in known] for a in one])
    domain = Domain.of(SMILES, [4, 0, 7, 8, 9, 1])
    domain.save(tmp_path)
    for again in (domain, Domain.load(tmp_path)):
        similarity, number = again.nearest(asked)
        np.testing.assert_allclose(similarity, expected.max(1))
        np.testing.assert_array_equal(number, expected.argmax(1))
        frame = again.frame(["OCC", "nonsense", None])
        assert frame["nearest"].fillna("").tolist() == ["CCO", "", ""]
        assert frame["nearest_row"].fillna(0).tolist() == [5, 0, 0]
        assert frame["similarity"].fillna(-1).tolist() == [1.0, -1.0, -1.0]


def test_predictions_name_the_nearest_molecule(run: Path, tmp_path: Path) -> None:
    model, data = smpgnn.load(run, device="cpu"), table()
    splits = pd.read_csv(run / "splits.csv")
    train = splits[splits["split"] == "train"]["row"].to_numpy()
    first, smiles = int(train[0]), data["smiles"]
    found = model.predict([smiles[first - 1], "nonsense", "CCBr"], domain=True)
    assert list(found.columns) == [
        "predicted_size", "similarity", "nearest", "nearest_row", "error",
    ]  # fmt: skip
    assert found["similarity"][0] == 1.0
    assert found["nearest_row"][0] in train
    assert smiles[int(found["nearest_row"][2]) - 1] == found["nearest"][2]
    assert found.loc[1, ["similarity", "nearest", "nearest_row"]].isna().all()
    plain = model.predict(["CCBr"])
    assert list(plain.columns) == ["predicted_size", "error"]
    # a table, which has a column of one of the names
    pd.DataFrame({"smiles": ["CCBr", "x"], "nearest": [1, 2]}).to_csv(tmp_path / "new.csv")
    written = predict_table(model.with_domain(), tmp_path / "new.csv", tmp_path / "out.csv")
    assert written.renamed == ("nearest_2",)
    assert written.failed == 1
    out = pd.read_csv(tmp_path / "out.csv")
    assert out["nearest_2"][0] == found["nearest"][2]
    assert out["nearest_row"][0] == found["nearest_row"][2]


@pytest.mark.parametrize("targets", [["size"], ["polar"], ["kind"], ["polar", "long"]], ids=str)
def test_the_run_has_error_against_similarity(targets: list[str], tmp_path: Path) -> None:
    smpgnn.train("molecules", table(), targets=targets, output=str(tmp_path / "run"), **OPTIONS)
    found = pd.read_csv(tmp_path / "run" / "similarity.csv")
    shown = pd.read_csv(tmp_path / "run" / "test_predictions.csv")
    assert list(found.columns) == [
        "row", "similarity", "nearest_row", *(f"error_{name}" for name in targets),
    ]  # fmt: skip
    assert found["row"].tolist() == shown["row"].tolist()
    assert found["similarity"].between(0, 1).all()
    for name in targets:
        if name == "size":
            expected = shown["predicted_size"] - shown["size"]
        elif len(targets) == 1:
            shares = [shown[f"probability_{name}_{c}"][r] for r, c in enumerate(shown[name])]
            expected = 1 - pd.Series(shares)
        else:
            yes = shown[f"probability_{name}_yes"]
            expected = (shown[name] == "yes").where(shown[name].notna()) - yes
            expected = expected.abs()
        np.testing.assert_allclose(
            found[f"error_{name}"], expected.astype(float), atol=1e-5, rtol=1e-4
        )
    assert "similarity.csv" in RunFolder(tmp_path / "run").read_record()["files"]


def test_errors_of_logarithms_bounds_and_targets_of_mixed_kinds(tmp_path: Path) -> None:
    data, options = table(60), {**OPTIONS, "split": "random"}
    data["size"] = data["size"].astype(str)
    data.loc[::4, "size"] = ">" + data["size"][::4]
    smpgnn.train(
        "molecules", data, targets=["size", "kind"], log_target=True,
        output=str(tmp_path / "run"), **options,
    )  # fmt: skip
    found = pd.read_csv(tmp_path / "run" / "similarity.csv")
    shown = pd.read_csv(tmp_path / "run" / "test_predictions.csv")
    bound = shown["size"].astype(str).str.startswith(">").to_numpy()
    assert 0 < bound.sum() < len(bound)
    real = np.log10(pd.to_numeric(shown["size"], errors="coerce").astype(float))
    expected = np.log10(shown["predicted_size"]) - real
    np.testing.assert_allclose(found["error_size"], expected, atol=1e-5)
    shares = [shown[f"probability_kind_{c}"][r] for r, c in enumerate(shown["kind"])]
    np.testing.assert_allclose(found["error_kind"], 1 - np.array(shares), atol=1e-5)


def test_standardised_molecules_are_compared(tmp_path: Path) -> None:
    data = table()
    data["smiles"] = [f"{text}.[Na+].[Cl-]" for text in data["smiles"]]
    run = tmp_path / "run"
    smpgnn.train("molecules", data, targets=["size"], standardize=True, output=str(run), **OPTIONS)
    model = smpgnn.load(run, device="cpu")
    train = pd.read_csv(run / "splits.csv").query("split == 'train'")["row"]
    salt = data["smiles"][int(train.iloc[0]) - 1]
    found = model.predict([salt, salt.split(".")[0]], domain=True)
    assert found["similarity"].tolist() == [1.0, 1.0]
    assert "." not in found["nearest"][0]


def test_a_run_without_fingerprints_says_so(run: Path, tmp_path: Path) -> None:
    shutil.copy(run / "model.safetensors", tmp_path)
    for path in (tmp_path, tmp_path / "model.safetensors", "zinc"):
        model = smpgnn.load(path, device="cpu")
        with pytest.raises(InputError, match=r"has no domain.safetensors, the fingerprints"):
            model.predict(["CCO"], domain=True)
    shutil.copy(run / FILE, tmp_path)
    found = smpgnn.load(tmp_path / "model.safetensors", device="cpu").predict(["CC"], domain=True)
    assert found["similarity"].notna().all()


@pytest.mark.parametrize("change", ["byte", "cut", "other"])
def test_damaged_fingerprints_are_refused(run: Path, tmp_path: Path, change: str) -> None:
    content = bytearray((run / FILE).read_bytes())
    if change == "byte":
        content[-3] ^= 1
    elif change == "cut":
        del content[-10:]
    else:
        content = bytearray((run / "model.safetensors").read_bytes())
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(InputError, match="was changed or damaged"):
        Domain.load(tmp_path)


def test_graphs_have_none(tmp_path: Path) -> None:
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    graphs = [Data(x=torch.randn(3, 2), edge_index=edges, y=torch.rand(1)) for _ in range(12)]
    options = {name: OPTIONS[name] for name in ("hidden_channels", "num_layers", "epochs", "quiet")}
    smpgnn.train("graphs", graphs, output=str(tmp_path), device="cpu", **options)
    with pytest.raises(InputError, match="only molecules have fingerprints"):
        smpgnn.load(tmp_path, device="cpu").predict(graphs, domain=True)
    assert not (tmp_path / FILE).exists()
