"""Descriptors of molecules: computed or read in training, and again for every prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import smpgnn
from smpgnn.data.descriptors import Descriptors
from smpgnn.data.molecule_features import RDKIT, morgan_bits, rdkit_descriptors
from smpgnn.errors import InputError
from smpgnn.inference.explain_tables import explain_table
from smpgnn.inference.predict import Model, predict_table
from smpgnn.training.resume import resumed_options
from smpgnn.training.run_folder import RunFolder

pytest.importorskip("rdkit")
OPTIONS: dict[str, Any] = {
    "targets": ["y"], "descriptors": ["rdkit", "T"], "hidden_channels": 8, "num_layers": 2,
    "extractor_channels": 8, "epochs": 2, "device": "cpu", "quiet": True,
}  # fmt: skip


def table(rows: int = 40) -> pd.DataFrame:
    """Chains whose value depends on the temperature."""
    smiles = ["C" * (1 + row % 9) + "ON"[row % 2] for row in range(rows)]
    temperature = [280.0 + 7 * (row * 5 % 11) for row in range(rows)]
    value = [len(s) + 0.1 * t for s, t in zip(smiles, temperature, strict=True)]
    return pd.DataFrame({"smiles": smiles, "y": value, "T": temperature})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    table().to_csv(folder / "data.csv", index=False)
    smpgnn.train("molecules", folder / "data.csv", output=str(folder / "run"), **OPTIONS)
    return folder / "run"


@pytest.fixture(scope="module")
def model(run: Path) -> Model:
    return smpgnn.load(run, device="cpu")


def test_the_descriptors_are_those_of_rdkit() -> None:
    from rdkit import Chem
    from rdkit.Chem import Descriptors as AllOfRDKit

    smiles = ["CC(=O)Oc1ccccc1C(=O)O", "c1ccncc1Cl"]
    found = rdkit_descriptors(smiles, ("PEOE_VSA6", "CrippenClogP", "tpsa", "SlogP_VSA2", "kappa3"))
    names = ("PEOE_VSA6", "MolLogP", "TPSA", "SlogP_VSA2", "Kappa3")
    functions = dict(AllOfRDKit.descList)
    expected = [[functions[name](Chem.MolFromSmiles(s)) for name in names] for s in smiles]
    np.testing.assert_allclose(found, expected)
    assert len({*RDKIT}) == len(RDKIT) == 79
    assert np.isfinite(rdkit_descriptors(["[H][H]", "*", "[Na+].[Cl-]", "C"])).all()


def test_rows_that_are_no_molecules_have_no_descriptors() -> None:
    found = rdkit_descriptors(["CCO", "no", None], ("amw", "NumRings"))
    assert np.isnan(found).tolist() == [[False, False], [True, True], [True, True]]
    assert morgan_bits(["CCO", "no"]).any(1).tolist() == [True, False]
    with pytest.raises(InputError, match="no descriptor 'unknown'"):
        rdkit_descriptors(["C"], ("unknown",))


def test_the_model_stores_them_with_the_statistics_of_training(run: Path, model: Model) -> None:
    assert model.descriptors == Descriptors(RDKIT, ("T",))
    network: Any = model.network
    assert network.globals.channels == len(RDKIT) + 1
    splits = pd.read_csv(run / "splits.csv")
    train = table()["T"].iloc[splits[splits["split"] == "train"]["row"] - 1]
    assert network.globals.mean[-1].item() == pytest.approx(train.mean())
    assert network.globals.scale[-1].item() == pytest.approx(train.std(ddof=0), rel=1e-5)


def test_predictions_depend_on_the_column(model: Model) -> None:
    cold, hot = (
        model.predict(pd.DataFrame({"smiles": ["CCO", "CCN"], "T": [t, t]})) for t in (280, 340)
    )
    assert (cold["predicted_y"] != hot["predicted_y"]).all()
    assert cold["error"].isna().all()


def test_predictions_for_files_equal_those_in_python(model: Model, tmp_path: Path) -> None:
    frame = table(12).drop(columns="y")
    frame.loc[3, "smiles"], frame.loc[5, "T"] = "nonsense", None
    frame.to_csv(tmp_path / "new.csv", index=False)
    written = predict_table(model, tmp_path / "new.csv", tmp_path / "out.csv")
    found, expected = pd.read_csv(tmp_path / "out.csv"), model.predict(frame)
    np.testing.assert_allclose(found["predicted_y"], expected["predicted_y"], rtol=1e-5)
    assert written.failed == 2
    assert found["error"][5] == "the descriptor 'T' is empty"
    assert found["error"][3] == "the text is not a SMILES"


def test_missing_columns_are_refused(model: Model, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="also takes the columns 'T': give a DataFrame"):
        model.predict(["CCO"])
    with pytest.raises(InputError, match="has no column 'T'"):
        model.predict(pd.DataFrame({"smiles": ["CCO"]}))
    table().drop(columns="T").to_csv(tmp_path / "new.csv", index=False)
    for verb in (predict_table, explain_table):
        with pytest.raises(InputError, match="has no column 'T'"):
            verb(model, tmp_path / "new.csv", tmp_path / "out.csv")
        assert not (tmp_path / "out.csv").exists()
    with pytest.raises(InputError, match="has no column 'T'"):
        model.evaluate(tmp_path / "new.csv")


def test_evaluation_and_explanation_read_them(run: Path, model: Model, tmp_path: Path) -> None:
    data = table()
    predicted = model.predict(data)["predicted_y"]
    assert model.evaluate(data)["mae"] == pytest.approx((predicted - data["y"]).abs().mean(), 1e-4)
    explained = model.explain(data[:3])
    sums = explained.groupby("row")["added_y"].sum()
    np.testing.assert_allclose(sums, predicted[:3], rtol=1e-4)
    data[:3].to_csv(tmp_path / "few.csv", index=False)
    explain_table(model, tmp_path / "few.csv", tmp_path / "atoms.csv")
    sums = pd.read_csv(tmp_path / "atoms.csv").groupby("row")["added_y"].sum()
    np.testing.assert_allclose(sums, predicted[:3], rtol=1e-4)


def test_a_changed_column_is_not_the_data_of_the_run(run: Path) -> None:
    options = resumed_options(RunFolder(run).read_options(), ())
    from smpgnn.training.prepare import prepare

    path = Path(options.path)
    before = path.read_text()
    saved = RunFolder(run).read_data()
    prepare(options, saved)
    try:
        table().assign(T=lambda frame: frame["T"] + (frame.index == 7)).to_csv(path, index=False)
        with pytest.raises(InputError, match=r"targets of 1 row changed \(first: line 9\)"):
            prepare(options, saved)
    finally:
        path.write_text(before)


@pytest.mark.parametrize(
    ("change", "descriptors", "message"),
    [
        ({"T": "warm"}, ["T"], "line 2: the descriptor 'T' is 'warm', which is not a usable"),
        ({"T": None}, ["T"], "line 2: the descriptor 'T' is empty: fill it"),
        ({"T": "inf"}, ["T"], "line 2: the descriptor 'T' is 'inf'"),
        ({}, ["y"], "--descriptors y: is a target"),
        ({}, ["smiles"], "--descriptors smiles: is the SMILES column"),
        ({}, ["t"], "no column 't'"),
        ({}, ["T", "T"], "column 'T' is given twice"),
    ],
)
def test_wrong_descriptors_are_refused(
    change: dict[str, Any], descriptors: list[str], message: str, tmp_path: Path
) -> None:
    frame = table(12).astype(object)
    for name, value in change.items():
        frame.loc[0, name] = value
    frame.to_csv(tmp_path / "data.csv", index=False)
    options = {**OPTIONS, "descriptors": descriptors, "output": str(tmp_path / "run")}
    with pytest.raises(InputError, match=message):
        smpgnn.train("molecules", tmp_path / "data.csv", **options)
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_the_column_is_learnt() -> None:
    """With the temperature at its head, a network explains what the molecules cannot."""
    from smpgnn.models.registry import NetworkSpec

    spec = NetworkSpec(in_channels=0, graph_outputs=1, global_channels=1)
    torch.manual_seed(0)
    network: Any = spec.build()
    u = torch.linspace(280, 340, 32).unsqueeze(1)
    network.globals.fit(u)
    edges = torch.cat([torch.tensor([[0, 1], [1, 0]]) + 2 * k for k in range(32)], dim=1)
    batch = torch.arange(64) // 2
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    target = (u - 310) / 30
    for _ in range(60):
        loss = (network(None, edges, None, batch, u=u) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05 * target.square().mean().item()
