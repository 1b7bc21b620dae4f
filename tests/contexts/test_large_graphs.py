"""Document, example and benchmark on large graphs: they run, and their graphs are correct."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from types import ModuleType

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


def load(script: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(script).stem, ROOT / script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_code_of_the_document_runs() -> None:
    text = (ROOT / "docs" / "guides" / "large_graphs.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    assert len(blocks) == 3
    torch.manual_seed(0)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert names["out"].shape[1] == 1


@pytest.mark.parametrize("name", ["grid", "cubic", "mesh"])
@pytest.mark.parametrize("nodes", [16, 101, 400])
def test_graphs_are_simple_and_undirected(name: str, nodes: int) -> None:
    generator = torch.Generator().manual_seed(nodes)
    edge_index, count = load("benchmarks/sparse_graphs.py").GRAPHS[name](nodes, generator)
    pairs = {tuple(pair) for pair in edge_index.t().tolist()}
    assert len(pairs) == edge_index.size(1)
    assert all(a != b and (b, a) in pairs for a, b in pairs)
    assert abs(count - nodes) <= nodes**0.5 + 1
    degree = torch.bincount(edge_index[1], minlength=count)
    if name == "cubic":
        assert degree.tolist() == [3] * count
    else:
        assert 2 <= degree.min() <= degree.max() <= (4 if name == "grid" else 8)


def test_triangles_are_counted_exactly() -> None:
    module, count = load("examples/large_graph.py"), 49
    edge_index = module.mesh(7, torch.Generator().manual_seed(1))
    pairs = {tuple(pair) for pair in edge_index.t().tolist()}
    expected = [0] * count
    for three in combinations(range(count), 3):
        if all(pair in pairs for pair in combinations(three, 2)):
            for node in three:
                expected[node] += 1
    assert sum(expected) > 0
    assert module.triangles(edge_index, count).flatten().tolist() == expected


@pytest.mark.slow
def test_the_benchmark_runs_and_writes_what_it_measured(tmp_path: Path) -> None:
    output = tmp_path / "scale.json"
    measured = "--graphs cubic --layers fast --sizes 40 80 --repeat 1 --targets 10"
    printed = run("benchmarks/scale.py", *measured.split(), "--output", output)
    record = json.loads(output.read_text())
    assert len(record["points"]) == 2
    assert all(point["index_s"] > 0 and point["peak_mib"] > 0 for point in record["points"])
    assert "exponents of n" in printed


def test_the_example_runs_and_its_batches_equal_the_whole_graph() -> None:
    printed = run("examples/large_graph.py", "--side", "12", "--epochs", "1")
    gap = float(re.findall(r"the whole graph: (\S+)", printed)[0])
    assert "epoch 1" in printed
    assert gap < 1e-3
