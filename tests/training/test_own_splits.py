"""Splits of the user's own data: duplicates, times, masks of nodes, splits from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from small_runs import GRAPHS
from torch_geometric.data import Data

import smpgnn
from smpgnn.config.options import GraphsOptions, MoleculesOptions
from smpgnn.errors import InputError
from smpgnn.training.evaluation import evaluate_store
from smpgnn.training.from_python import prepare_python
from smpgnn.training.network import run_network
from smpgnn.training.prepare import Prepared, prepare
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.train import Result

SMALL: dict[str, Any] = {**GRAPHS, "epochs": 1, "quiet": True}
NO_PARTS = {"train": None, "val": None, "test": None}


def table() -> pd.DataFrame:
    """Forty rows of thirty different molecules, with a class, a number and a year."""
    smiles = ["C" * (1 + i // 3) + ("", "O", "N")[i % 3] for i in range(30)]
    smiles += [("", "O", "N")[i % 3] + "C" * (1 + i // 3) for i in range(10)]  # the first ten
    return pd.DataFrame(
        {
            "smiles": smiles,
            "size": [float(len(text)) + 0.1 * (i % 7) for i, text in enumerate(smiles)],
            "kind": ["ab"[i % 4 == 0] for i in range(40)],
            "year": [2000 + (7 * i) % 40 for i in range(40)],
        }
    )


def prepared(path: Path, frame: pd.DataFrame | None = None, **options: Any) -> Prepared:
    (table() if frame is None else frame).to_csv(path / "data.csv", index=False)
    values = {"path": str(path / "data.csv"), "targets": ("size",), **options}
    return prepare(MoleculesOptions(**values))


def parts_of(made: Prepared) -> list[list[int]]:
    """The rows of each split, from 0."""
    return [made.split_table().of(name).row.tolist() for name in ("train", "val", "test")]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"split": "stratified"},
        {"split": "stratified", "targets": ("kind",)},
        {"targets": ("kind",)},
        {"split": "butina"},
        {"split": "time", "split_time": "year"},
    ],
    ids=str,
)
def test_a_molecule_is_on_one_side(options: dict[str, Any], tmp_path: Path) -> None:
    made = prepared(tmp_path, **options)
    sides = [{row % 30 for row in rows} for rows in parts_of(made)]
    assert sum(map(len, sides)) == 30
    assert sum(map(len, parts_of(made))) == 40
    note = "Duplicates: 10 molecules have several rows (20 in all), which stay in one split."
    assert (note in made.notes) == (options.get("split") != "butina")


def test_time_goes_forward(tmp_path: Path) -> None:
    first = table()["year"].groupby([row % 30 for row in range(40)]).min()
    made = prepared(tmp_path, split="time", split_time="year")
    train, val, test = ([first[row % 30] for row in rows] for rows in parts_of(made))
    assert max(train) < min(val) <= max(val) < min(test)
    dates = table().assign(year=[f"{year}-06-30" for year in table()["year"]])
    same = prepared(tmp_path, dates, split="time", split_time="year")
    assert parts_of(same) == parts_of(made)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"split": "time"}, "--split time: name the column of dates or numbers with --split-time"),
        ({"split_time": "year"}, "--split-time: applies to --split time only"),
        ({"split": "time", "split_time": "yeer"}, r"no column 'yeer' \(did you mean 'year'"),
        ({"split": "time", "split_time": "kind"}, r"column 'kind', line 2: the time is 'b'"),
        (
            {"split": "time", "split_time": "date"},
            r"line 9: the time is '31\.3\.24', but must be a date",
        ),
    ],
)
def test_times_are_refused(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    frame = table().assign(date="2024-03-31")
    frame.loc[7, "date"] = "31.3.24"
    with pytest.raises(InputError, match=said):
        prepared(tmp_path, frame, **options)


def test_a_given_split_is_kept_and_overlap_is_reported(tmp_path: Path) -> None:
    frame = table().assign(part=["train"] * 30 + ["test"] * 4 + ["val"] * 6)
    made = prepared(tmp_path, frame, split_column="part")
    assert parts_of(made)[2] == [30, 31, 32, 33]
    assert made.notes[1:3] == (
        "The given split was kept, but 4 molecules are both in training and in test (first: C).",
        "The given split was kept, but 6 molecules are both in training and in validation "
        "(first: CCO).",
    )
    frame["part"] = ["train"] * 10 + ["val"] * 10 + ["test"] * 10 + ["train"] * 10
    assert (
        len(prepared(tmp_path, frame, split_column="part").notes) == 2
    )  # the target and the sizes


def test_versions_without_saved_split_split_rows_alone(tmp_path: Path) -> None:
    frame = table()
    frame.to_csv(tmp_path / "data.csv", index=False)
    options = MoleculesOptions(path=str(tmp_path / "data.csv"), targets=("size",))
    old = parts_of(prepare(options, old=True))
    order = np.random.default_rng(0).permutation(40)
    assert old == [sorted(order[:32]), sorted(order[32:36]), sorted(order[36:])]


@pytest.mark.parametrize("split", ["stratified", "butina", "time"])
def test_evaluate_uses_the_saved_split(split: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    table().to_csv(path, index=False)
    more = {"split_time": "year"} if split == "time" else {}
    made = smpgnn.train(
        "molecules", path, targets=["size"], split=split, output=str(tmp_path / "r"),
        **SMALL, **more,
    )  # fmt: skip
    table().drop(columns="year").to_csv(path, index=False)  # the split is saved
    assert evaluated(made) == made.test


def evaluated(made: Result) -> dict[str, float]:
    folder = RunFolder(made.folder)
    test = prepare(folder.read_options(), folder.read_data()).splits.test
    return evaluate_store(made.saved.network, made.saved.task, test, 64, torch.device("cpu"))


def test_graphs_by_stratum_but_not_by_fingerprint() -> None:
    graphs = [ring(4 + i % 5, y=torch.tensor([float(i)])) for i in range(40)]
    made = prepare_python(GraphsOptions(split="stratified"), graphs, NO_PARTS, None)
    rows = parts_of(made)
    assert [len(part) for part in rows] == [32, 4, 4]
    assert len({row // 10 for row in rows[2]}) == 4  # one of each quarter
    for split in ("scaffold", "butina"):
        with pytest.raises(InputError, match=f"--split {split}: only molecules have"):
            prepare_python(GraphsOptions(split=split), graphs, NO_PARTS, None)
    for name in ("split_column", "labels"):
        with pytest.raises(InputError, match=f"{name}: graphs in memory have no columns"):
            prepare_python(GraphsOptions(**{name: "x"}), graphs, NO_PARTS, None)


# Masks of nodes


def ring(n: int, **more: Any) -> Data:
    a = torch.arange(n)
    edges = torch.stack([torch.cat([a, (a + 1) % n]), torch.cat([(a + 1) % n, a])])
    x = torch.sin(torch.arange(n).float()).view(-1, 1)
    return Data(x=x, edge_index=edges, **more)


def mask(*nodes: int, n: int = 48) -> torch.Tensor:
    marked = torch.zeros(n, dtype=torch.bool)
    marked[list(nodes)] = True
    return marked


def masked(**changes: Any) -> Data:
    """A ring of 48 nodes: ten to train, eight to validate, twelve to test."""
    masks = {
        "train_mask": mask(*range(10)),
        "val_mask": mask(*range(20, 28)),
        "test_mask": mask(*range(30, 42)),
    }
    values = {"y": torch.cos(torch.arange(48).float()), **masks, **changes}
    return ring(48, **{name: value for name, value in values.items() if value is not None})


NODES = GraphsOptions(level="node", seed=3).changed(hidden_channels=8, num_layers=2)


def by_masks(*graphs: Data, options: GraphsOptions = NODES) -> Prepared:
    return prepare_python(options, list(graphs), NO_PARTS, None)


def test_masks_are_the_split() -> None:
    table = by_masks(masked()).split_table()
    nodes = [table.of(name).node for name in ("train", "val", "test")]
    assert [part.tolist() for part in nodes if part is not None] == [
        list(range(10)), list(range(20, 28)), list(range(30, 42)),
    ]  # fmt: skip
    second = masked(train_mask=mask(), test_mask=mask(5))
    table = by_masks(masked(), second, masked()).split_table()
    assert table.of("train").row.bincount().tolist() == [10, 0, 10]
    assert table.of("test").row.bincount().tolist() == [12, 1, 12]


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_gradients_depend_on_training_nodes_only(kind: str) -> None:
    def gradient(y: torch.Tensor) -> list[torch.Tensor]:
        made = by_masks(masked(y=y), options=NODES.changed(task=kind))
        torch.manual_seed(0)
        network = made.network()
        batch = made.splits.train.batch()
        out = run_network(network, batch)
        made.task.loss(out, batch).backward()
        return [p.grad for p in network.parameters() if p.grad is not None]

    y = torch.arange(48) % 3 if kind == "classification" else torch.cos(torch.arange(48).float())
    other, train = y.clone(), masked()["train_mask"]
    other[~train] = y[~train].roll(5)
    assert not torch.equal(y, other)
    before, after = gradient(y), gradient(other)
    assert before
    assert any(bool(one.abs().max() > 0) for one in before)
    assert all(torch.equal(one, two) for one, two in zip(before, after, strict=True))
    other[0] = 2 if kind == "classification" else -3
    assert any(not torch.equal(one, two) for one, two in zip(before, gradient(other), strict=True))


def test_metrics_and_predictions_are_of_masked_nodes(tmp_path: Path) -> None:
    made = smpgnn.train("graphs", [masked()], level="node", output=str(tmp_path / "r"), **SMALL)
    frame = pd.read_csv(made.folder / "test_predictions.csv")
    assert frame["node"].tolist() == list(range(31, 43))
    assert made.test["mae"] == pytest.approx((frame["predicted_y"] - frame["y"]).abs().mean())
    all_nodes = smpgnn.load(made.folder).predict([ring(48)])["predicted_y"]
    assert frame["predicted_y"].tolist() == pytest.approx(all_nodes[30:42].tolist(), abs=1e-5)
    folder = {"output": str(tmp_path / "r"), "resume": True, "quiet": True}
    assert smpgnn.train("graphs", [masked()], **folder).test == made.test
    with pytest.raises(InputError, match="differ from those of the run"):
        smpgnn.train("graphs", [masked(test_mask=mask(40, 41))], **folder)


def test_without_validation_mask_a_part_of_train_is_taken() -> None:
    made = by_masks(masked(val_mask=None))
    train, val, test = (made.split_table().of(name).node for name in ("train", "val", "test"))
    assert train is not None
    assert val is not None
    assert sorted([*train.tolist(), *val.tolist()]) == list(range(10))
    assert val.numel() == 1
    assert test is not None
    assert test.tolist() == list(range(30, 42))
    said = "There is no val_mask: 1 of the 10 nodes of train_mask are for validation."
    assert said in made.notes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train_mask": torch.ones(48, 10).bool()}, "train_mask has 10 columns, one per split: ch"),
        ({"train_mask": torch.ones(48)}, "train_mask has type torch.float32: convert it"),
        ({"test_mask": mask(n=47)}, "test_mask has 47 entries for 48 nodes"),
        ({"test_mask": None}, "The graphs have train_mask, but no test_mask: add it"),
        ({"test_mask": mask(3, 9, 30)}, "2 nodes are in both train_mask and test_mask"),
        ({"test_mask": mask()}, "test_mask contains no node"),
    ],
)
def test_wrong_masks(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        by_masks(masked(**changes))


def test_masks_beside_another_split() -> None:
    with pytest.raises(InputError, match="Graph 1 has no train_mask, but other graphs have"):
        by_masks(masked(), ring(48, y=torch.rand(48)))
    with pytest.raises(InputError, match="which splits nodes: use level='node'"):
        by_masks(masked(), masked(), options=GraphsOptions())
    with pytest.raises(InputError, match="split='stratified' and train_mask both say"):
        by_masks(masked(), options=NODES.changed(split="stratified"))
    rows = {"train": [0], "val": [1], "test": [2]}
    with pytest.raises(InputError, match="the graphs have train_mask: leave out train, val and"):
        prepare_python(NODES, [masked(), masked(), masked()], rows, None)


# Splits from Python

MOLECULES = MoleculesOptions(targets=("size",))


def test_a_data_frame_is_as_its_file(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    frame = table().set_index(pd.Index([f"id{row}" for row in range(40)]))
    frame.to_csv(path, index=False)
    options: dict[str, Any] = {"targets": ["size"], **SMALL}
    one = smpgnn.train("molecules", frame, output=str(tmp_path / "a"), **options)
    other = smpgnn.train("molecules", path=str(path), output=str(tmp_path / "b"), **options)
    assert one.test == other.test
    assert (one.folder / "splits.csv").read_text() == (other.folder / "splits.csv").read_text()
    model = smpgnn.load(one.folder)
    assert model.evaluate(frame) == pytest.approx(smpgnn.load(one.folder).evaluate(path))
    pd.testing.assert_frame_equal(model.predict(frame), model.predict(frame["smiles"]))
    with pytest.raises(InputError, match="the DataFrame has no column 'smiles'"):
        model.predict(frame[["size"]])
    folder = str(tmp_path / "a")
    again = smpgnn.train("molecules", frame, output=folder, resume=True, quiet=True)
    assert again.test == one.test
    with pytest.raises(InputError, match="data: is not the data of this run"):
        smpgnn.train("molecules", frame[::-1], output=folder, resume=True, quiet=True)


def test_row_numbers() -> None:
    rows = {"train": np.arange(20), "val": torch.tensor([25, 24]), "test": range(35, 40)}
    made = prepare_python(MOLECULES, table(), rows, None)
    assert parts_of(made) == [list(range(20)), [24, 25], list(range(35, 40))]
    assert "13 rows are in none of train, val and test, and are not used." in made.notes
    assert any("5 molecules are both in training and in test" in note for note in made.notes)
    graphs = [ring(4, y=torch.tensor([float(i)])) for i in range(9)]
    rows = {"train": [8, 3, 1], "val": [0], "test": pd.Series([5, 4])}
    assert parts_of(prepare_python(GraphsOptions(), graphs, rows, None)) == [[1, 3, 8], [0], [4, 5]]


def test_invalid_molecules_keep_row_numbers_in_place() -> None:
    frame = table()
    frame.loc[2, "smiles"] = "C("
    rows = {"train": range(20), "val": [20, 21], "test": [22, 23]}
    made = prepare_python(MOLECULES, frame, rows, None)
    assert parts_of(made) == [[0, 1, *range(3, 20)], [20, 21], [22, 23]]


def test_row_numbers_of_a_file_are_evaluated_again(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "data.csv", index=False)
    made = smpgnn.train(
        "molecules", tmp_path / "data.csv", targets=["size"], output=str(tmp_path / "r"),
        train=range(10, 30), val=range(5), test=range(5, 10), **SMALL,
    )  # fmt: skip
    assert evaluated(made) == made.test
    assert pd.read_csv(made.folder / "test_predictions.csv")["row"].tolist() == [6, 7, 8, 9, 10]


def test_three_data_objects(tmp_path: Path) -> None:
    frame = table()
    frame[20:30].to_csv(tmp_path / "val.csv", index=False)
    pieces = {"train": frame[:20], "val": tmp_path / "val.csv", "test": frame[30:]}
    made = prepare_python(MOLECULES, None, pieces, None)
    assert parts_of(made) == [list(range(20)), list(range(20, 30)), list(range(30, 40))]
    assert made.splits.val.y is not None
    assert made.splits.val.y.flatten().tolist() == pytest.approx(frame["size"][20:30].tolist())
    bad = {**pieces, "test": frame[30:].assign(size="x")}
    with pytest.raises(InputError, match="row 1 of test: target 'size' is 'x'"):
        prepare_python(MOLECULES, None, bad, None)
    graphs = [ring(4, y=torch.rand(4)) for _ in range(3)]
    made = prepare_python(NODES, None, dict(zip(NO_PARTS, graphs, strict=True)), None)
    assert parts_of(made) == [[0], [1], [2]]
    lists = {"train": graphs[:1] * 4, "val": graphs[1:2], "test": graphs[2:]}
    made = prepare_python(NODES, None, lists, None)
    assert parts_of(made) == [[0, 1, 2, 3], [4], [5]]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "one missing": ({"val": None}, "train is given without val: give train and val, and test if"),
    "range": ({"train": [0, 40]}, "train: there is no row 40: data has 40 rows, counted from 0"),
    "negative": ({"val": [-1]}, "val: there is no row -1"),
    "overlap": ({"val": [4, 3]}, "row 3 is in both train and val: leave it in one"),
    "twice": ({"val": [7, 8, 7]}, "val has row 7 twice: give it once"),
    "mask": ({"train": np.ones(40, bool)}, "train must be a list of row numbers, not of bool"),
    "floats": ({"train": [0.0, 1.0]}, "train must be a list of row numbers, not of float64"),
    "empty": ({"test": []}, "test has no row numbers: give at least one"),
    "data twice": ({"test": table()}, "data and test are both data: leave out data, or give test"),
    "no data": ({"data": None}, "train has row numbers: give the data that they count in data="),
    "column": ({"split_column": "year"}, "split_column and train, val, test both say how to split"),
    "split": ({"split": "scaffold"}, "split and train, val, test both say how to split"),
    "path": ({"path": "x.csv"}, "data and path are both given: leave one of them out"),
    "kind": ({"data": [1, 2]}, "data must be a pandas DataFrame or the path of a table, not list"),
    "no column": (
        {"train": None, "val": None, "test": None, "split_column": "prat"},
        "data has no column 'prat'",
    ),
    "no task": ({"task": "cycles"}, "data, train, val and test go with tasks 'molecules' and"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls(case: str, tmp_path: Path) -> None:
    changes, said = WRONG[case]
    call = {"data": table(), "train": [0, 1, 2, 3], "val": [4, 5], "test": [6, 7], **changes}
    task = call.pop("task", "molecules")
    more = {} if task == "cycles" else {"targets": ["size"]}
    with pytest.raises(InputError) as caught:
        smpgnn.train(task, call.pop("data"), output=str(tmp_path), **more, **call)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_weights_of_a_data_frame_with_a_split_of_its_own() -> None:
    frame = table().assign(importance=[1.0 + row % 2 for row in range(40)])
    options = MOLECULES.changed(weight_column="importance")
    pieces = {"train": frame[:20], "val": frame[20:30], "test": frame[30:]}
    made = prepare_python(options, None, pieces, None)
    weight = made.splits.train.weight
    assert weight is not None
    assert weight.flatten().tolist() == pytest.approx([(1 + row % 2) / 1.5 for row in range(20)])
    with pytest.raises(InputError, match="train has no column 'importance'"):
        prepare_python(options, None, {**pieces, "train": table()}, None)
