"""Whether a molecule is like those of training: the training molecule nearest to it.

Similarity is the Tanimoto coefficient of Morgan fingerprints, 1 for equal fingerprints and 0 for
nothing in common. A run stores the fingerprints, so it needs its table no more.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from smpgnn.checksums import safetensors_fits, seal_safetensors, sealed_metadata
from smpgnn.data.long_tables import packed_fingerprints
from smpgnn.data.molecule_features import BITS, molecules_of, morgan_generator
from smpgnn.data.molecules import MAX_CHARACTERS
from smpgnn.errors import InputError
from smpgnn.files import replacing
from smpgnn.pretrained import model_path

if TYPE_CHECKING:
    import pandas as pd

#: The file in a run folder.
FILE = "domain.safetensors"
_FORMAT = "smpgnn domain 1"
_BYTES = BITS // 8
_LONGEST = 12 * MAX_CHARACTERS + 4  # bytes of a SMILES in JSON, at most


@dataclass(frozen=True, eq=False)
class Domain:
    """The training molecules of a model.

    Args:
        fingerprints: packed bits, [n, BITS / 8].
        smiles: as in the table, [n].
        rows: of the table, counted from 0, [n].
    """

    fingerprints: NDArray[np.uint8]
    smiles: tuple[str, ...]
    rows: NDArray[np.int64]

    #: The columns that describe the nearest training molecule.
    columns: ClassVar[tuple[str, ...]] = ("similarity", "nearest", "nearest_row")

    @classmethod
    def of(cls, smiles: Sequence[str], rows: Sequence[int]) -> Domain:
        """The domain of a model trained on these molecules, from these rows of its table."""
        return cls(packed_fingerprints(smiles), tuple(smiles), np.asarray(rows, dtype=np.int64))

    def nearest(self, smiles: Sequence[object]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Similarity and number of the nearest training molecule, [m]; NaN and -1 for no molecule.

        Of equally near ones it is the first.
        """
        from rdkit import DataStructs

        generator, known = morgan_generator(), self._vectors
        similarity = np.full(len(smiles), np.nan)
        number = np.full(len(smiles), -1)
        for place, molecule in enumerate(molecules_of(smiles)):
            if molecule is not None and known:
                fingerprint = generator.GetFingerprint(molecule)
                found = np.array(DataStructs.BulkTanimotoSimilarity(fingerprint, known))
                number[place] = found.argmax()
                similarity[place] = found[number[place]]
        return similarity, number

    def frame(self, smiles: Sequence[object]) -> pd.DataFrame:
        """`columns` for these molecules; rows of the table count from 1."""
        import pandas as pd

        similarity, number = self.nearest(smiles)
        there = number >= 0
        rows = pd.array(np.where(there, self.rows[number] + 1, 0), dtype="Int64")
        rows[~there] = pd.NA
        nearest = [self.smiles[n] if n >= 0 else None for n in number.tolist()]
        values = (similarity, nearest, rows)
        return pd.DataFrame(dict(zip(self.columns, values, strict=True)))

    def add(self, predicted: pd.DataFrame, smiles: Sequence[object]) -> pd.DataFrame:
        """Predictions for these SMILES with `columns` before the last one."""
        import pandas as pd

        near = self.frame(smiles).set_axis(predicted.index)
        return pd.concat([predicted.iloc[:, :-1], near, predicted.iloc[:, -1:]], axis=1)

    @cached_property
    def _vectors(self) -> list[Any]:
        """The fingerprints as RDKit's."""
        from rdkit import DataStructs

        return [DataStructs.CreateFromBinaryText(bits.tobytes()) for bits in self.fingerprints]

    def save(self, folder: str | Path) -> None:
        """Write the file into a run folder, atomically."""
        from safetensors.torch import save

        texts = {"fingerprints": self.fingerprints.tobytes(), "smiles": _json(self.smiles)}
        tensors = {
            name: torch.frombuffer(bytearray(zlib.compress(text)), dtype=torch.uint8)
            for name, text in texts.items()
        }
        tensors["rows"] = torch.from_numpy(self.rows.copy())
        header = sealed_metadata({"format": _FORMAT})
        with replacing(Path(folder) / FILE) as beside:
            beside.write_bytes(seal_safetensors(save(tensors, metadata=header)))

    @classmethod
    def load(cls, run: str | Path) -> Domain:
        """The domain of a run folder, or of the run that a model file lies in."""
        from safetensors import SafetensorError, safe_open

        path = domain_file(run)
        if not path.exists():
            raise InputError(
                f"{run}: has no {FILE}, the fingerprints of its training molecules: only finished "
                "runs of 'molecules' of this version have one; train it again."
            )
        damaged = f"{path}: was changed or damaged: copy it again, or train again."
        try:
            with safe_open(path, framework="pt") as file:
                if (file.metadata() or {}).get("format") != _FORMAT:
                    raise InputError(damaged)
                if not safetensors_fits(path.read_bytes()):
                    raise InputError(damaged)
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            rows = tensors["rows"].long().numpy()
            bits = _decompressed(tensors["fingerprints"], len(rows) * _BYTES)
            smiles = json.loads(_decompressed(tensors["smiles"], len(rows) * _LONGEST + 2))
            packed = np.frombuffer(bits, dtype=np.uint8).reshape(len(rows), _BYTES)
            texts = isinstance(smiles, list) and all(isinstance(text, str) for text in smiles)
            if not texts or rows.shape != (len(smiles),) or not len(rows):
                raise ValueError("one SMILES per row")
        except InputError:
            raise
        except (
            SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError, zlib.error
        ) as error:  # fmt: skip
            raise InputError(damaged) from error
        return cls(packed, tuple(smiles), rows)


def domain_file(run: str | Path) -> Path:
    """The file of a run folder, or of the run that a model file lies in; it may be missing."""
    place = model_path(run)
    return (place if place.is_dir() else place.parent) / FILE


def _json(smiles: Sequence[str]) -> bytes:
    return json.dumps(list(smiles), ensure_ascii=False).encode("utf-8", "backslashreplace")


def _decompressed(values: torch.Tensor, most: int) -> bytes:
    """The bytes of a compressed tensor, at most so many."""
    return zlib.decompressobj().decompress(values.numpy().tobytes(), most)
