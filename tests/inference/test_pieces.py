"""A graph that cannot be done has its reason, and the others have their predictions."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import smpgnn
from smpgnn.data.pyg import graphs_from_pyg
from smpgnn.data.store import GraphBatch
from smpgnn.errors import InputError
from smpgnn.inference import pieces
from smpgnn.inference.pieces import in_pieces
from smpgnn.inference.predict import Model
from smpgnn.training import memory

SIZES = [3, 200, 4, 5, 300, 6]


def path_graph(nodes: int) -> Data:
    """A path; its target is the number of nodes."""
    ends = torch.arange(nodes - 1)
    edges = torch.stack([torch.cat([ends, ends + 1]), torch.cat([ends + 1, ends])])
    x = torch.linspace(0, 1, nodes).view(-1, 1)
    return Data(x=x, edge_index=edges, y=torch.tensor([float(nodes)]), num_nodes=nodes)


GRAPHS = [path_graph(nodes) for nodes in SIZES]
STORE = graphs_from_pyg(GRAPHS)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    options = {"hidden_channels": 8, "num_layers": 2, "epochs": 1, "device": "cpu"}
    options |= {"identifiers": "onehot"}
    folder = tmp_path_factory.mktemp("runs") / "run"
    graphs = [path_graph(3 + number % 5) for number in range(20)]
    smpgnn.train("graphs", graphs, output=str(folder), quiet=True, **options)
    return smpgnn.load(folder, "cpu")


def failing(error: Exception, sizes: list[int]) -> list[tuple[list[int], str]]:
    """The pieces, where graphs of more than 100 nodes fail in this way."""

    def work(batch: GraphBatch) -> int:
        if int(torch.bincount(batch.batch).max()) > 100:
            raise error
        return batch.num_graphs

    store = graphs_from_pyg([path_graph(nodes) for nodes in sizes])
    return [(piece.graphs, piece.error) for piece in in_pieces(store, None, 10**9, work)]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: not enough memory"
        ),
        RuntimeError("Storage size calculation overflowed with sizes=[10, 10]"),
    ],
)
def test_what_runs_out_of_memory_is_tried_alone(error: Exception) -> None:
    found = failing(error, SIZES)
    assert [graphs for graphs, _ in found] == [[0], [1], [2], [3], [4], [5]]
    reasons = [reason for _, reason in found]
    assert reasons[1] == "too large: its 200 nodes need more memory than is free on cpu"
    assert reasons[4] == "too large: its 300 nodes need more memory than is free on cpu"
    assert [reason for reason in reasons if not reason] == [""] * 4


def test_what_the_network_refuses_is_told_and_other_errors_are_not_hidden() -> None:
    assert failing(InputError("no such graph."), [200]) == [([0], "no such graph")]
    with pytest.raises(RuntimeError, match="a bug"):
        failing(RuntimeError("a bug"), SIZES)
    assert failing(MemoryError(), [3, 4]) == [([0, 1], "")]


def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were room for graphs of a hundred nodes or so."""
    monkeypatch.setattr(memory, "_LITTLE", 0)
    monkeypatch.setattr(pieces, "room", lambda device: 10e6)


def test_predictions_go_on(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = model.predict(GRAPHS)
    assert expected["error"].isna().all()
    little_memory(monkeypatch)
    frame = model.predict(GRAPHS)
    assert frame.index[frame["error"].notna()].tolist() == [1, 4]
    assert frame.index[frame["predicted_y"].isna()].tolist() == [1, 4]
    assert "300 nodes" in frame["error"][4]
    kept = [0, 2, 3, 5]
    assert frame["predicted_y"][kept].tolist() == pytest.approx(
        expected["predicted_y"][kept].tolist(), rel=1e-4
    )


def test_explanations_go_on(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    small = [GRAPHS[number] for number in (0, 2, 3, 5)]
    expected = model.explain(small, steps=2)
    little_memory(monkeypatch)
    frame = model.explain(GRAPHS, steps=2)
    failed = frame[frame["error"].notna()]
    assert failed["graph"].tolist() == ["2", "5"]
    assert failed["added_y"].isna().all()
    rest = frame[frame["error"].isna()]
    assert rest["added_y"].tolist() == pytest.approx(expected["added_y"].tolist(), abs=1e-4)


def test_no_number_is_an_error(model: Model, tmp_path: Path) -> None:
    loud = path_graph(4)
    loud.x = torch.full((4, 1), 3e38)
    frame = model.predict([path_graph(3), loud, path_graph(5)])
    assert frame["error"].tolist()[1] == "the prediction is not a finite number"
    assert frame["predicted_y"].isna().tolist() == [False, True, False]
    explained = model.explain([path_graph(3), loud], steps=2)
    assert explained["error"].dropna().tolist() == ["the prediction is not a finite number"]


def test_a_graph_that_no_memory_holds_is_not_tried(model: Model) -> None:
    """Its contexts have 10^12 rows; only the estimate is made."""
    frame = model.predict([path_graph(3), path_graph(1_000_000)])
    assert "its 1,000,000 nodes need more memory" in frame["error"][1]
    assert frame["predicted_y"].isna().tolist() == [False, True]
