"""AtomicCsvWriter writes a complete file or none."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smpgnn.data.table_writer import AtomicCsvWriter
from smpgnn.data.tables import read_table
from smpgnn.errors import InputError


def frame(*rows: tuple[str, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["smiles", "y"])


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.tsv"])
def test_frames_are_appended_under_one_header(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with AtomicCsvWriter(path, ["y", "smiles"]) as writer:
        writer.write(frame(("C", 1.0), ("NA", 0.1)))
        writer.write(frame(("O", 3.5)))
        assert not path.exists()
    assert read_table(path).to_numpy().tolist() == [["1.0", "C"], ["0.1", "NA"], ["3.5", "O"]]
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_no_rows_leave_the_header(tmp_path: Path) -> None:
    with AtomicCsvWriter(tmp_path / "out.csv", ["smiles", "y"]):
        pass
    assert (tmp_path / "out.csv").read_text() == "smiles,y\n"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failure_leaves_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old\n")

    def interrupted() -> None:
        with AtomicCsvWriter(path, ["smiles", "y"]) as writer:
            writer.write(frame(("C", 1.0)))
            raise error

    with pytest.raises(error):
        interrupted()
    assert path.read_text() == "old\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"

    def fill() -> None:
        with AtomicCsvWriter(path, ["smiles", "y"]) as writer:
            assert writer._stream is not None
            writer._stream.close()
            writer._stream = open("/dev/full", "w")  # noqa: SIM115
            writer.write(frame(*[("C", 1.0)] * 10_000))

    with pytest.raises(InputError, match="No space left on device") as caught:
        fill()
    assert str(path) in str(caught.value)
    assert not path.exists()


def test_failure_in_the_last_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def run() -> None:
        with AtomicCsvWriter(tmp_path / "out.csv", ["smiles", "y"]):
            monkeypatch.setattr(os, "replace", refuse)

    with pytest.raises(InputError, match="cannot be written"):
        run()
    assert list(tmp_path.iterdir()) == []


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"), AtomicCsvWriter(tmp_path, ["a"]):
        pass
    nowhere = tmp_path / "no" / "out.csv"
    with (
        pytest.raises(InputError, match=r"create the folder .*no first"),
        AtomicCsvWriter(nowhere, ["a"]),
    ):
        pass
    device = Path("/dev/null")
    with pytest.raises(InputError, match="not a regular file"), AtomicCsvWriter(device, ["a"]):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    target = closed / "out.csv"
    with pytest.raises(InputError, match="Permission denied"), AtomicCsvWriter(target, ["a"]):
        pass


def test_refusal_to_open_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "open", refuse)
    target = tmp_path / "out.csv"
    with pytest.raises(InputError, match="Permission denied"), AtomicCsvWriter(target, ["a"]):
        pass


def test_link_keeps_pointing_at_its_file(tmp_path: Path) -> None:
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("old\n")
    link.symlink_to(real)
    with AtomicCsvWriter(link, ["a"]):
        pass
    assert link.is_symlink()
    assert real.read_text() == "a\n"


def test_lone_surrogates_are_written_as_escapes(tmp_path: Path) -> None:
    """JSON and file names may contain lone surrogates."""
    with AtomicCsvWriter(tmp_path / "out.csv", ["smiles", "y"]) as writer:
        smiles = pd.Series(["\ud800"], dtype=object)
        writer.write(pd.DataFrame({"smiles": smiles, "y": [1.0]}))
    assert (tmp_path / "out.csv").read_text() == "smiles,y\n\\ud800,1.0\n"


def test_use_outside_the_block(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="with block"):
        AtomicCsvWriter(tmp_path / "out.csv", ["smiles", "y"]).write(frame(("C", 1.0)))


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6),
            st.floats(allow_nan=False, allow_infinity=False),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, float]]
) -> None:
    path = tmp_path_factory.mktemp("round") / "out.csv"
    with AtomicCsvWriter(path, ["smiles", "y"]) as writer:
        for row in rows:
            writer.write(frame(row))
    back = read_table(path)
    assert back["smiles"].tolist() == [text for text, _ in rows]
    assert [float(value) for value in back["y"]] == [value for _, value in rows]
