"""Fingerprints and descriptors of molecules, by RDKit.

The descriptors are cheap: about a millisecond per molecule for all. They are RDKit's molecular
properties (`rdkit.Chem.rdMolDescriptors.Properties`: weights, counts of atoms, bonds and rings,
hydrogen bonds, logP, refractivity, surfaces, connectivity and shape indices) and its three series
of surface areas by charge, logP and refractivity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smpgnn.data.molecules import read_molecule, require_rdkit
from smpgnn.errors import InputError

#: Radius and length of Morgan fingerprints.
RADIUS, BITS = 2, 2048
#: Series of descriptors that RDKit computes together, and their lengths.
_SERIES = {"PEOE_VSA": 14, "SlogP_VSA": 12, "SMR_VSA": 10}
#: The RDKit descriptors of `--descriptors rdkit`, in the order of their columns.
RDKIT = (
    "exactmw", "amw", "lipinskiHBA", "lipinskiHBD", "NumRotatableBonds", "NumHBD", "NumHBA",
    "NumHeavyAtoms", "NumAtoms", "NumHeteroatoms", "NumAmideBonds", "FractionCSP3", "NumRings",
    "NumAromaticRings", "NumAliphaticRings", "NumSaturatedRings", "NumHeterocycles",
    "NumAromaticHeterocycles", "NumSaturatedHeterocycles", "NumAliphaticHeterocycles",
    "NumSpiroAtoms", "NumBridgeheadAtoms", "NumAtomStereoCenters",
    "NumUnspecifiedAtomStereoCenters", "labuteASA", "tpsa", "CrippenClogP", "CrippenMR",
    "chi0v", "chi1v", "chi2v", "chi3v", "chi4v", "chi0n", "chi1n", "chi2n", "chi3n", "chi4n",
    "hallKierAlpha", "kappa1", "kappa2", "kappa3", "Phi",
    *(f"{series}{number + 1}" for series, length in _SERIES.items() for number in range(length)),
)  # fmt: skip
#: Descriptors whose squares float32 cannot hold count as unknown.
_LARGEST = 1e18


def molecules_of(smiles: Iterable[object]) -> Iterator[Any]:
    """RDKit's molecules, None where a row is no molecule."""
    Chem = require_rdkit()
    from rdkit import rdBase

    for text in smiles:
        with rdBase.BlockLogs():
            molecule = read_molecule(Chem, text)[0]
        yield molecule


def morgan_generator() -> Any:
    """RDKit's generator of the fingerprints."""
    require_rdkit()
    from rdkit.Chem import rdFingerprintGenerator

    generators: Any = rdFingerprintGenerator
    return generators.GetMorganGenerator(radius=RADIUS, fpSize=BITS)


def morgan_bits(smiles: Sequence[object]) -> NDArray[np.uint8]:
    """Morgan fingerprints, [n, BITS] of 0 and 1; 0 where a row is no molecule."""
    generator = morgan_generator()
    bits = np.zeros((len(smiles), BITS), dtype=np.uint8)
    for row, molecule in enumerate(molecules_of(smiles)):
        if molecule is not None:
            bits[row] = generator.GetFingerprintAsNumPy(molecule)
    return bits


def rdkit_descriptors(
    smiles: Sequence[object], names: Sequence[str] = RDKIT
) -> NDArray[np.float64]:
    """RDKit descriptors by name, [n, len(names)]; NaN where one has no finite value."""
    compute = _descriptors(names)
    values = np.full((len(smiles), len(names)), np.nan)
    for row, molecule in enumerate(molecules_of(smiles)):
        if molecule is not None:
            values[row] = compute(molecule)
    values[~(np.abs(values) <= _LARGEST)] = np.nan
    return values


def _descriptors(names: Sequence[str]) -> Callable[[Any], list[float]]:
    """Computes the named descriptors of a molecule."""
    require_rdkit()
    from rdkit.Chem import rdMolDescriptors

    rdkit: Any = rdMolDescriptors
    known = {*rdkit.Properties.GetAvailableProperties()}
    single = [name for name in names if name in known]
    series = {name: getattr(rdkit, f"{name}_") for name in _SERIES}
    columns = [
        *single,
        *(f"{name}{k + 1}" for name, count in _SERIES.items() for k in range(count)),
    ]
    missing = [name for name in names if name not in columns]
    if missing:
        raise InputError(
            f"this version of RDKit has no descriptor '{missing[0]}': install another version."
        )
    order = [columns.index(name) for name in names]
    properties = rdkit.Properties(single)

    def compute(molecule: Any) -> list[float]:
        try:
            values = [*properties.ComputeProperties(molecule)]
            for function in series.values():
                values += function(molecule)
        except (ValueError, RuntimeError):  # of a few molecules
            return [np.nan] * len(order)
        return [values[position] for position in order]

    return compute
