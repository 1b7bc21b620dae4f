"""Read Parquet tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.errors import InputError, reason, shown

if TYPE_CHECKING:
    import pandas as pd


class ParquetTable:
    """A table whose columns have types."""

    def __init__(self, file: Path) -> None:
        self.file = file
        with self._open() as table:
            try:
                self.names = tuple(table.schema_arrow.names)
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{file}: the name of a column is not UTF-8: rename it."
                ) from error
        if not self.names:
            raise InputError(f"{file} has no columns: give a table with columns.")

    def chunks(self, columns: tuple[str, ...], rows: int) -> Iterator[pd.DataFrame]:
        """These columns in frames of at most `rows` rows, indexed by row from 1."""
        import pandas as pd

        first = 1
        for batch in self.batches(columns, rows):
            index = pd.RangeIndex(first, first + batch.num_rows, name="row")
            yield self.frame(batch, columns).set_axis(index)
            first += batch.num_rows

    def batches(self, columns: tuple[str, ...], rows: int) -> Iterator[Any]:
        """These columns in Arrow's record batches of 1 to `rows` rows."""
        with self._open() as table:
            batches = table.iter_batches(rows, columns=list(columns))
            while True:
                with self._sound():
                    batch = next(batches, None)
                if batch is None:
                    return
                if batch.num_rows:
                    yield batch

    def frame(self, batch: Any, columns: Sequence[str]) -> pd.DataFrame:
        """Columns of a record batch."""
        import pandas as pd

        values = {name: self._column(batch, name) for name in columns}
        return pd.DataFrame(values, columns=list(columns))

    def schema(self) -> Any:
        """Arrow's schema of the file."""
        with self._open() as table, self._sound():
            return table.schema_arrow

    def _open(self) -> Any:
        import pyarrow.parquet as pq

        with self._sound():
            return pq.ParquetFile(self.file)

    @contextlib.contextmanager
    def _sound(self) -> Iterator[None]:
        """Refuse the file if Arrow finds an error in it."""
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{self.file} is a damaged Parquet file: create it again.") from error

    def _column(self, batch: Any, name: str) -> pd.Series[Any]:
        """Read a single column, without the pandas metadata of the table, which may be damaged."""
        try:
            column = batch.column(name)
            column.validate(full=True)  # pandas may decode texts much later
            # Integers with missing values remain integers: as floats they would lose digits.
            values: pd.Series[Any] = column.to_pandas(integer_object_nulls=True)
            if values.dtype.kind == "M":  # pandas cannot write years above 9999 in a time zone
                _ = str(values.min()), str(values.max())
        except Exception as error:  # text that is not UTF-8, dates out of range, unknown zones, …
            raise InputError(
                f"{self.file}, column '{shown(name)}' of type {batch.schema.field(name).type} "
                f"cannot be read ({reason(error)}): convert or remove it."
            ) from error
        return values
