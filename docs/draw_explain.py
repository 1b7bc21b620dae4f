"""Draw figures/explain.svg: atom contributions in some molecules, from the shipped model.

python docs/draw_explain.py
"""

from __future__ import annotations

from pathlib import Path

from smpgnn.files import write_text
from smpgnn.inference.draw_molecules import molecules_svg
from smpgnn.inference.explain_tables import explain_molecules
from smpgnn.inference.predict import load

FIGURE = Path(__file__).resolve().parent / "figures" / "explain.svg"
#: An aromatic acid, an eight-membered ring with a tail, an ion.
MOLECULES = ["Clc1ccccc1C(=O)O", "CCCCCC1CCCCCCC1", "C[N+](C)(C)CC([O-])=O"]


def main() -> None:
    found, _ = explain_molecules(load("zinc", "cpu"), MOLECULES)
    write_text(FIGURE, molecules_svg(found, 0, "predicted"))


if __name__ == "__main__":
    main()
