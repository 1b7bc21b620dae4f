"""Writing files so that nothing half-written is ever left where a whole file should be.

All files are written through `Replacement`: into a part file beside the target, which takes the
target's name when it is complete. A part file is locked while it is written, and a signal that ends
the command line raises `Terminated`, so the part file is removed on the way out. One that a killed
process left behind has lost its lock, and the next write into the same folder removes it.
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
except ImportError:  # no locks on this system: part files of killed processes stay
    fcntl = None  # type: ignore[assignment]

#: Bytes of the target's name in that of its part file, which must fit every file system.
_NAME_BYTES = 100
_PART = re.compile(r"\..*\.smpgnn-[0-9a-f]{8}\.part", re.DOTALL)


#: Part files of this process that are neither complete nor removed yet.
_unfinished: set[Path] = set()


def discard_unfinished() -> None:
    """Remove the part files that are left: after an exception that came between two steps."""
    while _unfinished:
        with contextlib.suppress(OSError):
            _unfinished.pop().unlink()


class Replacement:
    """A new version of the file `path`: write to `part`, then `commit` or `discard`.

    A link keeps pointing at its file: the file is what is replaced.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock: int | None = None
        if not self.path.name:
            raise InputError(f"{self.path}: is a folder: give the name of a file to write.")
        try:
            self._target = Path(os.path.realpath(self.path))
            self._refuse_special()
            name = os.fsencode(self._target.name)[:_NAME_BYTES].decode("utf-8", "ignore")
            token = secrets.token_hex(4)
            self.part = self._target.with_name(f".{name}.smpgnn-{token}.part")
            _sweep(self._target.parent)
            _unfinished.add(self.part)
            self._lock = os.open(self.part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
            _try_lock(self._lock)
        except InputError:
            raise
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            raise self.failure(error) from error

    def commit(self) -> None:
        """Give the part file the name of the target."""
        try:
            os.replace(self.part, self._target)
        except OSError as error:
            raise self.failure(error) from error
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the part file, if it is still there."""
        with contextlib.suppress(OSError):
            self.part.unlink()
        _unfinished.discard(self.part)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def failure(self, error: Exception) -> InputError:
        """The sentence for an error of the system."""
        number = getattr(error, "errno", None)
        if number == errno.ENOENT and not self.path.parent.is_dir():
            remedy = f"create the folder {self.path.parent} first"
        elif number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            remedy = "free some space or choose another place"
        else:
            remedy = "choose another place"
        reason = getattr(error, "strerror", None) or error
        return InputError(f"{self.path}: cannot be written ({reason}): {remedy}.")

    def _refuse_special(self) -> None:
        try:
            mode = self._target.stat().st_mode
        except FileNotFoundError:
            return
        if stat.S_ISDIR(mode):
            raise InputError(f"{self.path}: is a folder: give the name of a file to write.")
        if not stat.S_ISREG(mode):
            raise InputError(f"{self.path}: is not a regular file: give the name of a file.")
        if not os.access(self._target, os.W_OK):
            raise InputError(f"{self.path}: is write-protected: choose another name.")


def file_name(name: str) -> str:
    """Small letters and digits; whatever stands between them becomes one '-'.

    'GIN + rand id' is 'gin-rand-id', the cell '4 12' is '4-12'.
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary name beside `path`; renamed to it on success, removed on failure."""
    new = Replacement(path)
    try:
        yield new.part
        new.commit()
    except OSError as error:
        raise new.failure(error) from error
    finally:
        new.discard()


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_texts({path: text})


def write_texts(texts: Mapping[str | Path, str]) -> None:
    """Write several text files; if one of them cannot be written, none is."""
    with contextlib.ExitStack() as stack:
        for path, text in texts.items():
            beside = stack.enter_context(replacing(path))
            beside.write_text(text, encoding="utf-8", errors="backslashreplace")


@functools.cache
def _sweep(folder: Path) -> None:
    """Remove the part files of killed processes; once a folder, which may hold many files."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if _PART.fullmatch(name):
                with contextlib.suppress(OSError, AttributeError):  # Windows lacks the flags
                    _remove_unlocked(folder / name)


def _remove_unlocked(part: Path) -> None:
    file = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if _try_lock(file):
            part.unlink()
    finally:
        os.close(file)


def _try_lock(file: int) -> bool:
    """Whether the lock of an open file is ours now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, AttributeError):  # held by another process, or there are no locks here
        return False
    return True
