"""Read SDF and Mol files, also gzipped, as tables of SMILES and properties."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from smpgnn.data.tables import free_names
from smpgnn.data.text_tables import MAX_LINE, Cells, frames, opened_text
from smpgnn.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

#: Name of the column with the molecule itself.
SMILES = "smiles"
#: Stands for the SMILES of a record that has no readable structure.
UNREADABLE = "(unreadable structure)"
_ENDINGS = (".sdf", ".sd", ".mol")


def is_sdf(path: str | Path) -> bool:
    """Whether a file is an SDF or Mol file, by its name."""
    return str(path).casefold().removesuffix(".gz").endswith(_ENDINGS)


class SdfTable:
    """One row per record: the molecule as SMILES, the title, and the properties as text.

    The title is a column if a record has one; each property that a record has is a column, empty
    where others lack it. Rows are indexed by record from 1 (index name "record").
    """

    def __init__(self, file: Path, start: bytes) -> None:
        self.file, self._start = file, start
        found: dict[str, None] = {}
        titled = False
        for _, lines in self._records():
            titled = titled or bool(lines[0].strip())
            found |= dict.fromkeys(name for name, _ in _properties(lines))
        self._properties = list(found)
        first = [SMILES, "title"] if titled else [SMILES]
        self.names = (*first, *free_names(self._properties, first))

    def chunks(self, columns: tuple[str, ...], rows: int) -> Iterator[pd.DataFrame]:
        """These columns in frames of at most `rows` rows."""
        yield from frames(self._rows(columns), columns, rows, "record")

    def _rows(self, columns: tuple[str, ...]) -> Iterator[tuple[int, Cells]]:
        """The cells of each record, with its number."""
        renamed = dict(zip(self._properties, self.names[-len(self._properties) :], strict=False))
        for number, lines in self._records():
            values: dict[str, str] = {"title": lines[0].strip()}
            values |= {renamed[name]: value for name, value in _properties(lines)}
            if SMILES in columns:
                values[SMILES] = _smiles(lines)
            yield number, [values.get(name) or None for name in columns]

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """The lines of each record, and its number."""
        number, lines, characters = 1, list[str](), 0
        with opened_text(self.file, self._start) as stream:
            while line := stream.readline(MAX_LINE):
                characters += len(line)
                if characters > MAX_LINE:
                    raise InputError(
                        f"{self.file}, record {number} has more than {MAX_LINE:,} characters: "
                        "remove it."
                    )
                if not line.startswith("$$$$"):
                    lines.append(line.rstrip("\n"))
                    continue
                yield number, self._whole(number, lines)
                number, lines, characters = number + 1, [], 0
        if number == 1 or any(line.strip() for line in lines):
            yield number, self._whole(number, lines)

    def _whole(self, number: int, lines: list[str]) -> list[str]:
        """The lines of a record; the first one must look like a molecule."""
        if number == 1 and _end(lines) == len(lines):
            raise InputError(
                f"{self.file} is not an SDF or Mol file (its first record has no 'M  END'): check "
                "the file, or rename it if it is a table."
            )
        return lines or [""]


def _end(lines: list[str]) -> int:
    """The line that ends the structure of a record; the number of lines if there is none."""
    found = (row for row, line in enumerate(lines) if line.startswith("M  END"))
    return next(found, len(lines))


def _properties(lines: list[str]) -> Iterator[tuple[str, str]]:
    """The names and values of the properties of a record, '> <name>' and the lines below."""
    name, value, end = "", list[str](), _end(lines)
    for line in [*lines[4 if end == len(lines) else end :], ""]:
        if name and not line.strip():
            yield name, "\n".join(value).strip()
            name, value = "", []
        elif name:
            value.append(line)
        elif line.startswith(">") and "<" in line:
            name = line[line.index("<") + 1 :].rpartition(">")[0].strip()


def _smiles(lines: list[str]) -> str:
    """The SMILES of a record, `UNREADABLE` if it has no structure.

    That of an impossible molecule says why it is one when it is read.
    """
    from smpgnn.data.molecules import require_rdkit

    Chem = require_rdkit()
    from rdkit import rdBase

    end = _end(lines)
    if end == len(lines):
        return UNREADABLE
    block = "\n".join(lines[: end + 1])
    with rdBase.BlockLogs():
        try:
            molecule = Chem.MolFromMolBlock(block)
            if molecule is None:
                molecule = Chem.MolFromMolBlock(block, sanitize=False)
            text: str = "" if molecule is None else Chem.MolToSmiles(molecule)
        except (ValueError, RuntimeError):
            text = ""
    return text or UNREADABLE
