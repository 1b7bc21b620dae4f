"""Draw docs/figures/speed.png, the speed and scaling figure of the README, from its records."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from blocks import ROOT, read
from matplotlib.ticker import NullFormatter

WAYS = {"ours": "#1b6ca8", "naive": "#c0504d", "ppgn": "#9b9b9b", "gin": "#cfcfcf"}
NAMES = {"ours": "SMP, ours", "naive": "SMP, naive", "ppgn": "PPGN", "gin": "GIN"}
GRAPHS = {"grid": "o", "cubic": "s", "mesh": "^"}


def draw_steps(axes: Any, record: dict[str, Any], title: str) -> None:
    """Steps launched kernel by kernel. GPU records store ours as 'eager'."""
    cases = [row["case"] for row in record["rows"]]
    for number, (way, colour) in enumerate(WAYS.items()):
        values = [
            (row["eager_ms"] if way == "ours" and row["eager_ms"] else row[f"{way}_ms"]) or 0
            for row in record["rows"]
        ]
        places = [k + 0.2 * (number - 1.5) for k in range(len(cases))]
        axes.bar(places, values, 0.19, color=colour, label=NAMES[way])
        for place, value in zip(places, values, strict=True):
            if value:
                text = f"{value:.1f}" if value < 10 else f"{value:.0f}"
                axes.text(place, value, text, ha="center", va="bottom", fontsize=6)
    axes.set_yscale("log")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xticks(range(len(cases)), cases, fontsize=7)
    axes.set_ylabel("one training step, ms")
    axes.set_title(title, fontsize=9)
    axes.legend(fontsize=6, frameon=False, ncols=2)
    axes.margins(y=0.15)


def draw_scale(axes: Any, records: list[dict[str, Any]]) -> None:
    for record, colour in zip(records, ("#7f7f7f", "#1b6ca8"), strict=False):
        for graph, mark in GRAPHS.items():
            points = [p for p in record["points"] if p["graph"] == graph and p["layer"] == "fast"]
            axes.plot(
                [p["nodes"] for p in points],
                [p["peak_mib"] / 1024 for p in points],
                marker=mark,
                ms=4,
                lw=1,
                color=colour,
                label=f"{graph}, {record['device']}",
            )
    sizes = [10**k for k in range(3, 7)]
    axes.plot(sizes, [n * n * 32 * 4 / 2**30 for n in sizes], "k--", lw=1, label="one dense layer")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("nodes of one graph")
    axes.set_ylabel("peak memory of a step, GiB")
    axes.set_title("Fast SMP, 3 layers, width 32, neighbourhood identifiers", fontsize=9)
    axes.legend(fontsize=6, frameon=False)


def main() -> None:
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    cpu, gpu = read("benchmarks/step-cpu.json"), read("benchmarks/step-h200.json")
    draw_steps(axes[0], cpu, f"CPU, {cpu['device']}")
    draw_steps(axes[1], gpu, f"{gpu['device']}, launched kernel by kernel")
    draw_scale(axes[2], [read("benchmarks/scale-cpu.json"), read("benchmarks/scale-h200.json")])
    figure.savefig(ROOT / "docs" / "figures" / "speed.png", dpi=110)


if __name__ == "__main__":
    main()
