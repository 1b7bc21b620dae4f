"""Write the numbers of results/theory into the pages of docs/theory, between their markers.

python docs/fill_theory.py           # rewrite
python docs/fill_theory.py --check   # exit 1 if a page would change
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from blocks import ROOT, fill_documents

from smpgnn.paper.theory.registry import LISTINGS

RESULTS = ROOT / "results" / "theory"
#: Numbers of layers in the table of colours
DEPTHS = (1, 2, 4, 8)


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return content


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def power(value: float) -> str:
    return "0" if value == 0 else f"{value:.0e}".replace("e-0", "e-")


def programs() -> str:
    return "\n".join(
        f"- [{one.name}]({one.page}), `smpgnn paper theory {one.name}`: {one.claim}."
        for one in LISTINGS
    )


def simulations() -> str:
    record = read("mpnn")
    return table(
        ["network", "layers", "graphs", "own rows differ by", "other rows", "outputs differ by"],
        [
            [
                case["network"],
                case["layers"],
                case["graphs"],
                power(case["own_gap"]),
                power(case["elsewhere"]),
                power(case["output_gap"]),
            ]
            for case in record["simulations"]
        ],
    )


def separations() -> str:
    record = read("mpnn")
    return table(
        ["graphs", "nodes", "degree", "tr(A³)", "1-WL", "five random MPNNs differ by"],
        [
            [
                f"{pair['first']}, {pair['second']}",
                pair["nodes"],
                pair["degree"],
                f"{pair['first_trace']}, {pair['second_trace']}",
                "different" if pair["refinement_differs"] else "equal",
                power(pair["mpnn_gap"]),
            ]
            for pair in record["separations"]
        ],
    )


def equalities() -> str:
    record = read("ppgn")
    return table(
        ["graph", "nodes", "layers", "blocks", "differ by", "(1) no residual",
         "(2) factors as printed", "(3) with the own term"],
        [
            [
                case["graph"],
                case["nodes"],
                case["layers"],
                case["blocks"],
                power(case["gap"]),
                *(
                    "0" if case[name] <= record["tolerance"] else f"{case[name]:.2f}"
                    for name in ("without_residual", "factors_as_printed", "with_own_term")
                ),
            ]
            for case in record["equalities"]
        ],
    )  # fmt: skip


def approximations() -> str:
    steps = read("ppgn")["approximations"]
    return table(
        ["relus a square", *(str(step["hidden"]) for step in steps)],
        [["differ by", *(power(step["gap"]) for step in steps)]],
    )


def colors_by_depth() -> str:
    rows = read("coloring")["rows"]
    largest = max(row["nodes"] for row in rows)
    lines = []
    for family in dict.fromkeys(row["family"] for row in rows):
        own = [row for row in rows if (row["family"], row["nodes"]) == (family, largest)]
        by_depth = {row["layers"]: row for row in own}
        cells = [
            f"{by_depth[depth]['colors']} / {by_depth[depth]['max_rows']} / "
            f"{by_depth[depth]['mean_rows']:.0f}"
            for depth in DEPTHS
        ]
        lines.append([family, f"{own[0]['degree']:.1f}", own[0]["diameter"], *cells])
    head = ["graph", "degree", "diameter", *(f"L = {depth}" for depth in DEPTHS)]
    return f"n = {largest}: colours / largest neighbourhood / mean neighbourhood.\n\n" + table(
        head, lines
    )


def colors_by_size() -> str:
    rows = [row for row in read("coloring")["rows"] if row["layers"] == 2]
    sizes = sorted({row["nodes"] for row in rows})
    lines = []
    for family in dict.fromkeys(row["family"] for row in rows):
        by_size = {row["nodes"]: row for row in rows if row["family"] == family}
        cells = [f"{by_size[n]['colors']} / {by_size[n]['mean_rows']:.0f}" for n in sizes]
        lines.append([family, *cells])
    head = ["graph", *(f"n = {n}" for n in sizes)]
    return "Two layers: colours / mean neighbourhood.\n\n" + table(head, lines)


def families() -> str:
    return table(
        ["family", "graphs", "pairs", "content"],
        [
            [f"`{size['family']}`", size["graphs"], size["pairs"], size["text"]]
            for size in read("expressivity")["families"]
        ],
    )


def expressivity() -> str:
    from smpgnn.paper.theory.expressivity import BOUND

    record = read("expressivity")
    names = [size["family"] for size in record["families"]]
    lines: list[list[object]] = [["*pairs*", "", *(size["pairs"] for size in record["families"])]]
    for kind in dict.fromkeys(reference["refinement"] for reference in record["references"]):
        told = [r["told_apart"] for r in record["references"] if r["refinement"] == kind]
        lines.append([f"*{kind} refinement*", "", *told])
    for model in record["settings"]["models"]:
        counts = [count for count in record["counts"] if count["model"] == model]
        cells = ["not invariant" if c["told_apart"] is None else c["told_apart"] for c in counts]
        lines.append([f"`{model}`", BOUND.get(model, "–"), *cells])
    return table(["", "bound", *names], lines)


def measured() -> str:
    from smpgnn.paper.theory.expressivity import FACTOR, FLOOR, LIMIT

    record = read("expressivity")
    settings = record["settings"]
    counted = [count for count in record["counts"] if count["told_apart"] is not None]
    noise = max(count["copies_gap"] for count in counted)
    signal = min(c["smallest_gap"] for c in counted if c["smallest_gap"] is not None)
    most = [
        count["smallest_gap"] / count["tolerance"]
        for count in counted
        if count["smallest_gap"] is not None
    ]
    wild = min(count["copies_gap"] for count in record["counts"] if count["told_apart"] is None)
    return (
        f"{settings['layers']} layers of width {settings['width']}, {settings['seeds']} seeds, "
        f"{settings['relabelings']} relabelled copies of each graph. The tolerance is {FACTOR:g} "
        f"times the largest difference between copies of one graph, and at least {power(FLOOR)}. A "
        f"network whose copies differ by more than {power(LIMIT)} is *not invariant*. Measured: "
        f"copies differ by at most {power(noise)} for invariant networks and by at least "
        f"{power(wild)} for the others. Distinguished pairs differ by at least {power(signal)}, "
        f"and by at least {min(most):.1f} times the tolerance of their network and family."
    )


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "index": {"programs": programs},
    "mpnn": {"simulations": simulations, "separations": separations},
    "ppgn": {"equalities": equalities, "approximations": approximations},
    "coloring": {"depth": colors_by_depth, "size": colors_by_size},
    "expressivity": {"families": families, "counts": expressivity, "measured": measured},
}


if __name__ == "__main__":
    fill_documents({f"docs/theory/{page}.md": writers for page, writers in PAGES.items()})
