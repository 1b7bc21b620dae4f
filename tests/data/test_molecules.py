"""Molecules: features by hand, row order, reasons, and invariance to the form of a SMILES."""

from __future__ import annotations

import sys
from typing import Any

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smpgnn.data import molecules
from smpgnn.data.molecules import (
    MAX_CHARACTERS,
    Codes,
    MoleculeFeaturizer,
    MoleculeTable,
    molecule_table,
    one_hot,
)
from smpgnn.data.zinc_vocabulary import ZincFeaturizer
from smpgnn.errors import InputError

Chem = pytest.importorskip("rdkit.Chem")

GOOD = [
    "C",
    "CCO",
    "c1ccccc1",
    "[Na+].[Cl-]",
    "C[C@H](F)Cl",
    "C[C@@H](F)Cl",
    "F/C=C/F",
    "F/C=C\\F",
    "N",
    "CC(=O)Oc1ccccc1C(=O)O",
    "[nH]1cccc1",
    "C#N",
    "O=S(=O)(O)O",
    "C[N+](C)(C)C",
    "*C",
    "[H][H]",
    "N->[Fe]",
    "FS(F)(F)(F)(F)F",
]
BAD = ["", "  ", "C1CC", "c1cccc1", "C(C)(C)(C)(C)C", "xyz", "CC>>CO", "CC O", None, "((((", "é"]


def one(smiles: str, featurizer: MoleculeFeaturizer | None = None) -> MoleculeTable:
    table = (featurizer or MoleculeFeaturizer()).featurize([smiles])
    assert table.errors == {}
    return table


def atom_words(table: MoleculeTable, atom: int) -> set[str]:
    assert table.store.x is not None
    names = MoleculeFeaturizer().atom_features
    return {name for name, on in zip(names, table.store.x[atom], strict=True) if on}


def bond_words(table: MoleculeTable, edge: int) -> set[str]:
    assert table.store.edge_attr is not None
    names = MoleculeFeaturizer().bond_features
    return {name for name, on in zip(names, table.store.edge_attr[edge], strict=True) if on}


def test_acetaldehyde_by_hand() -> None:
    table = one("CC=O")
    assert table.store.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    sp3 = {"element C", "charge +0", "hydrogens 3", "hybridisation SP3"}
    assert atom_words(table, 0) == sp3
    assert atom_words(table, 1) == {"element C", "charge +0", "hydrogens 1", "hybridisation SP2"}
    assert atom_words(table, 2) == {"element O", "charge +0", "hydrogens 0", "hybridisation SP2"}
    assert [bond_words(table, e) for e in range(4)] == [
        {"type single"},
        {"type single"},
        {"type double"},
        {"type double"},
    ]


def test_aromatic_ring_charge_and_rare_things() -> None:
    benzene = one("c1ccccc1")
    assert "aromatic" in atom_words(benzene, 0)
    assert bond_words(benzene, 0) == {"type aromatic", "conjugated", "ring"}
    salt = one("[Na+].[Cl-]")
    assert salt.store.edge_index.shape == (2, 0)
    assert {"element other", "charge +1"} <= atom_words(salt, 0)
    assert {"element Cl", "charge -1"} <= atom_words(salt, 1)
    assert "charge +2" in atom_words(one("[Al+3]"), 0)
    assert "hydrogens 4" in atom_words(one("C"), 0)
    assert "type other" in bond_words(one("N->[Fe]"), 0)


def test_stereo_labels() -> None:
    assert "stereo R" in atom_words(one("C[C@H](F)Cl"), 1)
    assert "stereo S" in atom_words(one("C[C@@H](F)Cl"), 1)
    e, z = one("F/C=C/F"), one("F/C=C\\F")
    double = [k for k in range(6) if "type double" in bond_words(e, k)]
    assert all("stereo E" in bond_words(e, k) for k in double)
    assert all("stereo Z" in bond_words(z, k) for k in double)
    assert not any(
        word.startswith("stereo") for k in range(6) for word in bond_words(one("FC=CF"), k)
    )


def test_channels_match_the_tensors() -> None:
    for featurizer in (MoleculeFeaturizer(), MoleculeFeaturizer(elements=("C", "O"))):
        store = featurizer.featurize(GOOD).store
        assert store.x is not None
        assert store.edge_attr is not None
        assert store.x.shape[1] == len(featurizer.atom_features)
        assert store.edge_attr.shape[1] == len(featurizer.bond_features)
        assert store.x.dtype == store.edge_attr.dtype == torch.uint8
        assert set(store.x.unique().tolist()) <= {0, 1}
    assert len(featurizer.atom_features) == len(MoleculeFeaturizer().atom_features) - 10


def test_no_molecule_at_all() -> None:
    featurizer = MoleculeFeaturizer()
    table = featurizer.featurize(BAD)
    assert len(table.store) == 0
    assert table.store.x is not None
    assert table.store.x.shape == (0, len(featurizer.atom_features))
    assert table.store.batch().num_graphs == 0
    assert sorted(table.errors) == list(range(len(BAD)))
    assert len(featurizer.featurize([]).store) == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (None, "empty"),
        (float("nan"), "empty"),
        (pd.NA, "empty"),
        (7, "the number 7"),
        (10**400, "the number 1000"),
        (b"CCO", "the cell contains b'CCO', not text"),
        (["C"], "the cell contains ['C'], not text"),
        ("C1CC1" * 20_000, "the SMILES has 100,000 characters, more than 5,000"),
        ("C O" + "x" * 1000, "follows the SMILES"),
        ("C1CC", "not a SMILES"),
        ("\ud800", "not a SMILES"),
        ("C\0C", "not a SMILES"),
        ("c1cccc1", "Can't kekulize"),
        ("C(C)(C)(C)(C)C", "valence for atom # 0 C, 5"),
        ("CC O", "'O' follows the SMILES"),
    ],
)
def test_reasons(text: str | None, reason: str) -> None:
    table = MoleculeFeaturizer().featurize(["C", text, "O"])
    assert table.index.tolist() == [0, 2]
    assert list(table.errors) == [1]
    assert reason in table.errors[1]
    assert "\n" not in table.errors[1]


@pytest.mark.parametrize("featurizer", [MoleculeFeaturizer(), ZincFeaturizer()])
def test_the_longest_smiles_do_not_crash(featurizer: MoleculeFeaturizer | ZincFeaturizer) -> None:
    texts = ["C" * MAX_CHARACTERS, "C(" * (MAX_CHARACTERS // 3) + "C" + ")" * (MAX_CHARACTERS // 3)]
    table = featurizer.featurize([*texts, "C" * 10**6])
    assert table.index.tolist() == [0, 1]
    assert table.store.num_nodes.tolist() == [MAX_CHARACTERS, MAX_CHARACTERS // 3 + 1]
    assert "1,000,000 characters" in table.errors[2]


def test_blanks_around_and_extensions_are_fine() -> None:
    table = MoleculeFeaturizer().featurize([" CC\n", "CC |atomProp:0.a.b|"])
    assert table.errors == {}
    assert table.store.num_nodes.tolist() == [2, 2]


def test_atom_limit() -> None:
    table = MoleculeFeaturizer(max_atoms=3).featurize(["CCC", "CCCC"])
    assert table.index.tolist() == [0]
    assert "4 atoms, more than the 3 allowed" in table.errors[1]


def test_unknown_element_in_the_list() -> None:
    with pytest.raises(InputError, match="does not exist"):
        MoleculeFeaturizer(elements=("C", "Zz")).featurize(["C"])


def test_without_rdkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(InputError, match=r'pip install "smpgnn\[chem\]"'):
        MoleculeFeaturizer().featurize(["C"])


def test_nothing_is_logged(capfd: pytest.CaptureFixture[str]) -> None:
    MoleculeFeaturizer().featurize(BAD)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""
    Chem.MolFromSmiles("c1cccc1")
    assert "kekulize" in capfd.readouterr().err  # RDKit speaks again afterwards


def test_rows_may_come_from_a_generator_one_at_a_time() -> None:
    table = MoleculeFeaturizer().featurize(text for text in ["C", "?", "CC"])
    assert table.index.tolist() == [0, 2]


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = MoleculeFeaturizer().featurize(GOOD)
    for size in (1, 4, len(GOOD)):
        monkeypatch.setattr(molecules, "BLOCK", size)
        parts = MoleculeFeaturizer().featurize(GOOD)
        for name in ("node_ptr", "edge_ptr", "edge_index", "x", "edge_attr"):
            assert torch.equal(getattr(parts.store, name), getattr(whole.store, name))


def test_edges_of_each_graph_are_sorted() -> None:
    def codes(molecule: Any, text: str) -> Codes | str:
        return ([(0,), (1,), (1,)], [(2,), (1,)]) if text == "C(=O)[O-]" else "not this one"

    table = molecule_table(["C", "C(=O)[O-]"], codes, [one_hot(2)], [one_hot(3)])
    assert table.errors == {0: "not this one"}
    assert table.index.tolist() == [1]
    assert table.store.edge_index.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]
    assert table.store.x is not None
    assert table.store.x.argmax(1).tolist() == [0, 1, 1]
    assert table.store.edge_attr is not None
    assert table.store.edge_attr.argmax(1).tolist() == [2, 1, 2, 1]


@given(st.lists(st.sampled_from([*GOOD, *BAD]), max_size=20))
def test_rows_keep_their_order(texts: list[str | None]) -> None:
    table = MoleculeFeaturizer().featurize(texts)
    good = [row for row, text in enumerate(texts) if text in GOOD]
    assert table.index.tolist() == good
    assert sorted(table.errors) == [row for row in range(len(texts)) if row not in good]
    for graph, row in enumerate(good):
        alone = one(str(texts[row])).store
        part = table.store.select([graph])
        assert alone.x is not None
        assert part.x is not None
        assert torch.equal(part.x, alone.x)
        assert torch.equal(part.edge_index, alone.edge_index)


@given(st.lists(st.text(max_size=12) | st.text("CNOc1()[]=#@+-/\\.%H2", max_size=12), max_size=10))
def test_garbage_never_crashes(texts: list[str]) -> None:
    table = MoleculeFeaturizer().featurize(texts)
    assert sorted([*table.index.tolist(), *table.errors]) == list(range(len(texts)))
    assert (table.store.num_nodes > 0).all()


@given(st.sampled_from(GOOD), st.integers(1, 10**6))
def test_features_do_not_depend_on_how_it_is_written(smiles: str, seed: int) -> None:
    rewritten = Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(smiles), 1, randomSeed=seed)[0]
    first, second = one(smiles).store, one(rewritten).store
    for name in ("x", "edge_attr"):
        rows = [sorted(map(tuple, getattr(store, name).tolist())) for store in (first, second)]
        assert rows[0] == rows[1]
