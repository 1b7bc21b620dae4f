"""Draw docs/figures/cycles_sizes.png: accuracy at the training size and on larger graphs.

python docs/draw_cycles.py           # draw it from results/
python docs/draw_cycles.py --check   # exit 1 if it shows other numbers

The file stores the numbers it shows as text.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from blocks import ROOT
from PIL import Image

from smpgnn.paper.experiments.tables import TABLES
from smpgnn.paper.report.collect import Report, TableReport, collect

FILE = ROOT / "docs" / "figures" / "cycles_sizes.png"
COLOURS = {"ours": "#1b6ca8", "printed": "#7f7f7f", "baseline": "#c0504d"}


@dataclass(frozen=True)
class Line:
    """One row: accuracy at the training size and at the largest size, for each k."""

    name: str
    kind: str
    inside: tuple[float, ...]
    outside: tuple[float, ...]


@dataclass(frozen=True)
class Panel:
    """A cycle length with its training size and its largest size."""

    k: int
    trained: int
    tested: int


def panels() -> list[Panel]:
    cells = [cell.value for cell in TABLES["cycle_detection"].cells]
    return [
        Panel(k, training.settings["n"], max(n for length, n in cells if length == k))
        for training in TABLES["cycle_generalization"].trainings
        for k in [training.settings["k"]]
    ]


def lines(report: Report) -> list[Line]:
    """SMP, its variants, SMP as printed in the paper, and the baselines; only complete rows."""
    tables = {table.table.name: table for table in report.tables}
    parts, main = tables["cycle_generalization_parts"], tables["cycle_generalization"]
    found = [
        line(parts, row.name, "ours", "SMP" if row.of else f"SMP, {row.name}")
        for row in parts.table.rows
    ]
    found.append(line(main, "SMP", "printed", "SMP as printed in the paper"))
    found += [
        line(main, row.name, "baseline", row.name) for row in main.table.rows if row.name != "SMP"
    ]
    return [one for one in found if one is not None]


def line(table: TableReport, row: str, kind: str, name: str) -> Line | None:
    values = {}
    for side in ("in", "out"):
        summaries = [table.summary(row, f"{side} {panel.k}") for panel in panels()]
        taken = [one.paper if kind == "printed" else one.mean for one in summaries]
        values[side] = tuple(round(value, 1) for value in taken if value is not None)
        if len(values[side]) < len(taken):
            return None
    return Line(name, kind, values["in"], values["out"])


def draw(shown: list[Line]) -> Any:
    figure, axes = plt.subplots(
        1, 3, figsize=(8.4, 0.9 + 0.26 * len(shown)), sharey=True, layout="constrained"
    )
    for place, (panel, one) in enumerate(zip(panels(), axes, strict=True)):
        for height, row in enumerate(shown):
            colour, ends = COLOURS[row.kind], (row.inside[place], row.outside[place])
            one.plot(ends, (height, height), color=colour, lw=1.5, zorder=1)
            one.scatter(ends[0], height, s=42, facecolors="white", edgecolors=colour, zorder=2)
            one.scatter(ends[1], height, s=22, color=colour, zorder=3)
        one.axvline(50, color="#999999", lw=0.8, ls=":")
        one.set_title(f"k = {panel.k}: {panel.trained} → {panel.tested} nodes", fontsize=9)
        one.set_xlim(47, 102)
        one.set_xticks([50, 60, 70, 80, 90, 100])
        one.tick_params(labelsize=8)
        one.grid(axis="x", color="#e5e5e5", lw=0.6)
        one.set_axisbelow(True)
        one.spines[["top", "right", "left"]].set_visible(False)
    axes[0].set_yticks(range(len(shown)), [row.name for row in shown], fontsize=8)
    axes[0].invert_yaxis()
    for one in axes:
        one.tick_params(axis="y", length=0)
    axes[1].set_xlabel(
        "test accuracy (%):  ○ training size   ● largest size   (dotted: guessing)", fontsize=8
    )
    return figure


def main() -> None:
    shown = lines(collect(ROOT / "results"))
    numbers = json.dumps([asdict(one) for one in shown])
    if "--check" in sys.argv[1:]:
        with Image.open(FILE) as image:
            drawn = image.info.get("Description")
        if drawn != numbers:
            raise SystemExit(f"{FILE.name} is not what results/ say: run {sys.argv[0]}.")
        return
    draw(shown).savefig(FILE, dpi=110, metadata={"Description": numbers})


if __name__ == "__main__":
    main()
