"""Write Parquet files atomically: a file is complete or absent."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from smpgnn.errors import readable
from smpgnn.files import Replacement

if TYPE_CHECKING:
    import pandas as pd


class AtomicParquetWriter:
    """A context manager that appends frames to a Parquet file, as `AtomicCsvWriter` does.

    Args:
        path: of the file.
        columns: their names.
        texts: the columns of text; all others are float32.
    """

    def __init__(self, path: str | Path, columns: Sequence[str], texts: Sequence[str]) -> None:
        import pyarrow as pa

        self.path, self.columns, self.texts = Path(path), list(columns), {*texts}
        kinds = (pa.string() if name in self.texts else pa.float32() for name in self.columns)
        names = [readable(name) for name in self.columns]
        self._schema: Any = pa.schema(list(zip(names, kinds, strict=True)))
        self._writer: Any = None

    def __enter__(self) -> Self:
        import pyarrow.parquet as pq

        self._new = Replacement(self.path)
        with contextlib.ExitStack() as on_failure, self._new.reported():
            on_failure.callback(self._discard)
            self._writer = pq.ParquetWriter(self._new.part, self._schema)
            on_failure.pop_all()
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Append the writer's columns of `frame`."""
        import pyarrow as pa

        arrays = [self._array(frame[name], name) for name in self.columns]
        with self._new.reported():
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                with self._new.reported():
                    self._writer.close()
                self._new.commit()
        finally:
            self._discard()

    def _array(self, column: pd.Series[Any], name: str) -> Any:
        import pyarrow as pa

        if name not in self.texts:
            return pa.array(column.to_numpy("float32"), from_pandas=True)
        missing = column.isna().to_numpy()
        cells = zip(column.tolist(), missing, strict=True)
        return pa.array([None if gap else readable(str(v)) for v, gap in cells], pa.string())

    def _discard(self) -> None:
        # Closing writes the end of the file, which fails again on a full disk.
        with contextlib.suppress(OSError):
            if self._writer is not None:
                self._writer.close()
        self._new.discard()
