"""smpgnn explain: the lines of an input add up to what predict says; bad input is one sentence."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from commands import SMALL, done, smpgnn

import smpgnn as package


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Readable molecules between others, a charge, and a column that is not needed."""
    table = pd.DataFrame({
        "name": ["a", "b", "c", "d", "e"],
        "smiles": ["CCO", "C1CC", None, "C[N+](C)(C)C", "CCCl"],
    })  # fmt: skip
    table.to_csv(tmp_path / "in.csv", index=False)
    return tmp_path / "in.csv"


def test_atoms_add_up_to_the_prediction(size_run: Path, data: Path) -> None:
    out, figures = data.with_name("atoms.csv"), data.with_name("figures")
    found = done("explain", size_run, data, "-o", out, "--figures", figures, "--device", "cpu")
    first, second, third = found.out.splitlines()
    assert first == f"3 molecules explained in {out}"
    assert second == "2 others have no prediction: see the column 'error'."
    assert third.startswith("The integration error is at most ")
    frame = pd.read_csv(out)
    assert list(frame.columns) == ["row", "smiles", "atom", "element", "added_size", "error"]
    assert frame["row"].tolist() == [*[1] * 4, 2, 3, *[4] * 6, *[5] * 4]
    assert frame["atom"][:4].fillna(0).tolist() == [0, 1, 2, 3]
    assert frame["element"][:4].tolist() == ["(rest)", "C", "C", "O"]
    assert frame["element"][6:12].tolist() == ["(rest)", "C", "N+", "C", "C", "C"]
    assert frame["error"][frame["row"] == 3].tolist() == ["the SMILES is empty"]
    assert frame["added_size"][frame["row"].isin([2, 3])].isna().all()
    done("predict", size_run, data, "-o", data.with_name("out.csv"))
    predicted = pd.read_csv(data.with_name("out.csv"))["predicted_size"]
    for row in (1, 4, 5):
        assert frame["added_size"][frame["row"] == row].sum() == pytest.approx(
            predicted[row - 1], abs=1e-4
        )
    # the three methyl groups at the nitrogen are alike
    alike = frame["added_size"][[7, 9, 10, 11]].tolist()
    assert alike == pytest.approx([alike[0]] * 4, abs=1e-5)
    assert sorted(f.name for f in figures.iterdir()) == ["row-1.svg", "row-4.svg", "row-5.svg"]
    for figure in figures.iterdir():
        assert ElementTree.parse(figure).getroot().tag == "{http://www.w3.org/2000/svg}svg"

    frame = package.load(size_run, "cpu").explain(["CCO", "C1CC"])
    assert frame["added_size"][:4].tolist() == pytest.approx(
        pd.read_csv(out)["added_size"][:4].tolist(), abs=1e-6
    )
    assert list(frame.columns) == ["row", "smiles", "atom", "element", "added_size", "error"]
    assert frame["error"][4].startswith("the text is not a SMILES")


def test_nodes_add_up_to_the_odds(kind_run: Path, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "nodes.csv"
    assert done("explain", kind_run, home / "graphs", "-o", out).out.startswith(
        f"24 graphs explained in {out}\n"
    )
    frame = pd.read_csv(out, dtype={"graph": str, "node": str})
    score = next(name for name in frame.columns if name.startswith("added_kind="))
    assert list(frame.columns) == ["graph", "node", score, "error"]
    done("predict", kind_run, home / "graphs", "-o", tmp_path / "out.csv")
    predicted = pd.read_csv(tmp_path / "out.csv", dtype={"graph": str}).set_index("graph")
    share = predicted["probability_kind_" + score.removeprefix("added_kind=")]
    for graph, part in frame.groupby("graph"):
        odds = math.log(share[graph] / (1 - share[graph]))
        assert part[score].sum() == pytest.approx(odds, abs=1e-3)
        assert part["node"].iloc[0] == "(rest)"


def test_a_molecule_too_large_to_draw_has_a_legend(size_run: Path, tmp_path: Path) -> None:
    pd.DataFrame({"smiles": ["C" * 4000, "CCO"]}).to_csv(tmp_path / "in.csv", index=False)
    out = ("-o", tmp_path / "o.csv", "--figures", tmp_path / "figures", "--steps", "1")
    done("explain", size_run, tmp_path / "in.csv", *out)
    first, second = (tmp_path / "figures" / f"row-{row}.svg" for row in (1, 2))
    assert 2_000 < first.stat().st_size < 100_000
    assert 2_000 < second.stat().st_size < 100_000
    assert len(pd.read_csv(tmp_path / "o.csv")) == 4001 + 4


def test_rdkit_says_nothing(
    size_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its warnings go past Python, to the file descriptor."""
    (tmp_path / "in.csv").write_text("smiles\n[Na+].[2H-]\n")
    done("explain", size_run, tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--steps", "1")
    assert capfd.readouterr() == ("", "")


def test_several_targets_have_a_column_and_a_figure_each(
    home: Path, data: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    targets = ("--targets", "size", "weight.g")
    done("train", "molecules", home / "data.csv", *targets, *SMALL, "--output", run)
    figures = tmp_path / "new" / "figures"
    done("explain", run, data, "-o", tmp_path / "o.csv", "--figures", figures, "--steps", "2")
    frame = pd.read_csv(tmp_path / "o.csv")
    assert list(frame.columns)[4:6] == ["added_size", "added_weight.g"]
    names = sorted(f.name for f in figures.iterdir())
    assert names[:2] == ["row-1-1-size.svg", "row-1-2-weight-g.svg"]
    assert len(names) == 6


def test_bad_input_is_one_sentence(size_run: Path, home: Path, data: Path, tmp_path: Path) -> None:
    def refused(*words: object) -> str:
        found = smpgnn("explain", *words)
        assert found.status == 2, found
        assert not found.out
        assert found.err.count("\n") == 1
        return found.err

    out = ("-o", tmp_path / "o.csv")
    assert "--steps: must be a whole number" in refused(size_run, data, *out, "--steps", "0")
    assert "none.csv does not exist" in refused(size_run, tmp_path / "none.csv", *out)
    assert "'smi'" in refused(size_run, data, *out, "--smiles-column", "smi")
    (tmp_path / "file").write_text("")
    figures = ("--figures", tmp_path / "file")
    assert "--figures" in refused(size_run, data, *out, *figures)
    assert not (tmp_path / "o.csv").exists()
    pd.DataFrame({"element": ["CCO"]}).to_csv(data, index=False)
    words = (size_run, data, *out, "--smiles-column", "element")
    assert "the output has its own column 'element'" in refused(*words)


def test_graphs_cannot_be_drawn_and_nodes_not_explained(
    kind_run: Path, home: Path, tmp_path: Path
) -> None:
    out = ("-o", tmp_path / "o.csv")
    found = smpgnn("explain", kind_run, home / "graphs", *out, "--figures", tmp_path / "f")
    assert (found.status, "only molecules can be drawn" in found.err) == (2, True)
    run = tmp_path / "nodes"
    level = ("--level", "node", "--targets", "end")
    done("train", "graphs", home / "graphs", *level, *SMALL, "--output", run)
    found = smpgnn("explain", run, home / "graphs", *out)
    assert (found.status, "node predictions cannot be explained" in found.err) == (2, True)
    assert not (tmp_path / "o.csv").exists()
