"""Exported models give the numbers of `predict`, in a process without smpgnn."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from smpgnn.errors import InputError
from smpgnn.inference.export import export_model
from smpgnn.inference.graph_tensors import metadata
from smpgnn.inference.predict import Model, load
from smpgnn.models.registry import NetworkSpec
from smpgnn.training.saved import SavedModel
from smpgnn.training.tasks import (
    Classification,
    GraphProperties,
    MixedTargets,
    MultiLabel,
    Regression,
)

needs_onnx = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("onnx", "onnxscript", "onnxruntime")),
    reason="needs onnxscript and onnxruntime",
)
#: Never seen in tracing: one atom, salts, rings, chains.
SMILES = ["C", "CCO", "[Na+].[Cl-]", "c1ccc2ccccc2c1", "CC(=O)Oc1ccccc1C(=O)O", "O=C=O", "C1CC1"]

ONNX = """
import json, sys
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
inputs = dict(np.load(sys.argv[2]))
assert sorted(i.name for i in session.get_inputs()) == sorted(inputs)
(found,) = session.run(None, inputs)
about = json.loads(session.get_modelmeta().custom_metadata_map["smpgnn"])
"""
PACKAGE = """
import json, sys
import numpy as np, torch
from torch._inductor import aoti_load_package
model = aoti_load_package(sys.argv[1])
inputs = {name: torch.from_numpy(value) for name, value in np.load(sys.argv[2]).items()}
found = model(**inputs).numpy()
about = json.loads(model.get_metadata()["smpgnn"])
"""
END = """
assert "smpgnn" not in sys.modules and "torch_geometric" not in sys.modules
np.savez(sys.argv[3], found=found, columns=about["columns"])
"""


def elsewhere(path: Path, inputs: dict[str, torch.Tensor]) -> pd.DataFrame:
    """The predictions of an exported file in a process without smpgnn."""
    given, result = path.with_suffix(".in.npz"), path.with_suffix(".out.npz")
    np.savez(given, **{name: value.numpy() for name, value in inputs.items()})
    script = (ONNX if path.suffix == ".onnx" else PACKAGE) + END
    words = [sys.executable, "-W", "ignore", "-c", script, str(path), str(given), str(result)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=path.parent, check=False)
    assert done.returncode == 0, done.stderr
    found = np.load(result)
    return pd.DataFrame(found["found"], columns=found["columns"])


def assert_as_predicted(model: Model, inputs: Any, path: Path) -> None:
    export_model(model, path)
    found, expected = elsewhere(path, model.inputs(inputs)), model.predict(inputs)
    assert len(found) == len(expected)
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-5)
    assert list(found) == metadata(model)["columns"]


def model_of(task: Any, source: dict[str, Any], **values: Any) -> Model:
    torch.manual_seed(0)
    outputs = {"node_outputs": task.node_outputs, "graph_outputs": task.graph_outputs}
    kept = {n: values.pop(n) for n in ("in_channels", "edge_channels", "global_channels")
            if n in values}  # fmt: skip
    options = NetworkSpec().options.changed(**{"hidden_channels": 8, "num_layers": 2, **values})
    spec = NetworkSpec(**outputs, **kept, max_nodes=20, options=options)
    network = spec.build()
    for parameter in network.parameters():  # norms and biases, too
        torch.nn.init.normal_(parameter, std=0.3)
    return Model(SavedModel(network.eval(), spec, task, source), "cpu")


def molecules(**values: Any) -> Model:
    task = Regression(names=("a", "b"), mean=(1.0, -2.0), scale=(0.5, 0.1), log10=True)
    shown = {"identifiers": "local", "norm": "batch", "features": "row", "own_terms": True}
    return model_of(
        task, {"kind": "molecules"}, in_channels=32, edge_channels=9, **{**shown, **values}
    )


def graphs(count: int = 5, width: int = 3) -> list[Data]:
    """Directed graphs of 1, 2, … nodes, without edges first."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for size in range(1, 1 + count):
        edges = torch.randint(size, (2, 2 * (size - 1)), generator=generator)
        x = torch.rand(size, width, generator=generator)
        found.append(Data(x=x, edge_index=edges, num_nodes=size))
    return found


@needs_onnx
def test_onnx_of_molecules(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    assert_as_predicted(molecules(num_layers=1), SMILES, tmp_path / "model.onnx")


@pytest.mark.slow
@needs_onnx
def test_onnx_of_graphs_and_classes(tmp_path: Path) -> None:
    task = Classification(name="kind", classes=("x", "y", "z"))
    model = model_of(task, {"kind": "graphs"}, in_channels=3, identifiers="neighborhood")
    assert_as_predicted(model, graphs(), tmp_path / "model.onnx")


@pytest.mark.slow
@needs_onnx
def test_onnx_of_nodes_without_features(tmp_path: Path) -> None:
    task = MultiLabel(names=("p", "q"), classes=(("0", "1"), ("no", "yes")), level="node")
    model = model_of(task, {"kind": "graphs"}, model="fast-smp", norm="layer")
    assert_as_predicted(model, graphs(), tmp_path / "model.onnx")


@pytest.mark.slow
@needs_onnx
@pytest.mark.parametrize(
    "values",
    [
        {"model": name}
        for name in ("mpnn", "gin", "gin-degree", "gat", "pna", "mpnn-sum", "gated-gcn", "ppgn",
                     "ring-gnn")
    ]
    + [
        {"identifiers": "pairs"},
        {"first_rows": ("distance", "bond"), "features": "both", "identifiers": "local"},
        {"first_rows": ("walks",), "walk_steps": 3},
        {"terms": ("inside", "mirror", "folklore"), "identifiers": "local"},
        {"terms": ("product",), "identifiers": "local"},
        {"readout": "mean+max", "towers": 2, "divide_update": True, "norm_place": "after",
         "norm": "layer", "residual": True, "message_residual": True},
    ],
    ids=str,
)  # fmt: skip
def test_onnx_of_other_networks(values: dict[str, Any], tmp_path: Path) -> None:
    task = MixedTargets(
        parts=(Regression(names=("a",)), Classification(name="k", classes=("x", "y", "z"))),
        scales=(1.0, 1.0),
    )
    model = model_of(task, {"kind": "graphs"}, in_channels=3, **values)
    assert_as_predicted(model, graphs(), tmp_path / "model.onnx")


@pytest.mark.slow
@needs_onnx
def test_onnx_with_descriptors(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    from smpgnn.data.descriptors import Descriptors

    names = Descriptors.named(["rdkit"])
    source = {"kind": "molecules", "descriptors": names.to_dict()}
    task = Regression(names=("a",))
    model = model_of(
        task, source, in_channels=32, edge_channels=9, global_channels=len(names),
        identifiers="local",
    )  # fmt: skip
    assert "u" in model.inputs(SMILES)
    assert_as_predicted(model, SMILES, tmp_path / "model.onnx")


@pytest.mark.slow
def test_a_package_of_molecules(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    assert_as_predicted(molecules(), SMILES, tmp_path / "model.pt2")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["onehot", "neighborhood", "pairs"])
def test_a_package_of_graphs(kind: str, tmp_path: Path) -> None:
    task = Classification(name="kind", classes=("x", "y"), level="node")
    model = model_of(task, {"kind": "graphs"}, in_channels=3, identifiers=kind)
    assert_as_predicted(model, graphs(), tmp_path / "model.pt2")


@pytest.mark.slow
@needs_onnx
@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_the_model_of_zinc(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    model = load("zinc", "cpu")
    assert_as_predicted(model, ["C", *SMILES[3:]], tmp_path / f"zinc{suffix}")


def test_inputs_of_smiles_and_graphs() -> None:
    pytest.importorskip("rdkit")
    found = molecules().inputs(["C", "CCO"])
    assert {name: list(value.shape) for name, value in found.items()} == {
        "x": [4, 32], "edge_index": [2, 4], "edge_attr": [4, 9], "batch": [4],
    }  # fmt: skip
    assert found["batch"].tolist() == [0, 1, 1, 1]
    with pytest.raises(InputError, match="row 2 has no graph"):
        molecules().inputs(["C", "nonsense"])
    with pytest.raises(InputError, match="no graph"):
        molecules().inputs([])


def test_metadata_are_plain_and_name_the_features() -> None:
    about = json.loads(json.dumps(metadata(molecules())))
    assert len(about["features"]["x"]) == 32
    assert len(about["features"]["edge_attr"]) == 9
    assert about["targets"] == [
        {"names": ["a", "b"], "mean": [1.0, -2.0], "scale": [0.5, 0.1], "log10": True}
    ]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"model": "gin-random"}, "draws random numbers"),
        ({"model": "rp"}, "draws random numbers"),
        ({"model": "dgn"}, "graph by graph"),
        ({"model": "mpnn-jt"}, "graph by graph"),
        ({"identifiers": "coloring"}, "one after another"),
        ({"terms": ("block-product",)}, "blocks of each graph"),
    ],
    ids=str,
)
def test_what_cannot_be_exported(values: dict[str, Any], reason: str, tmp_path: Path) -> None:
    model = model_of(Regression(), {"kind": "graphs"}, in_channels=3, **values)
    with pytest.raises(InputError, match=reason):
        export_model(model, tmp_path / "model.pt2")
    assert not list(tmp_path.iterdir())


def test_networks_for_two_levels_cannot_be_exported(tmp_path: Path) -> None:
    model = model_of(GraphProperties(), {"kind": "graphs"}, in_channels=2)
    with pytest.raises(InputError, match="together"):
        export_model(model, tmp_path / "model.pt2")


def test_the_name_of_the_file_decides(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in \.pt2"):
        export_model(molecules(), tmp_path / "model.pt")
