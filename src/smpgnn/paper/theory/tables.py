"""Tables that the programs print and that docs/fill_theory.py writes into the pages."""

from __future__ import annotations

from collections.abc import Sequence

#: Rows of cells; the first row is the header.
Table = Sequence[Sequence[object]]


def print_table(table: Table) -> None:
    """Print a table with its first column aligned to the left and the others to the right."""
    rows = [[str(cell) for cell in row] for row in table]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        numbers = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)][1:]
        print("  ".join([row[0].ljust(widths[0]), *numbers]).rstrip())


def power(value: float) -> str:
    """A small number by its leading digit and exponent: 3e-16."""
    return "0" if value == 0 else f"{value:.0e}".replace("e-0", "e-")
