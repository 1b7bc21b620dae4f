"""The page that `make demo` ends with: one HTML file that needs nothing else."""

from __future__ import annotations

import math
import time
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from contexts import both_ways, contexts, ring
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

import smpgnn
from smpgnn.config.options import CyclesOptions
from smpgnn.pages.charts import Chart, Series, svg
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.train import Result

#: An aromatic acid, and a large ring with a tail.
MOLECULES = ["Clc1ccccc1C(=O)O", "CCCCCC1CCCCCCC1"]
LAYERS = 4


def page(results: dict[str, Result], names: dict[str, str]) -> str:
    """The page on these trainings."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates = files("smpgnn.pages") / "templates"
    style = "".join(
        (templates / f).read_text(encoding="utf-8") for f in ("palette.css", "style.css")
    )
    records = {model: RunFolder(result.folder).read_record() for model, result in results.items()}
    first = next(iter(results))
    options = RunFolder(results[first].folder).read_options()
    assert isinstance(options, CyclesOptions)
    pair = small_pair()
    return environment.get_template("demo.html").render(
        style=Markup(style),
        device=records[first]["device"],
        date=time.strftime("%Y-%m-%d"),
        samples=options.train_samples,
        networks=[
            {
                "name": names[model],
                "folder": result.folder.name,
                "parameters": records[model]["parameters"],
                "accuracy": result.test["accuracy"],
                "seconds": result.seconds,
            }
            for model, result in results.items()
        ],
        curves=svg(curves(results, names)),
        pair=pair,
        verdict=verdict(pair),
        molecules=coloured() if find_spec("rdkit") else None,
    )


def curves(results: dict[str, Result], names: dict[str, str]) -> Chart:
    """Validation accuracy by epoch."""
    lines = []
    for number, (model, result) in enumerate(results.items()):
        shares = [
            (line["epoch"], 100 * line["val_accuracy"])
            for line in RunFolder(result.folder).read_metrics()
        ]
        points = tuple((x, y, y, y) for x, y in shares)
        lines.append(Series(names[model], (9, 8)[number % 2], points))
    return Chart("Validation accuracy", "epoch", "accuracy (%)", tuple(lines))


def small_pair() -> list[dict[str, Any]]:
    """Two squares and a ring of eight, with the contexts of their nodes after each layer."""
    squares = ring(0, 1, 2, 3) + ring(4, 5, 6, 7)
    eight = ring(*range(8))
    around = [circle(place, 8, 1.0) for place in range(8)]
    left = [circle(place, 4, 0.45, -0.6) for place in range(4)]
    right = [circle(place, 4, 0.45, 0.6) for place in range(4)]
    graphs = (
        ("two squares: 4-cycles", squares, left + right, "--c9"),
        ("a ring of eight: none", eight, around, "--c8"),
    )
    return [
        {
            "name": name,
            "edges": edges,
            "places": places,
            "colour": colour,
            "contexts": [matrix.tolist() for matrix in contexts(both_ways(edges), LAYERS)],
        }
        for name, edges, places, colour in graphs
    ]


def circle(place: int, count: int, radius: float, x: float = 0.0) -> tuple[float, float]:
    angle = 2 * math.pi * (place + 0.5) / count
    return round(x + radius * math.sin(angle), 3), round(-radius * math.cos(angle), 3)


def verdict(pair: list[dict[str, Any]]) -> str:
    """What the diagonals of the last contexts say."""
    one, other = (sum(m[i][i] for i in range(8)) for m in (p["contexts"][-1] for p in pair))
    return (
        f"After {LAYERS} layers the diagonals, what nodes hear of themselves, sum to {one:.0f} in "
        f"the squares and to {other:.0f} in the ring: the difference, {one - other:.0f}, is 8 for "
        "each of the two 4-cycles."
    )


def coloured() -> Markup:
    """Molecules whose atoms have the colour of their contributions."""
    from smpgnn.inference.draw_molecules import molecules_svg
    from smpgnn.inference.explain_tables import explain_molecules

    found, _ = explain_molecules(smpgnn.load("zinc", "cpu"), MOLECULES)
    text = molecules_svg(found, 0, "predicted")
    return Markup(text[text.index("<svg") :])
