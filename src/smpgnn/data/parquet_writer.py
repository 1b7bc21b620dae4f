"""Write Parquet files atomically: a file is complete or absent."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from smpgnn.errors import readable
from smpgnn.files import Replacement

if TYPE_CHECKING:
    import pandas as pd

#: Rows of a row group.
_GROUP_ROWS = 1 << 16


class AtomicArrowWriter:
    """A context manager that appends record batches to a Parquet file, as `AtomicCsvWriter` does.

    Args:
        path: of the file.
        schema: Arrow's schema of the batches.
    """

    def __init__(self, path: str | Path, schema: Any) -> None:
        self.path, self.schema = Path(path), schema
        self._writer: Any = None
        self._waiting: list[Any] = []

    def __enter__(self) -> Self:
        import pyarrow.parquet as pq

        self._new = Replacement(self.path)
        with contextlib.ExitStack() as on_failure, self._new.reported():
            on_failure.callback(self._discard)
            self._writer = pq.ParquetWriter(self._new.part, self.schema)
            on_failure.pop_all()
        return self

    def write_batch(self, batch: Any) -> None:
        """Append a record batch; small ones are written together."""
        self._waiting.append(batch)
        if sum(one.num_rows for one in self._waiting) >= _GROUP_ROWS:
            self._flush()

    def add_metadata(self, values: Mapping[str, str]) -> None:
        """Add metadata to the end of the file."""
        self._writer.add_key_value_metadata(values)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._flush()
                with self._new.reported():
                    self._writer.close()
                self._new.commit()
        finally:
            self._discard()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._waiting:
            table = pa.Table.from_batches(self._waiting, schema=self.schema)
            self._waiting = []
            with self._new.reported():
                self._writer.write_table(table, row_group_size=_GROUP_ROWS)

    def _discard(self) -> None:
        # Closing writes the end of the file, which fails again on a full disk.
        with contextlib.suppress(OSError):
            if self._writer is not None:
                self._writer.close()
        self._new.discard()


class AtomicParquetWriter(AtomicArrowWriter):
    """The same for frames.

    Args:
        path: of the file.
        columns: their names.
        texts: the columns of text; all others are float32.
    """

    def __init__(self, path: str | Path, columns: Sequence[str], texts: Sequence[str]) -> None:
        import pyarrow as pa

        self.columns, self.texts = list(columns), {*texts}
        kinds = (pa.string() if name in self.texts else pa.float32() for name in self.columns)
        names = [readable(name) for name in self.columns]
        super().__init__(path, pa.schema(list(zip(names, kinds, strict=True))))

    def write(self, frame: pd.DataFrame) -> None:
        """Append the writer's columns of `frame`."""
        import pyarrow as pa

        arrays = [
            text_array(frame[name])
            if name in self.texts
            else pa.array(frame[name].to_numpy("float32"), from_pandas=True)
            for name in self.columns
        ]
        self.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self.schema))


def text_array(column: pd.Series[Any]) -> Any:
    """A column as Arrow's text."""
    import pyarrow as pa

    missing = column.isna().to_numpy()
    cells = zip(column.tolist(), missing, strict=True)
    return pa.array([None if gap else readable(str(v)) for v, gap in cells], pa.string())
