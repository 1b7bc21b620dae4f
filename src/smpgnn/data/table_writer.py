"""Write tables atomically: a file is complete or absent."""

from __future__ import annotations

import contextlib
import csv
import gzip
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from smpgnn.files import Replacement

if TYPE_CHECKING:
    import pandas as pd


class AtomicTableWriter(ABC):
    """A context manager that appends frames to a temporary file next to `path`.

    The file is renamed to `path` when the block succeeds and removed when it fails, so an interrupt
    leaves the old file unchanged.
    """

    def __init__(self, path: str | Path, columns: Sequence[str]) -> None:
        self.path, self.columns = Path(path), list(columns)
        self._stream: Any = None

    @abstractmethod
    def open(self, part: Path) -> None:
        """Open the temporary file as `_stream`, and write what comes before the rows."""

    @abstractmethod
    def append(self, frame: pd.DataFrame) -> None:
        """Append the writer's columns of `frame`; the index is not written."""

    def __enter__(self) -> Self:
        self._new = Replacement(self.path)
        with contextlib.ExitStack() as on_failure, self._new.reported():
            on_failure.callback(self._discard)
            self.open(self._new.part)
            on_failure.pop_all()
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Append the writer's columns of `frame`; the index is not written."""
        if self._stream is None:
            raise RuntimeError(f"{type(self).__name__} is used outside its with block.")
        with self._new.reported():
            self.append(frame[self.columns])

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._stream is not None:
                with self._new.reported():
                    self._stream.close()
                self._new.commit()
        finally:
            self._discard()

    def _discard(self) -> None:
        # Closing writes the end of the file, which fails again on a full disk.
        with contextlib.suppress(OSError):
            if self._stream is not None:
                self._stream.close()
        self._new.discard()


class AtomicCsvWriter(AtomicTableWriter):
    """Writes CSV; a file name ending in .gz means gzip, one with .tsv means tabs."""

    def open(self, part: Path) -> None:
        import pandas as pd

        # Names may contain lone surrogates, which UTF-8 cannot encode.
        options: Any = {"encoding": "utf-8", "newline": "", "errors": "backslashreplace"}
        opened: Any = gzip.open if self.path.suffix == ".gz" else Path.open
        self._stream = opened(part, "wt", **options)
        self.append(pd.DataFrame(columns=self.columns), header=True)

    def append(self, frame: pd.DataFrame, header: bool = False) -> None:
        # Python's csv does not quote a lone carriage return, at which readers end the row.
        texts = frame.select_dtypes(exclude="number")
        risky = any("\r" in str(cell) for name in texts for cell in texts[name])
        frame.to_csv(
            self._stream,
            index=False,
            header=header,
            sep="\t" if ".tsv" in self.path.suffixes else ",",
            lineterminator="\n",
            quoting=csv.QUOTE_NONNUMERIC if risky else csv.QUOTE_MINIMAL,
        )
