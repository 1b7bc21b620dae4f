"""A network that was never trained, and tables for it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch

from smpgnn.config.network import NetworkOptions
from smpgnn.data.molecules import MoleculeFeaturizer
from smpgnn.models.registry import NetworkSpec
from smpgnn.training.saved import SavedModel, save_model
from smpgnn.training.tasks import Regression, Task


def tiny_model(folder: Path, task: Task | None = None, seed: int = 0) -> Path:
    """Write the file of a tiny network for molecules."""
    torch.manual_seed(seed)
    features, task = MoleculeFeaturizer(), task or Regression()
    spec = NetworkSpec(
        in_channels=len(features.atom_features),
        edge_channels=len(features.bond_features),
        node_outputs=0,
        graph_outputs=task.graph_outputs,
        options=NetworkOptions(hidden_channels=8, num_layers=2, identifiers="local", norm="batch"),
    )
    path = folder / "model.safetensors"
    source = {"kind": "molecules", "smiles_column": "smiles"}
    save_model(path, SavedModel(spec.build(), spec, task, source))
    return path


def table(path: Path, rows: int) -> Path:
    """Molecules of several sizes; one is invalid."""
    smiles = ["C" * (1 + row % 7) + "O" * (row % 3 == 0) for row in range(rows)]
    smiles[rows // 2] = "C1CC"
    frame = pd.DataFrame({"smiles": smiles, "row": range(rows)})
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    return path
