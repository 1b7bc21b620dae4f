"""Read tables (CSV, TSV, also gzipped, or Parquet), completely or in chunks.

The cells of a text table remain text, and only empty cells are missing: 'N', 'NA' and 'NaN' are
not ('N' is a molecule). Rows are indexed by the line of the file on which they begin (index name
"line"), Parquet rows by their number from 1 (index name "row"), so that messages can name them.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import gzip
import io
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from smpgnn.errors import InputError, shown

if TYPE_CHECKING:
    import pandas as pd

#: Yields the chosen columns in frames of so many rows.
Chunks = Callable[[tuple[str, ...], int], Iterator["pd.DataFrame"]]

SEPARATORS = (",", ";", "\t")
_SAMPLE_BYTES = 1 << 16
_SAMPLE_RECORDS = 50
# Maximum characters of a cell and of a line.
_MAX_LINE = 1 << 24
# Maximum characters of a chunk.
_CHUNK_CHARACTERS = 1 << 26
# Exceptions for files that are not (complete) text.
_UNREADABLE = (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error)


def table_columns(path: str | Path, *, separator: str | None = None) -> tuple[str, ...]:
    """The column names of a table, in order."""
    return _open(existing_file(path), separator)[0]


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
    file = existing_file(path)
    names, chunks = _open(file, separator)
    chosen = names if columns is None else require_columns(columns, names, file)

    def nonempty() -> Iterator[pd.DataFrame]:
        chunk = None
        for chunk in chunks(chosen, chunk_rows):
            yield chunk
        if chunk is None:
            raise InputError(f"{file} has a header but no rows: add rows.")

    return nonempty()


def _open(file: Path, separator: str | None) -> tuple[tuple[str, ...], Chunks]:
    """The column names of a table, and what reads chosen columns in chunks."""
    with file.open("rb") as stream:
        parquet = stream.read(4) == b"PAR1"
    if parquet:
        names, chunks = _parquet_columns(file), partial(_parquet_chunks, file)
    else:
        names, separator = _header(file, separator)
        chunks = partial(_text_chunks, file, names, separator)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{file} has several columns named {listing(twice)}: rename them.")
    return names, chunks


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
            by_small = {other.casefold(): other for other in reversed(available)}
            close = difflib.get_close_matches(str(name).casefold(), by_small, n=1)
            hint = f" (did you mean '{by_small[close[0]]}'?)" if close else ""
            raise InputError(
                f"{where} has no column '{name}'{hint}: its columns are {listing(available)}."
            )
    return tuple(wanted)


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


# Text tables


def _text_chunks(
    file: Path, names: tuple[str, ...], separator: str, chosen: tuple[str, ...], chunk_rows: int
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    positions = [names.index(name) for name in chosen]
    rows: list[list[str | None]] = []
    lines: list[int] = []
    characters = 0

    def frame() -> pd.DataFrame:
        index = pd.Index(lines, name="line")
        return pd.DataFrame(rows, columns=list(chosen), index=index, dtype="string")

    with _open_text(file) as stream:
        records = _records(stream, file, separator)
        next(records)
        for line, record in records:
            if len(record) != len(names):
                raise InputError(
                    f"{file}, line {line}: {len(record)} cells, but the header has "
                    f"{len(names)}: fix the line (quote cells that contain the separator)."
                )
            rows.append([record[position] or None for position in positions])
            lines.append(line)
            characters += sum(map(len, record))
            if len(rows) == chunk_rows or characters > _CHUNK_CHARACTERS:
                yield frame()
                rows, lines, characters = [], [], 0
    if rows:
        yield frame()


def _records(stream: IO[str], file: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Each record except blank lines, with the line on which it begins."""
    # strict: an unclosed quote is an error and does not swallow the rest of the file.
    reader = csv.reader(_lines(stream, file), delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        # A global setting, so change it for this record only.
        usual = csv.field_size_limit(_MAX_LINE)
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{file}, line {line}: the row cannot be read ({error}): check its quotation marks."
            ) from error
        except _UNREADABLE as error:
            raise _no_text(file) from error
        except OSError as error:
            raise InputError(
                f"{file}, line {line}: the file cannot be read ({error.strerror or error}): copy "
                "it to another disk."
            ) from error
        finally:
            csv.field_size_limit(usual)
        if record:
            yield line, record


def _lines(stream: IO[str], file: Path) -> Iterator[str]:
    """The lines of a stream, of limited length."""
    number = 1
    while line := stream.readline(_MAX_LINE):
        if len(line) == _MAX_LINE:
            raise InputError(
                f"{file}, line {number} has more than {_MAX_LINE:,} characters: give a table."
            )
        yield line
        number += 1


def _header(file: Path, separator: str | None) -> tuple[tuple[str, ...], str]:
    """Column names and separator of a text table."""
    sample = _sample(file)  # refuses files that are no text tables
    if separator is None:
        separator = _sniff(sample, file)
    elif len(separator) != 1 or separator in '\r\n"':
        raise InputError(f"The separator must be one character, not {shown(repr(separator))}.")
    with _open_text(file) as stream:
        _, cells = next(_records(stream, file, separator))
    names = tuple(cell.strip() or f"Unnamed: {number}" for number, cell in enumerate(cells))
    if len(names) == 1:
        for other in SEPARATORS:
            if other != separator and other in names[0]:
                raise InputError(
                    f"{file} has only one column, '{names[0]}': its separator seems to be "
                    f"{other!r}, not {separator!r}."
                )
    return names, separator


def _sniff(sample: str, file: Path) -> str:
    """The separator that splits header and rows into equally many cells, more than one."""
    best, best_score = "\t" if ".tsv" in file.suffixes else ",", (0.0, 0)
    for separator in SEPARATORS:
        widths: list[int] = []
        try:
            for _, record in _records(io.StringIO(sample), file, separator):
                widths.append(len(record))
                if len(widths) == _SAMPLE_RECORDS:
                    break
        except InputError:
            pass  # a wrong separator may break quotes, and the sample may end inside one
        if widths and widths[0] > 1:
            score = (widths.count(widths[0]) / len(widths), widths[0])
            if score > best_score:
                best, best_score = separator, score
    return best


def _sample(file: Path) -> str:
    """The first lines of the file; an InputError if it is not a text table."""
    with file.open("rb") as raw:
        start = raw.read(4)
    if start.startswith(b"PK\x03\x04"):
        raise InputError(f"{file} is a spreadsheet or zip archive: save the table as CSV.")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{file} is UTF-16 text: save it as UTF-8.")
    try:
        with _open_text(file) as stream:
            sample = stream.read(_SAMPLE_BYTES)
    except _UNREADABLE as error:
        raise _no_text(file) from error
    if "\0" in sample:
        raise InputError(f"{file} is not a table: give CSV, TSV (also gzipped) or Parquet.")
    if not sample.strip():
        raise InputError(f"{file} contains only blanks: give a table with a header.")
    return sample


def _open_text(file: Path) -> IO[str]:
    with file.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
    if zipped:
        return gzip.open(file, "rt", encoding="utf-8-sig", newline="")
    return file.open(encoding="utf-8-sig", newline="")


def _no_text(file: Path) -> InputError:
    return InputError(
        f"{file} cannot be read as UTF-8 text (or is a damaged gzip file): "
        "save the table as UTF-8 CSV or as Parquet."
    )


# Parquet


def _parquet(file: Path) -> Any:
    import pyarrow.parquet as pq

    with _sound(file):
        return pq.ParquetFile(file)


@contextlib.contextmanager
def _sound(file: Path) -> Iterator[None]:
    """Refuse a file in which Arrow finds an error."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{file} is a damaged Parquet file: create it again.") from error


def _parquet_columns(file: Path) -> tuple[str, ...]:
    with _parquet(file) as table:
        try:
            names = tuple(table.schema_arrow.names)
        except UnicodeDecodeError as error:
            raise InputError(f"{file}: the name of a column is not UTF-8: rename it.") from error
    if not names:
        raise InputError(f"{file} has no columns: give a table with columns.")
    return names


def _parquet_chunks(file: Path, chosen: tuple[str, ...], chunk_rows: int) -> Iterator[pd.DataFrame]:
    import pandas as pd

    first = 1
    with _parquet(file) as table:
        batches = table.iter_batches(chunk_rows, columns=list(chosen))
        while True:
            with _sound(file):
                batch = next(batches, None)
            if batch is None:
                return
            index = pd.RangeIndex(first, first + batch.num_rows, name="row")
            columns = {name: _column(batch, name, file) for name in chosen}
            frame = pd.DataFrame(columns, columns=list(chosen)).set_axis(index)
            first += len(frame)
            if len(frame):
                yield frame


def _column(batch: Any, name: str, file: Path) -> pd.Series[Any]:
    """Read a single column, without the pandas metadata of the table, which may be damaged."""
    try:
        column = batch.column(name)
        column.validate(full=True)  # pandas may decode texts much later
        # Integers with missing values remain integers: as floats they would lose digits.
        values: pd.Series[Any] = column.to_pandas(integer_object_nulls=True)
        if values.dtype.kind == "M":  # pandas cannot write years above 9999 in a time zone
            _ = str(values.min()), str(values.max())
    except Exception as error:  # text that is not UTF-8, dates out of range, unknown time zones, …
        reason = shown(f"{type(error).__name__}: {error}", 120).rstrip(".")
        raise InputError(
            f"{file}, column '{shown(name)}' of type {batch.schema.field(name).type} cannot be "
            f"read ({reason}): convert or remove it."
        ) from error
    return values
