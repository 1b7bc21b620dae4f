"""Read CSV and TSV tables, also gzipped, in bounded time and memory."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from smpgnn.errors import InputError, shown

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = (",", ";", "\t")
_SAMPLE_BYTES = 1 << 16
_SAMPLE_RECORDS = 50
#: Maximum characters of a cell and of a line.
MAX_LINE = 1 << 24
#: Maximum characters of a chunk.
MAX_CHUNK = 1 << 26
#: The cells of a row; None if empty.
Cells = list[str | None]


def frames(
    rows: Iterable[tuple[int, Cells]], columns: tuple[str, ...], most: int, index: str
) -> Iterator[pd.DataFrame]:
    """Numbered rows in frames of at most `most` rows and about `MAX_CHUNK` characters."""
    import pandas as pd

    found: list[tuple[int, Cells]] = []
    characters = 0

    def frame() -> pd.DataFrame:
        numbers, cells = zip(*found, strict=True)
        places = pd.Index(numbers, name=index)
        return pd.DataFrame(cells, columns=list(columns), index=places, dtype="string")

    for row in rows:
        found.append(row)
        characters += sum(len(cell) for cell in row[1] if cell)
        if len(found) == most or characters > MAX_CHUNK:
            yield frame()
            found, characters = [], 0
    if found:
        yield frame()


@contextlib.contextmanager
def opened_text(file: Path, start: bytes, newline: str | None = None) -> Iterator[IO[str]]:
    """A file of text that begins with these bytes, also gzipped; faulty ones are refused inside."""
    opener: Any = gzip.open if start.startswith(b"\x1f\x8b") else open
    try:
        with opener(file, "rt", encoding="utf-8-sig", newline=newline) as stream:
            yield stream
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(
            f"{file} cannot be read as UTF-8 text (or is a damaged gzip file): save it as UTF-8."
        ) from error
    except OSError as error:
        raise InputError(
            f"{file} cannot be read ({error.strerror or error}): copy it to another disk."
        ) from error


class TextTable:
    """A table whose cells are text; only empty cells are missing.

    Args:
        start: the first bytes of the file.
        separator: by default the one of `SEPARATORS` that fits best.
    """

    def __init__(self, file: Path, start: bytes, separator: str | None = None) -> None:
        if start.startswith(b"PK\x03\x04"):
            raise InputError(f"{file} is a spreadsheet or zip archive: save the table as CSV.")
        if start.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError(f"{file} is UTF-16 text: save it as UTF-8.")
        self.file, self._start = file, start
        sample = self._sample()
        if separator is None:
            separator = self._sniff(sample)
        elif len(separator) != 1 or separator in '\r\n"':
            raise InputError(f"The separator must be one character, not {shown(repr(separator))}.")
        self.separator = separator
        with self._open() as stream:
            _, cells = next(self._records(stream, separator))
        names = tuple(cell.strip() or f"Unnamed: {number}" for number, cell in enumerate(cells))
        for other in SEPARATORS:
            if len(names) == 1 and other != separator and other in names[0]:
                raise InputError(
                    f"{file} has only one column, '{names[0]}': its separator seems to be "
                    f"{other!r}, not {separator!r}."
                )
        self.names = names

    def chunks(self, columns: tuple[str, ...], rows: int) -> Iterator[pd.DataFrame]:
        """These columns in frames of at most `rows` rows, indexed by line."""
        positions = [self.names.index(name) for name in columns]
        with self._open() as stream:
            yield from frames(self._rows(stream, positions), columns, rows, "line")

    def _rows(self, stream: IO[str], positions: list[int]) -> Iterator[tuple[int, Cells]]:
        """The cells at these positions of each record, with its line."""
        records = self._records(stream, self.separator)
        next(records)
        for line, record in records:
            if len(record) != len(self.names):
                raise InputError(
                    f"{self.file}, line {line}: {len(record)} cells, but the header has "
                    f"{len(self.names)}: fix the line (quote cells that contain the separator)."
                )
            yield line, [record[position] or None for position in positions]

    def _open(self) -> contextlib.AbstractContextManager[IO[str]]:
        return opened_text(self.file, self._start, newline="")

    def _records(self, stream: IO[str], separator: str) -> Iterator[tuple[int, list[str]]]:
        """Each record except blank lines, with the line on which it begins."""
        # strict: an unclosed quote is an error and does not swallow the rest of the file.
        reader = csv.reader(self._lines(stream), delimiter=separator, strict=True)
        while True:
            line = reader.line_num + 1
            # A global setting, so change it for this record only.
            usual = csv.field_size_limit(MAX_LINE)
            try:
                record = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise InputError(
                    f"{self.file}, line {line}: the row cannot be read ({error}): check its "
                    "quotation marks."
                ) from error
            finally:
                csv.field_size_limit(usual)
            if record:
                yield line, record

    def _lines(self, stream: IO[str]) -> Iterator[str]:
        """The lines of a stream, of limited length."""
        number = 1
        while line := stream.readline(MAX_LINE):
            if len(line) == MAX_LINE:
                raise InputError(
                    f"{self.file}, line {number} has more than {MAX_LINE:,} characters: give a "
                    "table."
                )
            yield line
            number += 1

    def _sample(self) -> str:
        """The first lines; an InputError if they are not text."""
        with self._open() as stream:
            sample = stream.read(_SAMPLE_BYTES)
        if "\0" in sample:
            raise InputError(
                f"{self.file} is not a table: give CSV, TSV (also gzipped) or Parquet."
            )
        if not sample.strip():
            raise InputError(f"{self.file} contains only blanks: give a table with a header.")
        return sample

    def _sniff(self, sample: str) -> str:
        """The separator that splits header and rows into equally many cells, more than one."""
        best, best_score = "\t" if ".tsv" in self.file.suffixes else ",", (0.0, 0)
        for separator in SEPARATORS:
            widths: list[int] = []
            try:
                for _, record in self._records(io.StringIO(sample), separator):
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
