"""Write docs/start/logp.csv, the small table of the quick start and of a notebook.

python docs/make_logp.py

The molecules are combinations of a ring with a group. The column logP is RDKit's estimate with
random noise of 0.2, which stands for the error of a measurement.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from rdkit import Chem
from rdkit.Chem.Crippen import MolLogP

FILE = Path(__file__).resolve().parent / "start" / "logp.csv"
RINGS = [
    "c1ccccc1", "c1ccncc1", "C1CCCCC1", "c1ccc2ccccc2c1", "C1CCNCC1", "c1ccsc1", "c1ccoc1", "C1CC1",
    "C1CCOCC1", "c1ccc(cc1)c1ccccc1",
]  # fmt: skip
GROUPS = [
    "", "C", "CC", "CCC", "C(C)C", "O", "N", "Cl", "F", "Br", "C#N", "C(=O)O", "C(=O)N", "C(=O)OC",
    "OC", "S(=O)(=O)N", "CO", "CN(C)C", "C(F)(F)F", "[N+](=O)[O-]", "CCO", "NC(=O)C", "CCl", "SC",
]  # fmt: skip


def table() -> pd.DataFrame:
    smiles = list(dict.fromkeys(Chem.CanonSmiles(ring + end) for ring in RINGS for end in GROUPS))
    estimated = [MolLogP(Chem.MolFromSmiles(one)) for one in smiles]
    noise = np.random.default_rng(0).normal(0, 0.2, len(smiles))
    return pd.DataFrame({"smiles": smiles, "logP": np.round(estimated + noise, 2)})


if __name__ == "__main__":
    table().to_csv(FILE, index=False)
