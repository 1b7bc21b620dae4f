"""Make the runs and models that later versions must load: one folder for each kind.

    PYTHONPATH=tests python tests/kept/make.py VERSION    # such as 0.1.0; writes tests/kept/VERSION

Run it once for each release and never again: what it writes is what users of that release have.
Each folder has data, a run, and what this version says about it in `expected.json`. Two of the runs
were killed on the way, and `expected.json` also has the metrics of the same run undisturbed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd
from training.processes import Fork, finish, wait_for_epochs

import smpgnn
from smpgnn.checksums import read_json, to_json

HERE = Path(__file__).resolve().parent
SMALL = [
    "--hidden-channels", "4", "--extractor-channels", "4", "--num-layers", "1", "--lr", "0.01",
    "--batch-size", "16", "--device", "cpu", "--logger", "none",
]  # fmt: skip
#: The command of each kind, and whether it is killed on the way.
KINDS: dict[str, tuple[Sequence[str], bool]] = {
    "regression": (
        ["molecules", "data.csv", "--targets", "size", "--descriptors", "rdkit", "temperature",
         "--no-baseline", "--epochs", "40"],
        True,
    ),
    "classification": (
        ["molecules", "data.csv", "--targets", "kind", "--folds", "2", "--ensemble", "2",
         "--no-baseline", "--epochs", "4"],
        False,
    ),
    "mixed": (
        ["molecules", "data.csv", "--targets", "size", "kind", "--no-baseline", "--epochs",
         "4"],
        False,
    ),
    "graphs": (
        ["graphs", "graphs", "--labels", "labels.csv", "--targets", "kind", "--epochs", "40"],
        True,
    ),
}  # fmt: skip


def molecules() -> pd.DataFrame:
    """Chains and rings with a size, a kind and a temperature; one size is missing."""
    ends = ("", "O", "N", "Cl", "C(=O)O", "c1ccccc1")
    lines = [
        {
            "smiles": ("C1CCCCC1" if row % 4 == 0 else "") + "C" * (1 + row % 9) + ends[row % 6],
            "temperature": 280 + 5 * (row % 7),
            "size": 1 + row % 9 + 0.5 * (row % 6) + 0.01 * row if row != 7 else None,
            "kind": ("acid", "base", "other")[row % 3] if row % 5 else "other",
        }
        for row in range(72)
    ]
    return pd.DataFrame(lines)


def graphs() -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """Rings and stars in node-link JSON, and their labels."""
    found, lines = list[dict[str, Any]](), list[dict[str, str]]()
    for number in range(48):
        kind, n = ("ring", "star")[number % 2], 4 + number % 5
        graph = nx.cycle_graph(n) if kind == "ring" else nx.star_graph(n - 1)
        for node in graph:
            graph.nodes[node]["w"] = 0.25 * (node % 3)
            graph.nodes[node]["mark"] = "ab"[node % 2]
        found.append(nx.node_link_data(graph, edges="edges"))
        lines.append({"file": f"g{number}.json", "kind": kind})
    return found, pd.DataFrame(lines)


def write_data(kind: str) -> None:
    """The files of a kind, in the working folder."""
    if kind == "graphs":
        Path("graphs").mkdir()
        found, labels = graphs()
        for graph, name in zip(found, labels["file"], strict=True):
            Path("graphs", name).write_text(json.dumps(graph), encoding="utf-8")
        labels.to_csv("labels.csv", index=False)
    else:
        molecules().to_csv("data.csv", index=False)


def expected(kind: str) -> dict[str, Any]:
    """What this version says about a run, in the working folder."""
    model = smpgnn.load("run", "cpu")
    if kind == "graphs":
        from smpgnn.data.graphs import read_graphs

        table = model.predict(read_graphs("graphs", schema=model.schema("read them")).store)
        metrics = model.evaluate("graphs", labels="labels.csv")
    else:
        table = model.predict(pd.read_csv("data.csv"))
        metrics = model.evaluate("data.csv")
    return {"predictions": json.loads(table.to_json(orient="columns", double_precision=15)),
            "metrics": metrics}  # fmt: skip


def make(kind: str) -> None:
    """The files of a kind, in the working folder."""
    words, killed = KINDS[kind]
    write_data(kind)
    train = ["train", *words, *SMALL]
    status, _, errors = finish(Fork([*train, "--output", "run"]))
    assert status == 0, errors
    record = json.loads(Path("run/run.json").read_text(encoding="utf-8"))
    if killed:
        shutil.rmtree("run")
        process = Fork([*train, "--output", "run"])
        wait_for_epochs(process, Path("run"), 12)
        process.kill()
        finish(process)
        assert not Path("run/run.json").exists()
        for part in Path("run").glob(".*"):
            part.unlink()
    versions = {name: __import__(name).__version__ for name in ("torch", "rdkit")}
    content = {**expected(kind), "versions": versions, "test": record["test"]}
    Path("expected.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    # Finished runs need no checkpoint; users may delete drawings and logs.
    spare = ("lock",) if killed else ("lock", "last.ckpt")
    for path in Path("run").rglob("*"):
        if path.suffix in (".html", ".png", ".log") or path.name in spare:
            path.unlink()
        elif path.name == "data.json":
            content = read_json(path, "it is new")
            for name, place in content["files"].items():
                content["files"][name] = Path(place).name  # not a path of this machine
            path.write_text(to_json(content), encoding="utf-8")


def main() -> None:
    target = HERE / sys.argv[1]
    assert not target.exists(), f"{target} is what users have: make another"
    with tempfile.TemporaryDirectory() as name:
        for kind in KINDS:
            folder = Path(name, target.name, kind)
            folder.mkdir(parents=True)
            os.chdir(folder)
            make(kind)
        os.chdir(HERE)
        model = Path(name, target.name, "mixed", "run", "model.safetensors").read_bytes()
        shutil.rmtree(Path(name, target.name, "mixed", "run"))
        Path(name, target.name, "mixed", "model.safetensors").write_bytes(model)
        shutil.copytree(Path(name, target.name), target)


if __name__ == "__main__":
    main()
