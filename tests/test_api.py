"""smpgnn.train and smpgnn.load in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import smpgnn
from smpgnn.config.metrics import METRICS
from smpgnn.errors import InputError
from smpgnn.training.train import Result

SMALL: dict[str, Any] = {
    "epochs": 2, "hidden_channels": 8, "num_layers": 2, "device": "cpu", "quiet": True,
}  # fmt: skip


def path_graph(n: int, **more: Any) -> Data:
    a = torch.arange(n - 1)
    edges = torch.stack([torch.cat([a, a + 1]), torch.cat([a + 1, a])])
    return Data(x=torch.arange(n).float().view(-1, 1) / n, edge_index=edges, **more)


def with_graph_targets(count: int = 12) -> list[Data]:
    return [path_graph(3 + i % 4, y=torch.tensor([i / 3])) for i in range(count)]


@pytest.fixture(scope="module")
def graph_run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("api") / "run"
    return smpgnn.train("graphs", with_graph_targets(), output=str(folder), **SMALL)


def test_graphs(graph_run: Result) -> None:
    assert graph_run.test["mae"] >= 0
    assert graph_run.saved.task.columns() == ["predicted_y"]
    assert (graph_run.folder / "metrics.csv").exists()
    model = smpgnn.load(graph_run.folder)
    frame = model.predict(with_graph_targets())
    assert list(frame.columns) == ["predicted_y", "error"]
    assert len(frame) == 12
    assert frame["error"].isna().all()
    # one by one gives the same, with or without targets in the graphs
    alone = [float(model.predict([path_graph(3 + i % 4)])["predicted_y"][0]) for i in range(12)]
    assert frame["predicted_y"].tolist() == pytest.approx(alone, rel=1e-4)
    mixed = [path_graph(3), path_graph(4, y=torch.tensor([1.0])), path_graph(5, y=torch.rand(5))]
    assert len(model.predict(mixed)) == 3
    assert mixed[1].y is not None  # what was given is not changed


def test_metrics_on_graphs_of_ones_own(graph_run: Result) -> None:
    graphs = with_graph_targets()
    model = smpgnn.load(graph_run.folder)
    said = model.predict(graphs)["predicted_y"]
    known = [float(graph.y) for graph in graphs]
    error = sum(abs(a - b) for a, b in zip(said, known, strict=True)) / 12
    assert model.evaluate(graphs)["mae"] == pytest.approx(error, rel=1e-4)
    rows = [line.split(",") for line in (graph_run.folder / "splits.csv").read_text().split()]
    test = [graphs[int(row) - 1] for row, split in rows if split == "test"]
    assert model.evaluate(test) == pytest.approx(graph_run.test)
    for other, said in (
        ([path_graph(3)], "the graphs have no target"),
        ([path_graph(3, y=torch.rand(1, 2))], "the graphs have 2 targets, but the model has 1"),
        ([Data(x=torch.rand(2, 5), edge_index=torch.zeros(2, 0).long(), y=torch.rand(1))],
         "the graphs have 5 node features, but the model takes 1"),
        ([path_graph(3, y=torch.tensor([float("nan")]))], "have no known target"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            model.evaluate(other)
    with pytest.raises(InputError, match="does not exist"):
        smpgnn.load("zinc").evaluate("nowhere.csv")


def test_nodes(tmp_path: Path) -> None:
    graphs = [path_graph(n, y=torch.arange(n) % 2) for n in (4, 5, 6, 7)]
    result = smpgnn.train("graphs", graphs, level="node", output=str(tmp_path / "run"), **SMALL)
    assert set(result.test) == {*METRICS["classification"]}
    assert set(smpgnn.load(tmp_path / "run").evaluate(graphs)) == {*METRICS["classification"]}
    frame = smpgnn.load(tmp_path / "run").predict(graphs[:2])
    assert len(frame) == 9
    assert set(frame["predicted_y"]) <= {"0", "1"}


def test_several_targets_get_names(tmp_path: Path) -> None:
    graphs = [path_graph(3, y=torch.rand(1, 2)) for _ in range(9)]
    result = smpgnn.train("graphs", graphs, output=str(tmp_path / "run"), **SMALL)
    assert result.saved.task.columns() == ["predicted_y0", "predicted_y1"]
    with pytest.raises(InputError, match="targets: 1 names were given for 2 targets"):
        smpgnn.train("graphs", graphs, targets=["a"])


def test_the_task_of_a_target_can_be_given(tmp_path: Path) -> None:
    graphs = [path_graph(3, y=torch.tensor([i % 3])) for i in range(12)]
    result = smpgnn.train(
        "graphs", graphs, task="classification", output=str(tmp_path / "run"), **SMALL
    )
    assert result.saved.task.columns() == [
        "predicted_y",
        "probability_y_0",
        "probability_y_1",
        "probability_y_2",
    ]


def test_cycles_and_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Any] = {
        **SMALL, "k": 4, "n": 12, "train_samples": 32, "test_samples": 32, "batch_size": 128,
        "output": str(tmp_path / "run"),
    }  # fmt: skip
    smpgnn.train("cycles", **options)
    assert capsys.readouterr().err == ""
    smpgnn.train("cycles", **{**options, "quiet": False, "output": str(tmp_path / "loud")})
    assert "Graphs: 32 training, 1000 validation, 32 test." in capsys.readouterr().err


def test_molecules(tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    rows = [f"{'C' * (1 + i % 6)}{('', 'O', 'N')[i % 3]},{i % 6}.5" for i in range(30)]
    data.write_text("smiles,size\n" + "\n".join(rows) + "\n")
    result = smpgnn.train(
        "molecules", path=str(data), targets=["size"], output=str(tmp_path / "run"), **SMALL
    )
    model = smpgnn.load(result.folder)
    frame = model.predict(["CCO", "nonsense", None, "OCC", float("nan")])
    assert list(frame.columns) == ["predicted_size", "error"]
    assert frame["error"].isna().tolist() == [True, False, False, True, False]
    assert frame["predicted_size"][0] == pytest.approx(frame["predicted_size"][3], rel=1e-4)
    assert frame["predicted_size"].isna().tolist() == [False, True, True, False, True]
    assert len(model.predict([])) == 0
    with pytest.raises(InputError, match="takes a list of SMILES, not a string"):
        model.predict("CCO")
    with pytest.raises(InputError, match=r"the graphs have 1 node features, but the model takes"):
        model.predict([path_graph(3)])


def test_resume(graph_run: Result) -> None:
    folder = str(graph_run.folder)
    again = smpgnn.train("graphs", with_graph_targets(), output=folder, resume=True, quiet=True)
    assert again.test == graph_run.test
    with pytest.raises(InputError, match="--epochs 5: the run has 2"):
        smpgnn.train("graphs", with_graph_targets(), output=folder, resume=True, epochs=5)


def test_wrong_calls(graph_run: Result) -> None:
    calls: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        (
            ("cats",),
            {},
            "task must be one of cycles, properties, zinc, counting, molecules, graph",
        ),
        (("cycles",), {"preset": "mine"}, "preset must be 'paper' or 'small', not 'mine'"),
        (
            ("molecules",),
            {"preset": "paper"},
            "--preset paper: 'molecules' has no preset of this name: choose small, or leave it out",
        ),
        (("cycles",), {"epoch": 3}, "train: unknown key 'epoch': did you mean 'epochs'?"),
        (("cycles",), {"epochs": "3"}, "train: epochs must be a whole number, not '3'"),
        (
            ("cycles", with_graph_targets()),
            {},
            "go with tasks 'molecules' and 'graphs', not 'cycles'",
        ),
        (("graphs", []), {}, "The list contains no graphs"),
        (("graphs", [path_graph(3)] * 5), {}, "the graphs have no targets: add 'y' to each"),
        (("graphs", [1, 2, 3]), {}, "Graph 0 has no edge_index"),
        (("graphs",), {}, "graphs: name the file or folder"),
    ]
    for words, options, message in calls:
        with pytest.raises(InputError) as caught:
            smpgnn.train(*words, **options)
        assert message in str(caught.value)
    model = smpgnn.load(graph_run.folder)
    for inputs, message in [
        (["CCO"], "trained on graphs: give it graphs, not SMILES"),
        ([3], "takes graphs of PyTorch Geometric, not int"),
        ([], "The list contains no graphs"),
        ([Data(x=torch.rand(2, 3), edge_index=torch.zeros(2, 0).long())], "3 node features"),
    ]:
        with pytest.raises(InputError) as caught:
            model.predict(inputs)
        assert message in str(caught.value)
