"""From a table of SMILES to predictions, in Python.

    python examples/molecules.py

Makes a small table (SMILES and the number of heavy atoms in rings, a target that needs the
structure), trains on it for a minute on a processor, and predicts for new molecules.
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import smpgnn


def write_table(path: Path) -> None:
    """Rings of 3 to 8 atoms, alone or in pairs, with chains and hetero atoms."""
    rings = {size: f"C1{'C' * (size - 2)}C1" for size in range(3, 9)}
    rows = []
    for size, ring in rings.items():
        for chain in range(8):
            for end in ("", "O", "N", "Cl", "C(=O)O"):
                rows.append((f"{'C' * chain}{ring}{end}", size))
                other = rings[3 + (size + chain) % 6].replace("1", "2")
                rows.append((f"{ring}{'C' * chain}{other}{end}", size + 3 + (size + chain) % 6))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "ring_atoms"])
        writer.writerows(rows)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "rings.csv"
        write_table(table)
        result = smpgnn.train(
            "molecules",
            path=str(table),
            targets=["ring_atoms"],
            num_layers=4,
            epochs=20,
            output=str(Path(folder) / "run"),
        )
        print(f"Mean error on the test part: {result.test['mae']:.2f} atoms")
        model = smpgnn.load(result.folder)
        print(model.predict(["C1CCCCC1", "CCCCCC", "C1CC1CCC1CCC1", "not a molecule"]))


if __name__ == "__main__":
    main()
