"""Files are written completely or not at all."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from smpgnn.errors import InputError
from smpgnn.files import Replacement, discard_unfinished, replacing, write_text, write_texts


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


def test_several_files_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="create the folder"):
        write_texts({tmp_path / "a.txt": "a", tmp_path / "nowhere" / "b.txt": "b"})
    assert not list(tmp_path.iterdir())
    write_texts({tmp_path / "a.txt": "a", tmp_path / "b.txt": "b"})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.txt", "b.txt"]


def test_part_files_left_over_can_be_removed_at_the_end(tmp_path: Path) -> None:
    """An interrupt may come after the part file is created and before `discard` is guaranteed."""
    done = Replacement(tmp_path / "a.txt")
    done.part.write_text("whole")
    done.commit()
    lost = Replacement(tmp_path / "b.txt")
    assert lost.part.exists()
    discard_unfinished()
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
    lost.discard()


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(InputError, match=r"a\.txt: cannot be written \(File too large\): free"):
            write_text(path, "new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file/a\.txt: cannot be written \(Not a directory\)"):
        write_text(tmp_path / "file" / "a.txt", "x")
    with pytest.raises(InputError, match=r"create the folder .*nowhere first"):
        write_text(tmp_path / "nowhere" / "a.txt", "x")


@pytest.mark.parametrize("name", ["a" * 244, "a" * 255, "ä" * 127, "b" * 240 + ".csv"])
def test_every_name_that_a_file_may_have_can_be_written(tmp_path: Path, name: str) -> None:
    write_text(tmp_path / name, "whole")
    assert (tmp_path / name).read_text() == "whole"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["a" * 256, "a\0b", "a" * 300 + "/b"])
def test_a_name_that_no_file_may_have_is_one_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"cannot be written \(.*\): choose another path\.$"):
        write_text(tmp_path / name, "x")
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_file_system_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(InputError, match=r"a\.txt: cannot be written \(Read-only file system\)"):
        write_text(tmp_path / "a.txt", "x")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")
def test_a_folder_that_takes_no_files_is_one_sentence() -> None:
    with pytest.raises(InputError, match=r"^/proc/a\.txt: cannot be written"):
        write_text("/proc/a.txt", "x")


def test_folders_devices_and_pipes_are_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="is not a regular file"):
        write_text(tmp_path / "pipe", "x")
    for folder in (tmp_path / "folder", Path("."), Path(""), Path("/")):
        with pytest.raises(InputError, match="is a folder"):
            write_text(folder, "x")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "pipe"]


def test_a_link_keeps_pointing_at_its_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_text(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "x"


WRITER = """
import sys, time
from smpgnn.files import replacing
with replacing(sys.argv[1]) as beside:
    beside.write_text("half")
    print("begun", flush=True)
    time.sleep(60)
"""


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.txt"
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
        foreign = tmp_path / ".a.txt.part"
        foreign.write_text("of another program")
        assert len(list(tmp_path.glob(".a.txt.smpgnn-*.part"))) == 2
        processes[0].send_signal(signal.SIGKILL)
        processes[0].wait()
        write_text(path, "whole")
        assert path.read_text() == "whole"
        assert len(list(tmp_path.glob(".a.txt.smpgnn-*.part"))) == 1
        assert foreign.exists()
    finally:
        for process in processes:
            process.kill()
            process.communicate()
