"""smpgnn predict: every row is kept, in order, whatever is in it; all of the output or nothing."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import done, molecules, smpgnn

from smpgnn.data import table_writer, tables
from smpgnn.inference import predict


def mixed() -> pd.DataFrame:
    """A table with a comma in a cell, an empty SMILES, nonsense, and one thing twice."""
    frame = molecules(12)[["name", "smiles"]].astype(object)
    frame.loc[2, "smiles"] = "C1CC"
    frame.loc[5, "smiles"] = None
    frame.loc[7, "name"] = 'a, "quoted" name'
    frame.loc[9, "smiles"] = frame.loc[0, "smiles"]
    return frame


@pytest.fixture
def data(tmp_path: Path) -> Path:
    mixed().to_csv(tmp_path / "in.csv", index=False)
    return tmp_path / "in.csv"


def predicted(run: Path, data: Path, *words: object) -> pd.DataFrame:
    out = data.with_name("out.csv")
    done("predict", run, data, "-o", out, *words)
    return pd.read_csv(out)


def test_every_row_is_kept_with_the_reason_beside_it(size_run: Path, data: Path) -> None:
    out = data.with_name("out.csv")
    found = done("predict", size_run, data, "-o", out)
    assert found.out == (
        f"12 rows written to {out}\n2 of them have no prediction: see the column 'error'.\n"
    )
    frame = pd.read_csv(out)
    assert list(frame.columns) == ["name", "smiles", "predicted_size", "error"]
    assert frame[["name", "smiles"]].fillna("").to_numpy().tolist() == (
        mixed().fillna("").to_numpy().tolist()
    )
    assert frame.index[frame["predicted_size"].isna()].tolist() == [2, 5]
    assert frame.index[frame["error"].notna()].tolist() == [2, 5]
    assert frame["error"][5] == "the SMILES is empty"
    assert frame["predicted_size"][9] == pytest.approx(frame["predicted_size"][0], rel=1e-4)
    assert sorted(f.name for f in data.parent.iterdir()) == ["in.csv", "out.csv"]


def test_parquet_model_file_and_other_column(size_run: Path, data: Path) -> None:
    expected = predicted(size_run, data)
    frame = mixed().rename(columns={"smiles": "SMI"})
    frame["number"] = range(12)
    frame.to_parquet(data.with_name("in.parquet"))
    model = size_run / "model.safetensors"
    found = predicted(model, data.with_name("in.parquet"), "--smiles-column", "SMI")
    assert list(found.columns) == ["name", "SMI", "number", "predicted_size", "error"]
    assert found["predicted_size"].equals(expected["predicted_size"])


def test_a_table_without_the_column_says_how_to_name_it(size_run: Path, tmp_path: Path) -> None:
    pd.DataFrame({"mol": ["CCO", "x"]}).to_csv(tmp_path / "in.csv", index=False)
    for verb in ("predict", "embed", "explain"):
        refused = smpgnn(verb, size_run, tmp_path / "in.csv", "-o", tmp_path / "out.csv")
        assert refused.status == 2
        assert "name that of this table with --smiles-column" in refused.err
    words = (size_run, tmp_path / "in.csv", "--smiles-column", "mol", "-o", tmp_path / "out.csv")
    assert "1 of them has no prediction" in done("predict", *words).out


def test_another_separator(size_run: Path, data: Path) -> None:
    expected = predicted(size_run, data)
    mixed().to_csv(data, index=False, sep="|")
    found = predicted(size_run, data, "--separator", "|")
    assert found["predicted_size"].equals(expected["predicted_size"])
    with_target = mixed().assign(size=1.0)
    with_target.to_csv(data, index=False, sep="|")
    evaluated = done("evaluate", size_run, data, "--separator", "|")
    assert "mae" in evaluated.out
    assert "2 rows left out, the first at line 4" in evaluated.err


def test_the_table_is_streamed_and_pieces_do_not_matter(
    size_run: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = predicted(size_run, data)
    pieces: list[int] = []
    whole_write, whole_stream = table_writer.AtomicCsvWriter.write, tables.stream_table

    def write(self: Any, frame: pd.DataFrame) -> None:
        pieces.append(len(frame))
        whole_write(self, frame)

    def stream(path: Path, **options: Any) -> Iterator[pd.DataFrame]:
        return whole_stream(path, **{**options, "chunk_rows": 5})

    monkeypatch.setattr(table_writer.AtomicCsvWriter, "write", write)
    monkeypatch.setattr(tables, "stream_table", stream)
    monkeypatch.setattr(predict, "BATCH_ROWS", {"cpu": 30, "cuda": 30})
    found = predicted(size_run, data)
    assert pieces == [5, 5, 2]
    pd.testing.assert_frame_equal(found, expected, rtol=1e-4)


def test_a_second_model_on_the_output_of_the_first(size_run: Path, data: Path) -> None:
    first = predicted(size_run, data)
    second = data.with_name("second.csv")
    found = done("predict", size_run, data.with_name("out.csv"), "-o", second)
    assert found.out.splitlines() == [
        f"12 rows written to {second}",
        "2 of them have no prediction: see the column 'error_2'.",
        "The table already has columns of the usual names: the new columns are 'predicted_size_2', "
        "'error_2'.",
    ]
    frame = pd.read_csv(second)
    assert list(frame.columns) == [*first.columns, "predicted_size_2", "error_2"]
    pd.testing.assert_frame_equal(frame[list(first.columns)], first)
    assert frame["predicted_size_2"].equals(first["predicted_size"])
    third = done("predict", size_run, second, "-o", data.with_name("third.csv"))
    assert "'predicted_size_3', 'error_3'" in third.out


def test_a_cell_of_any_length_is_kept(size_run: Path, data: Path) -> None:
    frame = mixed().assign(note="x" * 140_000)
    frame.loc[3, "smiles"] = "C1CC1" * 30_000
    frame.to_csv(data, index=False)
    found = predicted(size_run, data)
    assert found["note"].str.len().tolist() == [140_000] * 12
    assert found["error"][3] == "the SMILES has 150,000 characters, more than 5,000"
    assert found.index[found["error"].notna()].tolist() == [2, 3, 5]


@pytest.mark.parametrize("name", ["a" * 240 + ".csv", "ä" * 125 + ".csv"])
def test_long_names_of_the_output(size_run: Path, data: Path, name: str) -> None:
    done("predict", size_run, data, "-o", data.with_name(name))
    assert sorted(f.name for f in data.parent.iterdir()) == sorted([name, "in.csv"])


def test_a_read_only_place(size_run: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("smpgnn.files.os.open", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    out = data.with_name("out.csv")
    found = smpgnn("predict", size_run, data, "-o", out)
    assert (found.status, found.out) == (2, "")
    reason = f"{out}: cannot be written (Read-only file system): choose another path."
    assert found.err == f"smpgnn: {reason}\n"


def test_pipes_are_refused_at_once(size_run: Path, data: Path) -> None:
    pipe = data.with_name("pipe.csv")
    os.mkfifo(pipe)
    for verb in ("predict", "explain", "evaluate"):
        words = () if verb == "evaluate" else ("-o", data.with_name("out.csv"))
        found = smpgnn(verb, size_run, pipe, *words)
        assert (found.status, found.out) == (2, "")
        assert "pipe.csv is a pipe or device: save its content to a file first." in found.err


def test_the_old_output_stays_if_it_fails_in_the_middle(
    size_run: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = data.with_name("out.csv")
    out.write_text("old")
    with data.open("a") as file:
        file.write("too,many,cells\n")
    found = smpgnn("predict", size_run, data, "-o", out)
    assert found.status == 2
    assert f"{data}, line 14: 3 cells" in found.err
    assert out.read_text() == "old"
    mixed().to_csv(data, index=False)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(predict.Model, "predict_smiles", interrupted)
        found = smpgnn("predict", size_run, data, "-o", out)
    assert (found.status, found.err) == (130, "smpgnn: interrupted.\n")
    assert out.read_text() == "old"
    assert sorted(f.name for f in data.parent.iterdir()) == ["in.csv", "out.csv"]


def test_a_full_disk(size_run: Path, data: Path) -> None:
    out = data.with_name("out.csv")
    out.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    try:
        found = smpgnn("predict", size_run, data, "-o", out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert found.status == 2
    assert f"{out}: cannot be written (File too large)" in found.err
    assert out.read_text() == "old"
    assert sorted(f.name for f in data.parent.iterdir()) == ["in.csv", "out.csv"]


def test_output_over_its_own_input(size_run: Path, data: Path) -> None:
    done("predict", size_run, data, "-o", data)
    assert list(pd.read_csv(data).columns) == ["name", "smiles", "predicted_size", "error"]
