"""Write the results of results/theory into the pages of docs/theory, between their markers.

python docs/fill_theory.py           # rewrite
python docs/fill_theory.py --check   # exit 1 if a page would change
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import blocks
from blocks import ROOT, fill_documents

from smpgnn.data.brec_parts import BREC
from smpgnn.paper.theory import coloring, expressivity, mpnn, ppgn
from smpgnn.paper.theory.programs import CLAIMS
from smpgnn.paper.theory.tables import Table

RESULTS = ROOT / "results" / "theory"
#: Pages that do not have the name of their program.
PAGES = {"corollary": "reconstruction.md"}


def read(program: str, key: str, kind: Callable[..., Any]) -> list[Any]:
    return [kind(**one) for one in blocks.read(f"theory/{program}.json")[key]]


def markdown(table: Table) -> str:
    return blocks.table(table[0], table[1:])


def programs() -> str:
    return "\n".join(
        f"- [{name}]({PAGES.get(name, f'{name}.md')}), `smpgnn paper theory {name}`: {claim}."
        for name, claim in CLAIMS.items()
    )


def colors_by_depth() -> str:
    rows = read("coloring", "rows", coloring.Rows)
    largest = max(row.nodes for row in rows)
    text = f"n = {largest}: colours / largest neighbourhood / mean neighbourhood.\n\n"
    return text + markdown(coloring.depth_table(rows, (1, 2, 4, 8)))


def colors_by_size() -> str:
    table = coloring.size_table(read("coloring", "rows", coloring.Rows), 2)
    return "Two layers: colours / mean neighbourhood.\n\n" + markdown(table)


def report(name: str = "expressivity") -> expressivity.Report:
    return expressivity.Report.read(RESULTS / f"{name}.json")


def ladder() -> str:
    """The pairs of BREC that each refinement distinguishes, by category and in all."""
    rows = [["there are", *BREC.values(), sum(BREC.values())]]
    for rung in blocks.read("theory/ladder.json")["rungs"]:
        rows.append([rung["refinement"], *rung["by_category"].values(), rung["told_apart"]])
    return blocks.table(["pairs of BREC", *BREC, "all"], rows)


def networks_on_brec() -> str:
    table = expressivity.count_table(report("brec"), refinements=False)
    return f"{markdown(table)}\n\n{expressivity.summary(report('brec'))}"


BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "index": {"programs": programs},
    "mpnn": {
        "simulations": lambda: markdown(
            mpnn.simulation_table(read("mpnn", "simulations", mpnn.Simulation))
        ),
        "separations": lambda: markdown(
            mpnn.separation_table(read("mpnn", "separations", mpnn.Separation))
        ),
    },
    "ppgn": {
        "equalities": lambda: markdown(
            ppgn.equality_table(read("ppgn", "equalities", ppgn.Equality))
        ),
        "approximations": lambda: markdown(
            ppgn.approximation_table(read("ppgn", "approximations", ppgn.Approximation))
        ),
    },
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
