"""Atomic file writes: a file is complete or absent, never partial.

`Replacement` writes to a part file next to the target and renames it when it is complete. A part
file is locked while it is written. Termination signals raise `Terminated`, so the part file is
removed before the process exits. A part file left by a killed process is no longer locked, and the
next write into the same folder removes it.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from smpgnn.errors import InputError

try:
    import fcntl
except ImportError:  # no locks on this system: part files of killed processes remain
    fcntl = None  # type: ignore[assignment]

#: Bytes of the target's name to keep in the name of the part file, which has a maximum length.
_NAME_BYTES = 100
_PART = re.compile(r"\..*\.smpgnn-[0-9a-f]{8}\.part", re.DOTALL)


#: Part files of this process that are neither renamed nor removed yet.
_unfinished: set[Path] = set()


def discard_unfinished() -> None:
    """Remove part files that remain after an exception."""
    while _unfinished:
        with contextlib.suppress(OSError):
            _unfinished.pop().unlink()


class Replacement:
    """A new version of the file `path`: write to `part`, then `commit` or `discard`.

    If `path` is a link, the file it points to is replaced.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock: int | None = None
        if not self.path.name:
            raise InputError(f"{self.path}: is a folder: give a file name.")
        with self.reported((OSError, ValueError)):  # ValueError: invalid file name
            self._target = Path(os.path.realpath(self.path))
            self._refuse_special()
            name = os.fsencode(self._target.name)[:_NAME_BYTES].decode("utf-8", "ignore")
            token = secrets.token_hex(4)
            self.part = self._target.with_name(f".{name}.smpgnn-{token}.part")
            _sweep_once(self._target.parent)
            _unfinished.add(self.part)
            self._lock = os.open(self.part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
            _try_lock(self._lock)

    def commit(self) -> None:
        """Rename the part file to the target."""
        try:
            with self.reported():
                os.replace(self.part, self._target)
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the part file if it still exists."""
        with contextlib.suppress(OSError):
            self.part.unlink()
        _unfinished.discard(self.part)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextlib.contextmanager
    def reported(self, kinds: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
        """Raise errors of these kinds as an `InputError` with a remedy."""
        try:
            yield
        except InputError:
            raise
        except kinds as error:
            number = getattr(error, "errno", None)
            if number == errno.ENOENT and not self.path.parent.is_dir():
                remedy = f"create the folder {self.path.parent} first"
            elif number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                remedy = "free some space or choose another path"
            else:
                remedy = "choose another path"
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{self.path}: cannot be written ({reason}): {remedy}.") from error

    def _refuse_special(self) -> None:
        try:
            mode = self._target.stat().st_mode
        except FileNotFoundError:
            return
        if stat.S_ISDIR(mode):
            raise InputError(f"{self.path}: is a folder: give a file name.")
        if not stat.S_ISREG(mode):
            raise InputError(f"{self.path}: is not a regular file: choose another path.")
        if not os.access(self._target, os.W_OK):
            raise InputError(f"{self.path}: is write-protected: choose another name.")


def file_name(name: str) -> str:
    """A file name of lower-case letters and digits; other characters become '-'.

    'GIN + rand id' is 'gin-rand-id', the cell '4 12' is '4-12'.
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary file next to `path`; renamed to it on success, removed on failure."""
    new = Replacement(path)
    try:
        with new.reported():
            yield new.part
        new.commit()
    finally:
        new.discard()


def write_text(path: str | Path, text: str) -> None:
    """Write a text file atomically."""
    write_texts({path: text})


def write_texts(texts: Mapping[str | Path, str]) -> None:
    """Write several text files; if one cannot be written, none is."""
    with contextlib.ExitStack() as stack:
        for path, text in texts.items():
            beside = stack.enter_context(replacing(path))
            beside.write_text(text, encoding="utf-8", errors="backslashreplace")


@functools.cache
def _sweep_once(folder: Path) -> None:
    """Remove the part files of killed processes, once per folder, which may be large."""
    remove_unfinished(folder)


def remove_unfinished(folder: Path) -> int:
    """Remove the part files of killed processes; the number of those that are in use."""
    left = 0
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if _PART.fullmatch(name):
                with contextlib.suppress(OSError, AttributeError):  # Windows lacks the flags
                    left += not _remove_unlocked(folder / name)
    return left


def _remove_unlocked(part: Path) -> bool:
    file = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if unlocked := _try_lock(file):
            part.unlink()
        return unlocked
    finally:
        os.close(file)


def _try_lock(file: int) -> bool:
    """Try to lock an open file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, AttributeError):  # locked by another process, or no locks on this system
        return False
    return True
