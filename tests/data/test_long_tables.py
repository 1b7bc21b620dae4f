"""Long tables in processes: the same features, names and descriptors as in one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("rdkit")

from smpgnn import processes
from smpgnn.data import long_tables, molecule_splits
from smpgnn.data.molecule_features import rdkit_descriptors
from smpgnn.data.molecules import MoleculeFeaturizer
from smpgnn.data.targets import parse_targets

SMILES = [*"CNO", "C[C@H](N)O", "?", "", "c1ccccc1O", "[Na+].CC(=O)[O-]", None, "OCC", "CCO"]


@pytest.fixture(autouse=True)
def pieces_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PIECE_ROWS", 3)


@pytest.mark.parametrize("standardize", [False, True])
def test_features_do_not_depend_on_pieces_and_processes(standardize: bool) -> None:
    featurizer = MoleculeFeaturizer(standardize=standardize)
    whole = featurizer.featurize(SMILES)
    assert set(whole.errors) == {4, 5, 8}
    for count in (1, 2):
        found = long_tables.featurized(featurizer, SMILES, count)
        assert found.smiles == whole.smiles
        assert list(found.errors.items()) == list(whole.errors.items())
        assert torch.equal(found.index, whole.index)
        for name, value in vars(whole.store).items():
            other = getattr(found.store, name)
            assert (other is None) == (value is None)
            if value is not None:
                assert other.dtype == value.dtype
                assert torch.equal(other, value)
    assert len(long_tables.featurized(featurizer, []).store) == 0


def test_names_fingerprints_and_descriptors_by_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [text for text in SMILES if text not in ("?", "", None)]
    alone = (
        molecule_splits.molecule_groups(texts),
        long_tables.packed_fingerprints(texts),
        rdkit_descriptors(texts),
    )
    monkeypatch.setattr(processes, "FEW_ROWS", 5)
    monkeypatch.setattr(processes, "suitable_processes", lambda: 2)
    molecule_splits.canonical_names.cache_clear()
    groups, first = molecule_splits.molecule_groups(texts)
    assert groups.tolist() == alone[0][0].tolist() == [0, 1, 2, 3, 4, 5, 6, 6]
    assert first == alone[0][1]
    assert np.array_equal(long_tables.packed_fingerprints(texts), alone[1])
    assert np.array_equal(long_tables.descriptors_of(texts), alone[2])


def test_short_tables_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(processes, "in_processes", refused)
    monkeypatch.setattr(processes, "suitable_processes", lambda: 2)
    assert len(long_tables.featurized(MoleculeFeaturizer(), SMILES).store) == 8
    monkeypatch.setattr(processes, "FEW_ROWS", len(SMILES))
    with pytest.raises(AssertionError):
        long_tables.featurized(MoleculeFeaturizer(), SMILES)


def test_a_script_without_a_main_guard_can_use_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from smpgnn.data.long_tables import featurized\n"
        "from smpgnn.data.molecules import MoleculeFeaturizer\n"
        "print(len(featurized(MoleculeFeaturizer(), ['C', 'CO'], processes=2).store))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")


@pytest.mark.parametrize("task", ["auto", "regression"])
def test_columns_of_numbers_and_their_texts_are_the_same_targets(task: str) -> None:
    random = np.random.default_rng(0)
    values = {
        "wide": random.standard_normal(50) * 10.0 ** random.integers(-9, 9, 50),
        "narrow": random.standard_normal(50).astype(np.float32),
        "gaps": np.where(np.arange(50) % 3 == 0, np.nan, random.random(50)),
        "whole": np.arange(50),
        "two": np.arange(50) % 2,
    }
    frame = pd.DataFrame(values)
    plain, texts = (parse_targets(f, list(values), task) for f in (frame, frame.astype(object)))
    assert plain.spec == texts.spec
    assert plain.spec.kinds[-1] == ("classification" if task == "auto" else "regression")
    torch.testing.assert_close(plain.values, texts.values, rtol=1e-15, atol=0, equal_nan=True)
    assert torch.equal(plain.values.float().nan_to_num(), texts.values.float().nan_to_num())
