"""Train on a table of SMILES and predict for new molecules, in Python.

    python examples/molecules.py

The script writes a small table of SMILES with the number of ring atoms as the target, trains on it
for a minute on a CPU, and predicts for new molecules.
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import smpgnn


def write_table(path: Path) -> None:
    """Write molecules with one or two rings of 3 to 8 atoms, with chains and heteroatoms."""
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
        print(f"Mean absolute error on the test split: {result.test['mae']:.2f} atoms")
        model = smpgnn.load(result.folder)
        print(model.predict(["C1CCCCC1", "CCCCCC", "C1CC1CCC1CCC1", "not a molecule"]))


if __name__ == "__main__":
    main()
