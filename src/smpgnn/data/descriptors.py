"""Features of whole molecules: RDKit descriptors and columns of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from smpgnn.config.plain import from_plain
from smpgnn.data.columns import place, texts_of, to_numbers
from smpgnn.data.long_tables import descriptors_of
from smpgnn.data.molecule_features import RDKIT
from smpgnn.data.molecules import MoleculeTable
from smpgnn.data.tables import listing, require_columns
from smpgnn.errors import InputError, shown

if TYPE_CHECKING:
    import pandas as pd

#: The word that stands for the set of RDKit descriptors.
SET = "rdkit"
#: Larger numbers are surely mistakes; float32 could not hold their squares.
_LARGEST = 1e18


@dataclass(frozen=True)
class Descriptors:
    """RDKit descriptors by name, then columns of the table; both may be empty."""

    rdkit: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    @classmethod
    def named(cls, words: Sequence[str]) -> Descriptors:
        """From the words of `--descriptors`."""
        columns = tuple(word for word in words if word != SET)
        if len({*columns}) < len(columns):
            twice = next(name for name in columns if columns.count(name) > 1)
            raise InputError(f"--descriptors: column '{twice}' is given twice: name it once.")
        return cls(RDKIT if SET in words else (), columns)

    def __len__(self) -> int:
        return len(self.rdkit) + len(self.columns)

    def to_dict(self) -> dict[str, list[str]]:
        return {"rdkit": list(self.rdkit), "columns": list(self.columns)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Descriptors:
        return from_plain(cls, content, "source.descriptors")

    @classmethod
    def of_source(cls, source: Mapping[str, Any]) -> Descriptors:
        """Those that the source of a saved model names."""
        return cls.from_dict(source["descriptors"]) if "descriptors" in source else cls()

    def read(self, frame: pd.DataFrame, source: str) -> Tensor:
        """The columns as numbers, [rows, columns] in float64; a cell that is none is refused."""
        values, errors = self._read(frame, source)
        if errors:
            row = min(errors)
            raise InputError(
                f"{source}, {place(frame, row)}: {errors[row]}: fill it, or leave the row out."
            )
        return values

    def of(self, smiles: Sequence[object], columns: Tensor) -> Tensor:
        """The descriptors u [n, K] in float32, NaN if unknown; `columns` are those of `read`."""
        if self.rdkit:
            computed = torch.from_numpy(descriptors_of(smiles, self.rdkit))
            columns = torch.cat([computed, columns], dim=1)
        return columns.float()

    def add(self, found: MoleculeTable, count: int, table: pd.DataFrame | None) -> MoleculeTable:
        """Molecules with their descriptors; those without a number in a column become errors.

        `table` has all `count` rows, also those that are not molecules.
        """
        columns, errors = torch.empty(count, 0), dict[int, str]()
        if self.columns:
            if table is None:
                raise InputError(
                    f"this model also takes the columns {listing(self.columns)}: give a DataFrame "
                    "that has them."
                )
            columns, errors = self._read(table, "the table")
        rows = found.index.tolist()
        kept = [graph for graph, row in enumerate(rows) if row not in errors]
        store = found.store if len(kept) == len(rows) else found.store.select(kept)
        index = found.index[torch.tensor(kept, dtype=torch.long)]
        smiles = [found.smiles[graph] for graph in kept]
        u = self.of(smiles, columns[index])
        return MoleculeTable(replace(store, u=u), index, {**errors, **found.errors}, smiles)

    def _read(self, frame: pd.DataFrame, source: str) -> tuple[Tensor, dict[int, str]]:
        """The columns as numbers, and the reason for each row that lacks one."""
        require_columns(self.columns, list(frame.columns), source)
        values = np.empty((len(frame), len(self.columns)))
        errors: dict[int, str] = {}
        for number, name in enumerate(self.columns):
            values[:, number] = to_numbers(frame[name])
            wrong = np.flatnonzero(~(np.abs(values[:, number]) <= _LARGEST))
            for row, text in zip(wrong.tolist(), texts_of(frame[name].iloc[wrong]), strict=True):
                cell = f"'{shown(text)}', which is not a usable number" if text else "empty"
                errors.setdefault(row, f"the descriptor '{name}' is {cell}")
        return torch.from_numpy(values), errors
