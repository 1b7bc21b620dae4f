"""Write CSV files atomically: a file is complete or absent."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from smpgnn.files import Replacement

if TYPE_CHECKING:
    import pandas as pd


class AtomicCsvWriter:
    """A context manager that appends frames to a temporary file next to `path`.

    The file is renamed to `path` when the block succeeds and removed when it fails, so an interrupt
    leaves the old file unchanged. A file name ending in .gz means gzip, one with .tsv means tabs.
    """

    def __init__(self, path: str | Path, columns: Sequence[str]) -> None:
        self.path = Path(path)
        self.columns = list(columns)
        self.rows = 0
        self._separator = "\t" if ".tsv" in self.path.suffixes else ","
        self._stream: io.TextIOBase | None = None

    def __enter__(self) -> Self:
        import pandas as pd

        self._new = Replacement(self.path)
        # Names may contain lone surrogates, which UTF-8 cannot encode.
        options: Any = {"encoding": "utf-8", "newline": "", "errors": "backslashreplace"}
        with contextlib.ExitStack() as on_failure, self._new.reported():
            on_failure.callback(self._discard)
            if self.path.suffix == ".gz":
                self._stream = gzip.open(self._new.part, "wt", **options)
            else:
                self._stream = self._new.part.open("w", **options)
            self._append(pd.DataFrame(columns=self.columns), header=True)
            on_failure.pop_all()
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Append the writer's columns of `frame`; the index is not written."""
        if self._stream is None:
            raise RuntimeError("AtomicCsvWriter is used outside its with block.")
        with self._new.reported():
            self._append(frame[self.columns], header=False)
        self.rows += len(frame)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._stream is not None:
                with self._new.reported():
                    self._stream.close()
                self._new.commit()
        finally:
            self._discard()

    def _append(self, frame: pd.DataFrame, header: bool) -> None:
        # Python's csv does not quote a lone carriage return, at which readers end the row.
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
        # Closing flushes the file, which fails again on a full disk.
        with contextlib.suppress(OSError):
            if self._stream is not None:
                self._stream.close()
        self._new.discard()
