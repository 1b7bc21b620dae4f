"""Integer features of PyG graphs: categories of the training split, and one class for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import smpgnn
from smpgnn.data.categories import Categories
from smpgnn.data.graph_schema import MAX_CATEGORIES
from smpgnn.data.pyg import graphs_from_pyg
from smpgnn.errors import InputError
from smpgnn.training.saved import load_model

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
SMALL: dict[str, Any] = {
    "hidden_channels": 8,
    "num_layers": 2,
    "batch_size": 8,
    "epochs": 1,
    "device": "cpu",
    "logger": "none",
    "quiet": True,
}


def path(types: list[int], bonds: list[int], **more: Any) -> Data:
    """A path of three nodes with a type and a mark each, and a type of each edge."""
    x = torch.tensor([[kind, number % 2] for number, kind in enumerate(types)])
    return Data(x=x, edge_attr=torch.tensor(bonds), edge_index=EDGES, **more)


def paths(count: int = 30) -> list[Data]:
    graphs = [path([6, 7, (6, 8)[i % 2]], [1, 1, 2 + i % 2, 2], y=float(i)) for i in range(count)]
    graphs[-1].x[0, 0] = 99  # only in the test split
    return graphs


ROWS = {"train": range(20), "val": range(20, 25), "test": range(25, 30)}


def test_channels_by_hand() -> None:
    store = graphs_from_pyg([path([7, 6, 9], [1, 2, 2, 3])])
    known = Categories(node=((6, 7), ()), edge=((1, 2),))
    encoded = known.encode(store)
    assert encoded.x is not None
    assert encoded.edge_attr is not None
    assert encoded.x.tolist() == [[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 0]]
    assert encoded.edge_attr.tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]
    floats = Data(x=store.x.float(), edge_attr=store.edge_attr, edge_index=EDGES)  # type: ignore[union-attr]
    assert torch.equal(known.encode(graphs_from_pyg([floats])).x, encoded.x)  # type: ignore[arg-type]
    floats.x[0, 0] += 0.5
    with pytest.raises(InputError, match="column 0 of x has numbers that are not whole"):
        known.encode(graphs_from_pyg([floats]))


@pytest.mark.parametrize(
    "x",
    [
        torch.eye(3, dtype=torch.long),
        torch.tensor([[True], [False], [True]]),
        torch.tensor([[1.0], [2.0], [3.0]]),
        torch.tensor([[0], [1], [1]], dtype=torch.uint8),
    ],
    ids=["one-hot", "bool", "float", "marks"],
)
def test_what_stays_a_number(x: torch.Tensor) -> None:
    store = graphs_from_pyg([Data(x=x, edge_index=EDGES)])
    assert not Categories.fit(store)
    assert Categories.fit(store).encode(store).x is store.x


def test_counts_stay_numbers() -> None:
    ids = torch.arange(MAX_CATEGORIES + 1)
    many = Data(x=torch.stack([ids, ids % 3], 1), edge_index=EDGES)
    found = Categories.fit(graphs_from_pyg([many]))
    assert found.node == ((), (0, 1, 2))
    fewer = Data(x=ids[1:, None] - 5, edge_index=EDGES)
    assert len(Categories.fit(graphs_from_pyg([fewer])).node[0]) == MAX_CATEGORIES


def test_a_model_has_the_categories_of_its_training_split(tmp_path: Path) -> None:
    result = smpgnn.train("graphs", paths(), **ROWS, **SMALL, output=tmp_path / "run")
    saved = load_model(result.folder)
    assert saved.source["categories"] == {"node": [[6, 7, 8], []], "edge": [[1, 2, 3]]}
    assert (saved.spec.in_channels, saved.spec.edge_channels) == (5, 4)
    model = smpgnn.load(result.folder)
    tests = paths()[25:]
    assert model.evaluate(tests) == pytest.approx(result.test, rel=1e-5)
    # all that was not in training is the same class
    one, other = (model.predict([path([6, kind, 8], [1] * 4)])["predicted_y"][0] for kind in (5, 9))
    assert one == other
    assert one != model.predict([path([6, 7, 8], [1] * 4)])["predicted_y"][0]
    assert len(model.explain(tests[:1])) == 4
    with pytest.raises(InputError, match="the graphs have 1 node features, but the model takes 2"):
        model.predict([Data(x=torch.ones(3, 1), edge_index=EDGES, edge_attr=EDGES[0])])


def test_a_note_and_the_way_back(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    loud = {**SMALL, "quiet": False}
    smpgnn.train("graphs", paths(), **ROWS, **loud, output=tmp_path / "run")
    assert (
        "Integers are categories: column 0 of x (3), column 0 of edge_attr (3); "
        "integers='numbers' keeps them as they are.\n"
    ) in capfd.readouterr().err
    numbers = smpgnn.train(
        "graphs", paths(), **ROWS, **loud, output=tmp_path / "numbers", integers="numbers"
    )
    assert "categories" not in capfd.readouterr().err
    saved = load_model(numbers.folder)
    assert saved.spec.in_channels == 2
    assert "categories" not in saved.source


def test_resume_keeps_what_the_run_has(tmp_path: Path) -> None:
    for integers in ("numbers", "categories"):
        place = tmp_path / integers
        smpgnn.train("graphs", paths(), **ROWS, **SMALL, output=place, integers=integers)
        (place / "run.json").unlink()
        text = (place / "config.yaml").read_text()
        if integers == "numbers":  # as an older version wrote it
            (place / "config.yaml").write_text(text.replace("integers: numbers\n", ""))
        again = smpgnn.train("graphs", paths(), **ROWS, output=place, resume=True, quiet=True)
        assert ("categories" in again.saved.source) == (integers == "categories")


def test_without_edge_features_they_do_not_matter(tmp_path: Path) -> None:
    result = smpgnn.train(
        "graphs", paths(), **ROWS, **SMALL, output=tmp_path / "run", edge_features=False
    )
    model = smpgnn.load(result.folder)
    bare = Data(x=torch.tensor([[6, 0], [7, 1], [8, 0]]), edge_index=EDGES)
    wide = Data(x=bare.x, edge_index=EDGES, edge_attr=torch.ones(4, 5))
    assert model.predict([bare]).equals(model.predict([wide]))


def test_damaged_categories_are_refused(tmp_path: Path) -> None:
    for values in ({"node": [[1, 2, 3]]}, {"node": [[2, 1, 1], []]}, {"node": [[1, 2, 2**70], []]}):
        with pytest.raises(InputError):
            Categories.from_dict(values).check(5, 0)
    Categories.from_dict({"node": [[1, 2, 3], []]}).check(5, 0)


def test_files_have_texts(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="integers: applies to graphs from Python; in files, write"
    ):
        smpgnn.train("graphs", tmp_path, integers="categories")
