"""Small models and data that all cases share; trained once."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from unittest import mock

_SMALL = (
    "--hidden-channels", "4", "--num-layers", "1", "--towers", "1", "--extractor-channels", "4",
    "--epochs", "1", "--device", "cpu",
)  # fmt: skip


def table() -> str:
    """Molecules with a size, a kind and a split."""
    smiles = ["C", "CC", "CCO", "CCN", "CCCl", "CC=O", "c1ccccc1", "C#N", "CC(=O)O", "CS"]
    smiles += ["OC[C@H](N)C", "[Na+].[Cl-]"]
    lines = ["name,smiles,size,kind,part"]
    for number, text in enumerate(smiles):
        part = ("train", "train", "val", "test")[number % 4]
        lines.append(f"m{number},{text},{len(text) + 0.5},{'ab'[number % 2]},{part}")
    return "\n".join(lines) + "\n"


def graph(number: int) -> dict[str, object]:
    """A ring of 3 to 6 nodes with node and edge features and targets of all levels."""
    n = 3 + number % 4
    nodes = [{"id": v, "w": 0.5 * v, "kind": "ab"[v % 2], "end": v % 2} for v in range(n)]
    edges = [{"source": v, "target": (v + 1) % n, "length": 1.0 + v} for v in range(n)]
    return {
        "directed": False,
        "multigraph": False,
        "graph": {"label": float(n), "name": f"g{number}"},
        "nodes": nodes,
        "edges": edges,
    }


def edges(number: int) -> str:
    """A ring of 3 to 6 nodes as an edge list."""
    n = 3 + number % 4
    return "".join(f"{v} {(v + 1) % n} {1.0 + v}\n" for v in range(n))


def make_models(folder: Path) -> None:
    """Train MOLECULES, CLASSES, MIXED, GRAPHS, NODES and, on edge lists, LISTS into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.csv").write_text(table())
    lines = "\n".join(json.dumps(graph(number)) for number in range(12))
    (folder / "graphs.jsonl").write_text(lines)
    (folder / "lists").mkdir()
    for number in range(12):
        (folder / "lists" / f"e{number}.txt").write_text(edges(number))
    labels = "".join(f"e{number}.txt,{3 + number % 4}\n" for number in range(12))
    (folder / "labels.csv").write_text(f"file,label\n{labels}")
    molecules = ("train", "molecules", folder / "data.csv")
    graphs = ("train", "graphs", folder / "graphs.jsonl")
    _do(*molecules, "--targets", "size", *_SMALL, "--output", folder / "MOLECULES")
    _do(*molecules, "--targets", "kind", *_SMALL, "--output", folder / "CLASSES")
    mixed = ("--targets", "size", "kind", "--standardize", "--log-target")
    _do(*molecules, *mixed, *_SMALL, "--output", folder / "MIXED")
    _do(*graphs, "--targets", "label", *_SMALL, "--output", folder / "GRAPHS")
    lists = ("train", "graphs", folder / "lists", "--labels", folder / "labels.csv")
    _do(*lists, "--targets", "label", "--task", "regression", *_SMALL, "--output", folder / "LISTS")
    _do(*graphs, "--targets", "end", "--level", "node", *_SMALL, "--output", folder / "NODES")


def _do(*words: object) -> None:
    from smpgnn.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    argv = mock.patch.object(sys, "argv", ["smpgnn", *map(str, words)])
    with argv, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            if stop.code:
                raise RuntimeError(err.getvalue()) from stop
