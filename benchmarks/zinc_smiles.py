"""Write molecules of ZINC-12k as a table of SMILES.

    python benchmarks/zinc_smiles.py [--train 1500] [--others 500] [--output zinc_smiles.csv]
    smpgnn train molecules zinc_smiles.csv --targets y --split-column split

The table contains the first molecules of each split in the columns smiles, y and split. The graphs
have no stereo labels, so the SMILES have none.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from smpgnn.data.molecules import require_rdkit
from smpgnn.data.store import GraphStore
from smpgnn.data.zinc import zinc_splits
from smpgnn.data.zinc_vocabulary import ATOM_TYPES


def smiles(store: GraphStore, count: int) -> Iterator[tuple[str, float]]:
    """The first molecules with their targets."""
    chem: Any = require_rdkit()
    orders = (chem.BondType.SINGLE, chem.BondType.DOUBLE, chem.BondType.TRIPLE)
    for number in range(min(count, len(store))):
        graph: Any = store.batch([number])
        molecule = chem.RWMol()
        for kind in graph.x.argmax(1).tolist():
            element, charge, hydrogens = ATOM_TYPES[kind]
            atom = chem.Atom(element)
            atom.SetFormalCharge(charge)
            atom.SetNumExplicitHs(hydrogens)
            molecule.AddAtom(atom)
        bonds = zip(graph.edge_index.t().tolist(), graph.edge_attr.argmax(1).tolist(), strict=True)
        for (source, target), order in bonds:
            if source < target:
                molecule.AddBond(source, target, orders[order])
        chem.SanitizeMol(molecule)
        yield chem.MolToSmiles(molecule), round(float(graph.y), 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--train", type=int, default=1500, help="number of training molecules")
    parser.add_argument(
        "--others",
        type=int,
        default=500,
        help="number of validation molecules, and of test molecules",
    )
    parser.add_argument("--data-dir", help="folder of ZINC; default: SMPGNN_DATA, else a cache")
    parser.add_argument("--output", type=Path, default=Path("zinc_smiles.csv"))
    options = parser.parse_args()
    splits = zinc_splits(options.data_dir)
    counts = {"train": options.train, "val": options.others, "test": options.others}
    with options.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "y", "split"])
        for part, count in counts.items():
            writer.writerows((*row, part) for row in smiles(getattr(splits, part), count))


if __name__ == "__main__":
    main()
