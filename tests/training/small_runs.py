"""Small data and settings with which a training run takes a second or two."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

#: For task 'cycles'.
CYCLES: dict[str, Any] = {
    "k": 4,
    "n": 12,
    "train_samples": 64,
    "test_samples": 64,
    "hidden_channels": 8,
    "num_layers": 2,
    "batch_size": 64,
    "device": "cpu",
}
#: For graphs in memory.
GRAPHS: dict[str, Any] = {
    "hidden_channels": 8,
    "num_layers": 2,
    "batch_size": 8,
    "device": "cpu",
}


def words(options: dict[str, Any]) -> list[str]:
    """The options as words of a command line."""
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}",
            str(value))]  # fmt: skip


def lines(folder: str | Path) -> list[dict[str, float]]:
    """metrics.csv without the seconds."""
    with (Path(folder) / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{k: float(v) for k, v in row.items() if k != "seconds"} for row in rows]


def record(folder: str | Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((Path(folder) / "run.json").read_text())
    return content


def ring(n: int, **more: Any) -> Data:
    """A ring of n nodes with two random features each."""
    a = torch.arange(n)
    b = (a + 1) % n
    edges = torch.cat([torch.stack([a, b]), torch.stack([b, a])], 1)
    return Data(x=torch.randn(n, 2), edge_index=edges, num_nodes=n, **more)


def rings(count: int = 24) -> list[Data]:
    """Rings of 3 to 8 nodes; y is the mean of the first feature."""
    torch.manual_seed(0)
    graphs = [ring(3 + i % 6) for i in range(count)]
    for graph in graphs:
        graph.y = graph.x[:, 0].mean()
    return graphs
