"""Files are written whole or not at all."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from smpgnn.errors import InputError
from smpgnn.files import replacing, write_text


def test_a_file_is_written_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "naïve\n")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "naïve\n"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file(tmp_path: Path, failure: type[BaseException]) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(failure), replacing(path) as beside:  # noqa: PT012
        beside.write_text("half")
        assert path.read_text() == "old"
        raise failure
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(InputError, match=r"a\.txt: cannot be written: File too large\.$"):
            write_text(path, "new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file/a\.txt: cannot be written: Not a directory\.$"):
        write_text(tmp_path / "file" / "a.txt", "x")
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        write_text(tmp_path / "nowhere" / "a.txt", "x")
