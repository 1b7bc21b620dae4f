"""Write Parquet files atomically."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.data.table_writer import AtomicTableWriter
from smpgnn.errors import readable

if TYPE_CHECKING:
    import pandas as pd

#: Rows of a row group.
_GROUP_ROWS = 1 << 16


class AtomicParquetWriter(AtomicTableWriter):
    """Writes Parquet.

    Args:
        path: of the file.
        columns: their names.
        texts: the columns of text; all others are float32.
    """

    def __init__(self, path: str | Path, columns: Sequence[str], texts: Sequence[str]) -> None:
        import pyarrow as pa

        super().__init__(path, columns)
        self.texts = {*texts}
        kinds = (pa.string() if name in self.texts else pa.float32() for name in self.columns)
        names = [readable(name) for name in self.columns]
        self._schema: Any = pa.schema(list(zip(names, kinds, strict=True)))

    def open(self, part: Path) -> None:
        import pyarrow.parquet as pq

        self._stream = pq.ParquetWriter(part, self._schema)

    def append(self, frame: pd.DataFrame) -> None:
        import pyarrow as pa

        arrays = [
            text_array(frame[name])
            if name in self.texts
            else pa.array(frame[name].to_numpy("float32"), from_pandas=True)
            for name in self.columns
        ]
        self._stream.write_table(pa.Table.from_arrays(arrays, schema=self._schema))


class AtomicArrowWriter(AtomicTableWriter):
    """Writes Arrow's record batches to Parquet, small ones together.

    Args:
        path: of the file.
        schema: Arrow's schema of the batches.
    """

    def __init__(self, path: str | Path, schema: Any) -> None:
        super().__init__(path, schema.names)
        self._schema, self._waiting = schema, list[Any]()

    def open(self, part: Path) -> None:
        import pyarrow.parquet as pq

        self._stream = pq.ParquetWriter(part, self._schema)

    def write(self, frame: Any) -> None:
        """Append a record batch."""
        self._waiting.append(frame)
        if sum(one.num_rows for one in self._waiting) >= _GROUP_ROWS:
            self._flush()

    def append(self, frame: Any) -> None:
        """Append a table."""
        self._stream.write_table(frame, row_group_size=_GROUP_ROWS)

    def finish(self, metadata: Mapping[str, str]) -> None:
        """Write what waits, and metadata to the end of the file."""
        self._flush()
        self._stream.add_key_value_metadata(metadata)

    def _flush(self) -> None:
        import pyarrow as pa

        if self._waiting:
            table = pa.Table.from_batches(self._waiting, schema=self._schema)
            self._waiting = []
            with self._new.reported():
                self.append(table)


def text_array(column: pd.Series[Any]) -> Any:
    """A column as Arrow's text."""
    import pyarrow as pa

    missing = column.isna().to_numpy()
    cells = zip(column.tolist(), missing, strict=True)
    return pa.array([None if gap else readable(str(v)) for v, gap in cells], pa.string())
