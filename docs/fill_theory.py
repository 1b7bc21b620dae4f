"""Write the results of results/theory into the pages of docs/theory, between their markers.

python docs/fill_theory.py           # rewrite
python docs/fill_theory.py --check   # exit 1 if a page would change
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from blocks import ROOT, fill_documents

from smpgnn.paper.theory import brec, coloring, expressivity, mpnn, ppgn
from smpgnn.paper.theory.programs import CLAIMS
from smpgnn.paper.theory.tables import Table

RESULTS = ROOT / "results" / "theory"
#: Pages that do not have the name of their program.
PAGES = {"corollary": "reconstruction.md"}


def read(program: str, key: str, kind: Callable[..., Any]) -> list[Any]:
    content = json.loads((RESULTS / f"{program}.json").read_text(encoding="utf-8"))
    return [kind(**one) for one in content[key]]


def markdown(table: Table) -> str:
    head, *rows = table
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def programs() -> str:
    return "\n".join(
        f"- [{name}]({PAGES.get(name, f'{name}.md')}), `smpgnn paper theory {name}`: {claim}."
        for name, claim in CLAIMS.items()
    )


def colors_by_depth() -> str:
    rows = read("coloring", "rows", coloring.Rows)
    largest = max(row.nodes for row in rows)
    table = coloring.depth_table(rows, (1, 2, 4, 8))
    return f"n = {largest}: colours / largest neighbourhood / mean neighbourhood.\n\n" + markdown(
        table
    )


def colors_by_size() -> str:
    table = coloring.size_table(read("coloring", "rows", coloring.Rows), 2)
    return "Two layers: colours / mean neighbourhood.\n\n" + markdown(table)


def simulations() -> str:
    return markdown(mpnn.simulation_table(read("mpnn", "simulations", mpnn.Simulation)))


def separations() -> str:
    return markdown(mpnn.separation_table(read("mpnn", "separations", mpnn.Separation)))


def equalities() -> str:
    return markdown(ppgn.equality_table(read("ppgn", "equalities", ppgn.Equality)))


def approximations() -> str:
    return markdown(ppgn.approximation_table(read("ppgn", "approximations", ppgn.Approximation)))


def report() -> expressivity.Report:
    return expressivity.Report.read(RESULTS / "expressivity.json")


def ladder() -> str:
    return markdown(brec.ladder_table(brec.Ladder.read(RESULTS / "ladder.json")))


def networks_on_brec() -> str:
    found = expressivity.Report.read(RESULTS / "brec.json")
    table = expressivity.count_table(found, refinements=False)
    return f"{markdown(table)}\n\n{expressivity.summary(found)}"


BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "index": {"programs": programs},
    "mpnn": {"simulations": simulations, "separations": separations},
    "ppgn": {"equalities": equalities, "approximations": approximations},
    "coloring": {"depth": colors_by_depth, "size": colors_by_size},
    "expressivity": {
        "families": lambda: markdown(expressivity.size_table(report())),
        "counts": lambda: markdown(expressivity.count_table(report())),
        "measured": lambda: expressivity.summary(report()),
        "ladder": ladder,
        "brec": networks_on_brec,
    },
}


if __name__ == "__main__":
    fill_documents({f"docs/theory/{page}.md": writers for page, writers in BLOCKS.items()})
