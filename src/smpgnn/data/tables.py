"""Read tables (CSV, TSV, SDF, also gzipped, or Parquet), completely or in chunks.

The cells of a text table remain text, and only empty cells are missing: 'N', 'NA' and 'NaN' are
not ('N' is a molecule). Rows are indexed by the line of the file on which they begin (index name
"line"), Parquet rows by their number from 1 (index name "row"), records of an SDF likewise (index
name "record"), so that messages can name them.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from smpgnn.data.parquet_tables import ParquetTable
from smpgnn.data.text_tables import TextTable
from smpgnn.errors import InputError, nearest, shown

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.data.sdf import SdfTable

    #: A table in a file or in memory.
    Table = str | Path | pd.DataFrame


def table_columns(path: Table, *, separator: str | None = None) -> tuple[str, ...]:
    """The column names of a table, in order."""
    return (
        open_table(path, separator).names if isinstance(path, str | Path) else tuple(path.columns)
    )


def table_name(table: Table) -> str:
    """What messages call a table."""
    return str(table) if isinstance(table, str | Path) else "the DataFrame"


def read_table(
    path: str | Path, columns: Sequence[str] | None = None, *, separator: str | None = None
) -> pd.DataFrame:
    """Read a table, or the given columns in the given order."""
    import pandas as pd

    chunks = list(stream_table(path, columns, chunk_rows=65_536, separator=separator))
    return chunks[0] if len(chunks) == 1 else pd.concat(chunks)


def stream_table(
    path: str | Path,
    columns: Sequence[str] | None = None,
    *,
    chunk_rows: int = 10_000,
    separator: str | None = None,
) -> Iterator[pd.DataFrame]:
    """Read a table in frames of at most `chunk_rows` rows, one at a time.

    The last frame, and frames with very long cells, have fewer rows. The call checks the file and
    its columns; the iterator reads the rows.
    """
    if chunk_rows < 1:
        raise InputError(f"chunk_rows is {chunk_rows}, but must be at least 1.")
    table = open_table(path, separator)
    chosen = table.names if columns is None else require_columns(columns, table.names, path)

    def nonempty() -> Iterator[pd.DataFrame]:
        chunk = None
        for chunk in table.chunks(chosen, chunk_rows):
            yield chunk
        if chunk is None:
            raise InputError(f"{path} has a header but no rows: add rows.")

    return nonempty()


def open_table(
    path: str | Path, separator: str | None = None
) -> TextTable | ParquetTable | SdfTable:
    """A table in a file, whose `names` are those of its columns and whose `chunks` are its rows."""
    from smpgnn.data.sdf import SdfTable, is_sdf

    file = existing_file(path)
    with file.open("rb") as stream:
        start = stream.read(4)
    table: TextTable | ParquetTable | SdfTable
    if is_sdf(file):
        table = SdfTable(file, start)
    elif start == b"PAR1":
        table = ParquetTable(file)
    else:
        table = TextTable(file, start, separator)
    twice = sorted({name for name in table.names if table.names.count(name) > 1})
    if twice:
        raise InputError(f"{file} has several columns named {listing(twice)}: rename them.")
    return table


def existing_file(path: str | Path) -> Path:
    """Check that a file is readable and not empty, and return its path."""
    file = Path(path)
    try:
        mode = file.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # opening a pipe may block forever
            raise InputError(f"{file} is a pipe or device: save its content to a file first.")
        if stat.S_ISDIR(mode):
            raise InputError(f"{file} is a folder: give the path of a file in it.")
        with file.open("rb") as stream:
            first = stream.read(1)
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{file} does not exist: check the path.") from error
    except (OSError, ValueError) as error:  # ValueError: invalid file name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{file} cannot be opened ({reason}): check the path.") from error
    if not first:
        raise InputError(f"{file} is empty: give a file with content.")
    return file


def require_columns(
    wanted: Sequence[str], available: Sequence[str], where: str | Path
) -> tuple[str, ...]:
    """`wanted` as a tuple; an InputError if a column is missing or repeated."""
    if isinstance(wanted, str):
        raise InputError(f"The columns must be a list of names, not the text '{wanted}'.")
    for number, name in enumerate(wanted):
        if name in wanted[:number]:
            raise InputError(f"{where}: column '{name}' is given twice: name it once.")
        if name not in available:
            near = nearest(str(name), available)
            hint = f" (did you mean '{near}'?)" if near else ""
            raise InputError(
                f"{where} has no column '{name}'{hint}: its columns are {listing(available)}."
            )
    return tuple(wanted)


def select_columns(frame: pd.DataFrame, columns: Sequence[str], where: str) -> pd.DataFrame:
    """The given columns of a table in memory; rows are numbered from 1, as those of a file."""
    import pandas as pd

    names = frame.columns.tolist()
    chosen = require_columns(columns, names, where)
    twice = [name for name in chosen if names.count(name) > 1]
    if twice:
        raise InputError(f"{where} has several columns named {listing(twice)}: rename them.")
    if frame.empty:
        raise InputError(f"{where} has no rows: add rows.")
    part = frame[list(chosen)]
    if frame.index.name in ("line", "row", "record"):  # already numbered
        return part
    return part.set_axis(pd.RangeIndex(1, len(frame) + 1, name="row"))


def free_names(wanted: Sequence[str], taken: Iterable[str] = ()) -> list[str]:
    """Names of new columns; a name that is already taken gets the suffix '_2', '_3', …"""
    used = set(taken)
    names = []
    for name in wanted:
        free, number = name, 1
        while free in used:
            number += 1
            free = f"{name}_{number}"
        used.add(free)
        names.append(free)
    return names


def listing(names: Sequence[object], limit: int = 20) -> str:
    """Quoted names, separated by commas, at most `limit`."""
    text = ", ".join(f"'{shown(str(name))}'" for name in names[:limit])
    return text if len(names) <= limit else f"{text} and {len(names) - limit} more"
