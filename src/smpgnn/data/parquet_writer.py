"""Write Parquet files atomically."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.data.table_writer import AtomicTableWriter
from smpgnn.errors import readable

if TYPE_CHECKING:
    import pandas as pd


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

        arrays = [self._array(frame[name], name) for name in self.columns]
        self._stream.write_table(pa.Table.from_arrays(arrays, schema=self._schema))

    def _array(self, column: pd.Series[Any], name: str) -> Any:
        import pyarrow as pa

        if name not in self.texts:
            return pa.array(column.to_numpy("float32"), from_pandas=True)
        missing = column.isna().to_numpy()
        cells = zip(column.tolist(), missing, strict=True)
        return pa.array([None if gap else readable(str(v)) for v, gap in cells], pa.string())
