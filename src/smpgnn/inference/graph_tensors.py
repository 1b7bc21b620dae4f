"""The tensors that a network takes for molecules or graphs, and what they mean."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from smpgnn.data.graphs import read_graphs
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.training.tasks.base import OneLevelTask, Task, parts_of
from smpgnn.training.tasks.mixed import MixedTargets
from smpgnn.training.tasks.regression import Regression

if TYPE_CHECKING:
    from smpgnn.inference.predict import Model

#: Sizes that differ from batch to batch.
NODES, EDGES, GRAPHS = "nodes", "edges", "graphs"


def input_shapes(model: Model) -> dict[str, tuple[int | str, ...]]:
    """The inputs of the network in order, each with its shape; a name is a size of the batch."""
    backbone: Any = model.network.backbone
    shapes: dict[str, tuple[int | str, ...]] = {
        "x": (NODES, backbone.in_channels),
        "edge_index": (2, EDGES),
        "edge_attr": (EDGES, backbone.edge_channels),
        "batch": (NODES,),
        "u": (GRAPHS, model.saved.spec.global_channels),
    }
    return {name: shape for name, shape in shapes.items() if shape[-1] != 0}


def graph_tensors(model: Model, inputs: Any) -> dict[str, Tensor]:
    """The inputs of the network for SMILES or graphs, all in one batch; see `Model.inputs`."""
    if isinstance(inputs, str | Path) and not model.reads_smiles:
        found: Any = read_graphs(inputs, schema=model.schema("export it")).store
    else:
        found = model.read(inputs, "inputs")
    if not isinstance(found, GraphStore):
        table = inputs if hasattr(inputs, "columns") else None
        molecules = model.featurize(found, table)
        for row, reason in molecules.errors.items():
            raise InputError(f"inputs: row {row + 1} has no graph ({reason}): leave it out.")
        found = molecules.store
    if not len(found):
        raise InputError("inputs: there is no graph: give at least one.")
    batch = model.encoded(found).to(model.device).batch()
    return {name: getattr(batch, name) for name in input_shapes(model)}


def columns_of(task: Task) -> list[str]:
    """The names of the columns of an exported prediction: numbers, and probabilities of classes."""
    names: list[str] = []
    for part in parts_of(task):
        if not part.classes:
            names.append(f"predicted_{part.name}")
            continue
        shown = part.classes if len(part.columns) == len(part.classes) else part.classes[1:]
        names += [f"probability_{part.name}_{label}" for label in shown]
    return names


def metadata(model: Model) -> dict[str, Any]:
    """What a user of an exported file needs to know, in plain values."""
    spec, task = model.saved.spec, model.task
    assert isinstance(task, OneLevelTask)
    return {
        "smpgnn": version("smpgnn"),
        "model": spec.options.model,
        "inputs": {name: list(shape) for name, shape in input_shapes(model).items()},
        "output": [NODES if spec.level == "node" else GRAPHS, len(columns_of(task))],
        "columns": columns_of(task),
        "targets": [_target(one) for one in _parts(task)],
        "features": _feature_names(model),
        "source": model.saved.source,
    }


def _parts(task: OneLevelTask) -> list[OneLevelTask]:
    return list(task.parts) if isinstance(task, MixedTargets) else [task]


def _target(task: OneLevelTask) -> dict[str, Any]:
    """Names and classes of targets; the exported numbers are not standardised any more."""
    if isinstance(task, Regression):
        return {
            "names": list(task.names),
            "mean": list(task.mean),
            "scale": list(task.scale),
            "log10": task.log10,
        }
    return {"names": task.target_names(), "classes": list(getattr(task, "classes", ()))}


def _feature_names(model: Model) -> dict[str, list[str]]:
    """The names of the columns of x and edge_attr of molecules, and of u."""
    found: dict[str, list[str]] = {}
    if model.saved.source["kind"] == "molecules":
        from smpgnn.data.molecules import MoleculeFeaturizer

        featurizer = MoleculeFeaturizer()
        found = {"x": list(featurizer.atom_features), "edge_attr": list(featurizer.bond_features)}
    if len(model.descriptors):
        found["u"] = [*model.descriptors.rdkit, *model.descriptors.columns]
    return found
