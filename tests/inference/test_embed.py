"""Embeddings: the last layer of an embedding is the prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from smpgnn.errors import InputError
from smpgnn.inference.embed import embed_batch, embed_graphs, embed_table
from smpgnn.inference.predict import Model
from smpgnn.models.registry import NetworkSpec
from smpgnn.training.saved import SavedModel
from smpgnn.training.tasks import Classification, GraphProperties, Regression

NAMES = ("smp", "fast-smp", "mpnn", "gin", "gin-random", "rp", "ppgn", "pna", "gat")
SMILES = ["CCO", "nonsense", "c1ccccc1", "CC(=O)N"]


def spec(**values: Any) -> NetworkSpec:
    model = values.pop("model", "smp")
    options = NetworkSpec().options.changed(model=model, hidden_channels=8, num_layers=2, dropout=0)
    return NetworkSpec(**{"graph_outputs": 2, "max_nodes": 9, **values}, options=options)


def model_of(spec: NetworkSpec, task: Any, source: dict[str, Any]) -> Model:
    torch.manual_seed(0)
    return Model(SavedModel(spec.build().eval(), spec, task, source), "cpu")


@pytest.fixture(scope="module")
def molecules() -> Model:
    task = Regression(names=("a", "b"), mean=(1.0, -2.0), scale=(3.0, 0.5))
    return model_of(spec(in_channels=32, edge_channels=9), task, {"kind": "molecules"})


def graphs(count: int = 5) -> list[Data]:
    generator = torch.Generator().manual_seed(0)
    found = []
    for size in range(2, 2 + count):
        ends = torch.arange(size - 1)
        edges = torch.cat([torch.stack([ends, ends + 1]), torch.stack([ends + 1, ends])], 1)
        x = torch.rand(size, 3, generator=generator)
        found.append(Data(x=x, edge_index=edges, num_nodes=size))
    return found


def values(frame: pd.DataFrame) -> torch.Tensor:
    return torch.tensor(frame.drop(columns="error").to_numpy(np.float32))


@pytest.mark.parametrize("name", NAMES)
def test_the_last_layer_of_the_embedding_is_the_prediction(name: str) -> None:
    task = Classification(classes=("x", "y"))
    model = model_of(spec(model=name, in_channels=3), task, {"kind": "graphs"})
    torch.manual_seed(1)  # some networks draw random inputs
    found = values(model.embed(graphs()))
    network: Any = model.network
    assert found.shape == (5, network.out.in_features)
    shares = network.out(found).softmax(1)[:, 1].tolist()
    torch.manual_seed(1)
    np.testing.assert_allclose(shares, model.predict(graphs())["probability_y_y"], rtol=1e-4)


def test_of_nodes_and_with_features_of_graphs(molecules: Model) -> None:
    task = Regression(names=("a", "b"), mean=(0.0, 0.0), scale=(1.0, 1.0), level="node")
    shape = spec(in_channels=3, graph_outputs=0, node_outputs=2)
    model = model_of(shape, task, {"kind": "graphs"})
    network: Any = model.network
    expected = model.predict(graphs())[["predicted_a", "predicted_b"]]
    np.testing.assert_allclose(
        network.out(values(model.embed(graphs()))).tolist(), expected, atol=1e-5
    )
    columns = {"rdkit": [], "columns": ["T"]}
    shape = spec(in_channels=32, edge_channels=9, global_channels=1)
    source = {"kind": "molecules", "descriptors": columns}
    model = model_of(shape, molecules.task, source)
    network = model.network
    frame = pd.DataFrame({"smiles": ["CCO", "CCO"], "T": [1.0, -1.0]})
    found = values(model.embed(frame))
    assert not torch.allclose(found[0], found[1])
    expected = model.predict(frame)[["predicted_a", "predicted_b"]]
    np.testing.assert_allclose(
        model.task.measured(network.out(found)).tolist(), expected, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz"])
def test_files_equal_python(molecules: Model, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("rdkit")
    expected = molecules.embed(SMILES)
    assert expected["error"].tolist() == [None, "the text is not a SMILES", None, None]
    assert expected.iloc[1, :-1].isna().all()
    pd.DataFrame({"id": range(4), "smiles": SMILES}).to_csv(tmp_path / "in.csv", index=False)
    output = tmp_path / f"out{suffix}"
    written = embed_table(molecules, tmp_path / "in.csv", output)
    assert (written.rows, written.failed) == (4, 1)
    found = pd.read_parquet(output) if suffix == ".parquet" else pd.read_csv(output)
    assert list(found.columns) == ["smiles", *expected.columns]
    assert found["smiles"].tolist() == SMILES
    assert found["error"].fillna("").tolist() == ["", "the text is not a SMILES", "", ""]
    torch.testing.assert_close(
        values(found.drop(columns="smiles")), values(expected), equal_nan=True
    )


def test_nothing_is_left_of_a_failed_file(molecules: Model, tmp_path: Path) -> None:
    pd.DataFrame({"SMILES": SMILES}).to_csv(tmp_path / "in.csv", index=False)
    with pytest.raises(InputError, match="has no column 'smiles'"):
        embed_table(molecules, tmp_path / "in.csv", tmp_path / "out.parquet")
    (tmp_path / "in.csv").write_text('smiles\nCC\n"C')  # a quote that never ends
    with pytest.raises(InputError):
        embed_table(molecules, tmp_path / "in.csv", tmp_path / "out.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["in.csv"]


def test_graph_files(tmp_path: Path) -> None:
    import networkx as nx

    for number in range(3):
        graph = nx.path_graph(3 + number)
        nx.set_node_attributes(graph, 1.5, "w")
        nx.write_graphml(graph, tmp_path / f"g{number}.graphml")
    from smpgnn.data.graph_schema import Attribute, GraphSchema

    schema = GraphSchema("graph", node_attributes=(Attribute("w", "number"),))
    source = {"kind": "graphs", "schema": schema.to_dict()}
    model = model_of(spec(in_channels=1), Regression(names=("a", "b"), mean=(0, 0), scale=(1, 1)),
                     source)  # fmt: skip
    written = embed_graphs(model, tmp_path, tmp_path.parent / "out.parquet")
    found = pd.read_parquet(tmp_path.parent / "out.parquet")
    assert written.rows == len(found) == 3
    assert found.columns[0] == "graph"
    assert found["graph"].str.startswith("g").all()


def test_a_model_of_nodes_and_graphs_has_none() -> None:
    shape = spec(in_channels=3, node_outputs=3, graph_outputs=3)
    model = model_of(shape, GraphProperties(), {"kind": "graphs"})
    with pytest.raises(InputError, match="so it has no embedding"):
        model.embed(graphs())


def test_training_mode_and_hooks_are_left_alone(molecules: Model) -> None:
    network: Any = molecules.network
    batch = molecules.featurize(["CCO"]).store.batch()
    embed_batch(network, batch)
    assert not network.out._forward_pre_hooks
    assert not network.training
