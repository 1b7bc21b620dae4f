"""Writing a CSV file that is either complete or not there."""

from __future__ import annotations

import csv
import gzip
import io
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from smpgnn.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


class AtomicCsvWriter:
    """A context manager that appends frames to a temporary file beside `path`.

    The file takes its name when the block ends well and is removed when it does not, so an
    interrupted run leaves what was there before. A name that ends in .gz is compressed, one with
    .tsv in it is separated by tabs.
    """

    def __init__(self, path: str | Path, columns: Sequence[str]) -> None:
        # A link keeps pointing at its file: the file is what is replaced.
        self.path = Path(path).resolve()
        self.columns = list(columns)
        self.rows = 0
        self._separator = "\t" if ".tsv" in self.path.suffixes else ","
        self._part = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.part")
        self._stream: io.TextIOBase | None = None

    def __enter__(self) -> Self:
        import pandas as pd

        if self.path.is_dir():
            raise InputError(f"{self.path} is a folder: give the name of a file to write.")
        if self.path.exists() and not self.path.is_file():
            raise InputError(f"{self.path} is not a regular file: give the name of a file.")
        if not self.path.parent.is_dir():
            raise InputError(f"{self.path} cannot be written: create {self.path.parent} first.")
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise InputError(f"{self.path} cannot be written: it is write-protected.")
        try:
            if self.path.suffix == ".gz":
                self._stream = gzip.open(self._part, "xt", encoding="utf-8", newline="")
            else:
                self._stream = self._part.open("x", encoding="utf-8", newline="")
            self._append(pd.DataFrame(columns=self.columns), header=True)
        except OSError as error:
            self._discard()
            raise self._failure(error) from error
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Append the writer's columns of `frame`; the index is not written."""
        try:
            self._append(frame[self.columns], header=False)
        except OSError as error:
            raise self._failure(error) from error
        self.rows += len(frame)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            assert self._stream is not None
            self._stream.close()
            self._part.replace(self.path)
        except OSError as failure:
            self._discard()
            raise self._failure(failure) from failure

    def _append(self, frame: pd.DataFrame, header: bool) -> None:
        if self._stream is None:
            raise RuntimeError("AtomicCsvWriter is used outside its with block.")
        # Python's csv leaves a lone carriage return without quotes, and readers end the row there.
        texts = frame.select_dtypes(exclude="number")
        risky = any("\r" in str(cell) for name in texts for cell in texts[name])
        frame.to_csv(
            self._stream,
            index=False,
            header=header,
            sep=self._separator,
            lineterminator="\n",
            quoting=csv.QUOTE_NONNUMERIC if risky else csv.QUOTE_MINIMAL,
        )

    def _discard(self) -> None:
        try:
            if self._stream is not None:
                self._stream.close()
        except OSError:
            pass  # closing flushes, which fails again on a full disk; the file goes anyway
        finally:
            self._part.unlink(missing_ok=True)

    def _failure(self, error: OSError) -> InputError:
        return InputError(
            f"{self.path} cannot be written ({error.strerror or error}): "
            "free some space or choose another place."
        )
