"""Features, fingerprints and descriptors of tables of SMILES: in processes if they are long."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from smpgnn.data.molecule_features import BITS, RDKIT, morgan_bits, rdkit_descriptors
from smpgnn.data.molecules import MoleculeFeaturizer, MoleculeTable
from smpgnn.data.store import GraphStore
from smpgnn.processes import in_pieces


def featurized(
    featurizer: MoleculeFeaturizer, smiles: Sequence[str | None], processes: int = 0
) -> MoleculeTable:
    """Equal to `featurizer.featurize(smiles)`; `processes` as of `in_pieces`."""
    stores: list[GraphStore] = []
    index: list[torch.Tensor] = []
    errors: dict[int, str] = {}
    texts: list[str] = []
    for start, part in in_pieces(featurizer.featurize, smiles, processes):
        stores.append(part.store)
        index.append(part.index + start)
        errors |= {start + row: reason for row, reason in part.errors.items()}
        texts += part.smiles
    if not stores:
        return featurizer.featurize([])
    return MoleculeTable(GraphStore.concat(stores), torch.cat(index), errors, texts)


def packed_fingerprints(smiles: Sequence[object], processes: int = 0) -> NDArray[np.uint8]:
    """Morgan fingerprints as bits, [n, BITS / 8]."""
    parts = [part for _, part in in_pieces(_packed_bits, smiles, processes)]
    return np.concatenate([np.empty((0, BITS // 8), dtype=np.uint8), *parts])


def _packed_bits(smiles: Sequence[object]) -> NDArray[np.uint8]:
    return np.packbits(morgan_bits(smiles), axis=1, bitorder="little")


def descriptors_of(
    smiles: Sequence[object], names: Sequence[str] = RDKIT, processes: int = 0
) -> NDArray[np.float64]:
    """Equal to `rdkit_descriptors(smiles, names)`."""
    work = partial(rdkit_descriptors, names=tuple(names))
    parts = [part for _, part in in_pieces(work, smiles, processes)]
    return np.concatenate([np.empty((0, len(names))), *parts])
