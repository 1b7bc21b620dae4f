"""SDF and Mol files as tables."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest
from rdkit import Chem
from rdkit.Chem import rdDepictor, rdDistGeom

from smpgnn.data.molecules import MoleculeFeaturizer
from smpgnn.data.sdf import UNREADABLE
from smpgnn.data.tables import read_table, stream_table, table_columns
from smpgnn.errors import InputError

SMILES = ["CCO", "C[C@H](N)C(=O)O", "F/C=C/F", "CC(=O)[O-].[Na+]", "c1ccc2[nH]ccc2c1", "[2H]OC"]


def block(smiles: str, *, flat: bool = True) -> str:
    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles)) if not flat else Chem.MolFromSmiles(smiles)
    if flat:
        rdDepictor.Compute2DCoords(molecule)
    else:
        assert rdDistGeom.EmbedMolecule(molecule, randomSeed=1) == 0
    return Chem.MolToMolBlock(molecule)


def record(molecule: str, name: str = "", **properties: str) -> str:
    text = block(molecule).split("\n", 1)[1]
    values = "".join(f">  <{key}>  (1)\n{value}\n\n" for key, value in properties.items())
    return f"{name}\n{text}{values}$$$$\n"


def test_structures_and_properties(tmp_path: Path) -> None:
    path = tmp_path / "data.sdf"
    writer = Chem.SDWriter(str(path))
    for number, smiles in enumerate(SMILES):
        molecule = Chem.MolFromSmiles(smiles)
        rdDepictor.Compute2DCoords(molecule)
        molecule.SetProp("_Name", f"m{number}")
        molecule.SetProp("logS", str(number / 2))
        if number % 2:
            molecule.SetProp("note", f"two\nlines {number}")
        writer.write(molecule)
    writer.close()
    assert table_columns(path) == ("smiles", "title", "logS", "note")
    frame = read_table(path)
    assert frame.index.name == "record"
    assert frame.index.tolist() == [1, 2, 3, 4, 5, 6]
    assert frame["smiles"].tolist() == [Chem.CanonSmiles(text) for text in SMILES]
    assert frame["title"].tolist() == [f"m{number}" for number in range(6)]
    assert frame["logS"].tolist() == ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5"]
    assert frame["note"].isna().tolist() == [True, False] * 3
    assert frame["note"][2] == "two\nlines 1"
    chunks = list(stream_table(path, ["logS", "smiles"], chunk_rows=4))
    assert [len(chunk) for chunk in chunks] == [4, 2]
    pd.testing.assert_frame_equal(pd.concat(chunks), frame[["logS", "smiles"]])
    for other, content in (
        ("data.SDF.gz", gzip.compress(path.read_bytes())),
        ("windows.sd", path.read_bytes().replace(b"\n", b"\r\n")),
        ("no_end.sdf", path.read_bytes().removesuffix(b"$$$$\n")),
        ("blank_end.sdf", path.read_bytes() + b"\n\n"),
    ):
        (tmp_path / other).write_bytes(content)
        pd.testing.assert_frame_equal(read_table(tmp_path / other), frame)


def test_a_mol_file_is_one_record(tmp_path: Path) -> None:
    path = tmp_path / "a.mol"
    for flat in (True, False):
        path.write_text(block("C[C@H](N)C(=O)O", flat=flat))
        frame = read_table(path)
        assert frame["smiles"].tolist() == ["C[C@H](N)C(=O)O"]  # stereo also from 3D
        assert table_columns(path) == ("smiles",)
    path.write_text(Chem.MolToV3KMolBlock(Chem.MolFromSmiles("CCO")))
    assert read_table(path)["smiles"].tolist() == ["CCO"]


def test_names_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.sdf"
    path.write_text(record("CCO", "> <b> x", smiles="C", title="T", a="1") + record("CC", c=""))
    assert table_columns(path) == ("smiles", "title", "smiles_2", "title_2", "a", "c")
    frame = read_table(path)
    assert frame.loc[1].tolist()[:5] == ["CCO", "> <b> x", "C", "T", "1"]
    assert frame.loc[2].isna().tolist() == [False, True, True, True, True, True]


def test_bad_records_have_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "a.sdf"
    nitrogen = record("CN(C)C", y="2").replace(" N ", " F ")
    cut = "title\n\n\n  1  0  0\n>  <y>\n4\n\n$$$$\n"
    rubbish = record("CC", y="5").replace("V2000", "V9999")
    path.write_text(record("CC", y="1") + nitrogen + "\n$$$$\n" + cut + rubbish)
    frame = read_table(path)
    assert frame["y"].fillna("").tolist() == ["1", "2", "", "4", "5"]
    assert frame["smiles"].tolist() == ["CC", "CF(C)C", *[UNREADABLE] * 3]
    found = MoleculeFeaturizer().featurize(frame["smiles"].tolist())
    assert found.index.tolist() == [0]
    assert "Explicit valence for atom # 1 F, 3, is greater than permitted" in found.errors[1]
    assert found.errors[2] == "the structure of the record cannot be read"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.sdf", b"smiles,y\nC,1\n", "is not an SDF or Mol file .*no 'M  END'"),
        ("a.sdf", record("C").replace("C", "\xb5", 1).encode("latin-1"), "as UTF-8 text"),
        ("a.sdf.gz", gzip.compress(record("CCCCCCCC").encode() * 99)[:-40], "damaged gzip file"),
        ("a.mol", b"\x00\x01\x02\xff\xff", "cannot be read as UTF-8"),
        ("a.sdf", b"", "is empty"),
    ],
)
def test_files_that_are_none(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_table(path)


def test_records_of_any_length_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smpgnn.data.sdf.MAX_LINE", 2_000)
    path = tmp_path / "a.sdf"
    path.write_text(record("C") + record("C", y="x\n" * 2_000))
    with pytest.raises(InputError, match="record 2 has more than 2,000 characters"):
        read_table(path)
