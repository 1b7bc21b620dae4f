"""The command `smpgnn` in this process, and small files to give to it."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import networkx as nx
import pandas as pd

from smpgnn.cli.main import main


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


def smpgnn(*words: object) -> Outcome:
    """Run `smpgnn WORDS` through its entry point."""
    out, err = io.StringIO(), io.StringIO()
    argv = mock.patch.object(sys, "argv", ["smpgnn", *map(str, words)])
    with argv, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            status = stop.code
    assert isinstance(status, int)
    return Outcome(status, out.getvalue(), err.getvalue())


def done(*words: object) -> Outcome:
    """The same, where it must succeed."""
    outcome = smpgnn(*words)
    assert outcome.status == 0, outcome
    assert "Traceback" not in outcome.err
    return outcome


#: A network that trains in no time.
SMALL: Sequence[str] = (
    "--hidden-channels", "8", "--num-layers", "2", "--epochs", "2", "--device", "cpu",
)  # fmt: skip
CYCLES: Sequence[str] = (
    "cycles", "--k", "4", "--n", "12", "--train-samples", "32", "--test-samples", "32",
    "--batch-size", "128", *SMALL,
)  # fmt: skip


def molecules(rows: int = 40) -> pd.DataFrame:
    """Chains of carbon with an end; their size, kind, and whether they are long and polar."""
    lines = []
    for row in range(rows):
        length, end = 1 + row // 5 % 8, ("", "O", "N", "Cl", "=O")[row % 5]
        known = row % 7 != 3
        lines.append(
            {
                "name": f"m{row}",
                "smiles": "C" * length + end,
                "size": length + 0.5 * len(end),
                "weight.g": 12.0 * length if known else None,
                "kind": {"": "alkane", "=O": "aldehyde"}.get(end, "other"),
                "long": "yes" if length > 4 else "no",
                "polar": (int(end in ("O", "N")) if known else None),
            }
        )
    frame = pd.DataFrame(lines)
    return frame.astype({"polar": "Int64"})


def graph_folder(folder: Path, count: int = 24) -> Path:
    """Rings and stars in node-link JSON, a table of labels, and a mark on one node of each."""
    folder.mkdir(parents=True)
    lines = []
    for number in range(count):
        kind = "ring" if number % 2 else "star"
        n = 4 + number % 4
        graph = nx.cycle_graph(n) if kind == "ring" else nx.star_graph(n - 1)
        for node in graph:
            graph.nodes[node]["w"] = 0.5 * node
            graph.nodes[node]["end"] = "yes" if graph.degree(node) == 1 else "no"
        text = pd.io.json.ujson_dumps(nx.node_link_data(graph, edges="edges"))
        (folder / f"g{number:02d}.json").write_text(text)
        part = "train" if number % 6 < 4 else "val" if number % 6 == 4 else "test"
        lines.append({"file": f"g{number:02d}.json", "kind": kind, "n": n, "part": part})
    pd.DataFrame(lines).to_csv(folder.parent / "labels.csv", index=False)
    return folder
