"""Each kind of task is learned to near-zero training error on a handful of graphs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import rings

from smpgnn.config.options import GraphsOptions, PropertiesOptions, TrainOptions
from smpgnn.data.base import Splits
from smpgnn.data.properties import property_graphs
from smpgnn.data.pyg import graphs_from_pyg
from smpgnn.data.store import GraphStore
from smpgnn.training.prepare import Prepared, assemble
from smpgnn.training.tasks import Classification, GraphProperties, MultiLabel, Regression, Task
from smpgnn.training.train import Result, evaluate_store, train_run

GRAPHS = GraphsOptions().changed(
    hidden_channels=16,
    num_layers=2,
    batch_size=16,
    lr=1e-2,
    warmup_epochs=0.3,
    clip=0.0,
    device="cpu",
)


def overfit(options: TrainOptions, task: Task, store: GraphStore, folder: Path) -> Result:
    """Train, choose and report on the same graphs; an epoch sees each of them 64 times."""
    often = store.select(torch.arange(len(store)).repeat(64))
    prepared: Prepared = assemble(options, Splits(often, store, store), task, {"kind": "graphs"})
    return train_run(replace(options, output=str(folder)), prepared=prepared, quiet=True)


def store(y: torch.Tensor | None = None, y_node: torch.Tensor | None = None) -> GraphStore:
    graphs = rings(12)
    for graph in graphs:
        del graph.y
    return replace(graphs_from_pyg(graphs), y=y, y_node=y_node)


def random(*shape: int, **options: Any) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(5), **options)


def test_regression(tmp_path: Path) -> None:
    data = store(y=5 + 3 * random(12, 1))
    task = Regression.fit(("a",), data)
    made = overfit(GRAPHS.changed(model="fast-smp", epochs=5), task, data, tmp_path / "run")
    assert made.test["mae"] < 0.15 * task.scale[0]


def test_several_targets_some_missing(tmp_path: Path) -> None:
    y = random(12, 3)
    y[::3, 1] = torch.nan
    data = store(y=y)
    task = Regression.fit(("a", "b", "c"), data)
    made = overfit(replace(GRAPHS, epochs=3), task, data, tmp_path / "run")
    assert made.test["mae"] < 0.15 * task.scale[0]


def test_classification(tmp_path: Path) -> None:
    data = store(y=(3 * random(12, 1)).floor())
    task = Classification(name="c", classes=("x", "y", "z"))
    made = overfit(replace(GRAPHS, epochs=2), task, data, tmp_path / "run")
    assert made.test == {"accuracy": 1.0}


def test_labels(tmp_path: Path) -> None:
    data = store(y=(2 * random(12, 2)).floor())
    task = MultiLabel(names=("a", "b"), classes=(("0", "1"), ("no", "yes")))
    made = overfit(replace(GRAPHS, epochs=2), task, data, tmp_path / "run")
    assert made.test == {"accuracy": 1.0}


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_nodes(tmp_path: Path, kind: str) -> None:
    nodes = int(store().node_ptr[-1])
    values = random(nodes, 1)
    data = store(y_node=values if kind == "regression" else (2 * values).floor())
    options = replace(GRAPHS, level="node", epochs=4)
    task: Task = Classification(name="c", classes=("x", "y"), level="node")
    if kind == "regression":
        task = Regression.fit(("a",), data, "node")
    made = overfit(options, task, data, tmp_path / "run")
    assert made.saved.spec.level == "node"
    if isinstance(task, Regression):
        assert made.test["mae"] < 0.3 * task.scale[0]
    else:
        assert made.test["accuracy"] > 0.97


def test_graph_properties(tmp_path: Path) -> None:
    data = property_graphs((8, 9), 2, seed=1)
    assert data.y is not None
    assert data.y_node is not None
    largest, node_largest = data.y.abs().amax(0), data.y_node.abs().amax(0)
    data = replace(data, y=data.y / largest, y_node=data.y_node / node_largest)
    options = PropertiesOptions().changed(
        model="mpnn", hidden_channels=32, num_layers=3, towers=1, extractor_channels=32, epochs=20,
        batch_size=16, lr=5e-3, clip=0.0, device="cpu",
    )  # fmt: skip
    made = overfit(options, GraphProperties(), data, tmp_path / "run")
    assert made.test["log_mse"] < -2.5  # the targets vary by 10^-1
    again = evaluate_store(made.saved.network, made.saved.task, data, 3, torch.device("cpu"))
    assert again == pytest.approx(made.test, rel=1e-4)
