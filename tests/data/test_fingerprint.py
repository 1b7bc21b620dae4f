"""A fingerprint depends only on the content of the data and describes how it changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from smpgnn.data.base import Splits
from smpgnn.data.fingerprint import (
    Fingerprint,
    smiles_fingerprint,
    splits_fingerprint,
    store_fingerprint,
)
from smpgnn.data.pyg import graphs_from_pyg
from smpgnn.data.store import GraphStore
from smpgnn.data.tables import read_table
from smpgnn.data.targets import parse_targets

TABLE = pd.DataFrame(
    {"smiles": ["C", "CC", "CCO", "CCN"], "y": [0.1, 0.25, None, 1.0], "kind": ["a", "b", "a", "b"]}
)


def of_table(path: Path, frame: pd.DataFrame, target: str = "y", **how: object) -> Fingerprint:
    frame.to_csv(path, index=False, **how)  # type: ignore[call-overload]
    return of_file(path, target)


def of_file(path: Path, target: str = "y") -> Fingerprint:
    read = read_table(path, ["smiles", target])
    targets = parse_targets(read, [target], source="data")
    return smiles_fingerprint(read["smiles"].tolist(), targets)


def place(row: int) -> str:
    return f"line {row + 2}"


def test_equal_molecules_whose_targets_are_swapped(tmp_path: Path) -> None:
    twice = TABLE.assign(smiles="C", y=[0.1, 0.25, 0.5, 1.0])
    first = of_table(tmp_path / "a.csv", twice)
    other = of_table(tmp_path / "b.csv", twice.iloc[[0, 2, 1, 3]])
    order = "its rows are in a different order (first difference: line 3)"
    assert first.change(other, place) == order
    assert first.change(replace(first, sha256="0"), place) == "its rows changed"


def test_a_table_saved_again_is_the_same(tmp_path: Path) -> None:
    first = of_table(tmp_path / "a.csv", TABLE)
    assert first.rows == 4
    again = [
        of_table(tmp_path / "b.csv", TABLE),
        of_table(tmp_path / "c.csv", TABLE, sep=";", quoting=1, lineterminator="\r\n"),
        of_table(tmp_path / "d.csv", TABLE.assign(more=[1, 2, 3, 4])[["more", "y", "smiles"]]),
        of_table(tmp_path / "e.csv", TABLE, float_format="%.3f"),
        of_table(tmp_path / "f.csv", TABLE.assign(smiles=" " + TABLE["smiles"] + " ")),
        of_table(tmp_path / "g.csv", TABLE.assign(y=["0.1", "2.5e-1", "NaN", "1.0"])),
    ]
    TABLE.to_parquet(tmp_path / "h.parquet")
    again.append(of_file(tmp_path / "h.parquet"))
    for other in again:
        assert first.change(other, place) == ""


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (TABLE.assign(y=[0.1, 0.26, None, 1.0]), "the targets of 1 row changed (first: line 3)"),
        (TABLE.assign(y=[0.1, 0.25, 0, 2]), "the targets of 2 rows changed (first: line 4)"),
        (TABLE.assign(smiles=["C", "CC", "OCC", "CCN"]),
         "the SMILES of 1 row changed (first: line 4)"),
        (TABLE.assign(smiles=["O", "CC", "CCO", "CCN"], y=[0.1, 0.25, None, 9.0]),
         "the SMILES of 1 row changed (first: line 2) and "
         "the targets of 1 row changed (first: line 5)"),
        (TABLE.iloc[:3], "it has 3 rows instead of 4 (first difference: at the end)"),
        (TABLE.iloc[1:], "it has 3 rows instead of 4 (first difference: at line 2)"),
        (pd.concat([TABLE, TABLE.iloc[:1]]),
         "it has 5 rows instead of 4 (first difference: at line 6)"),
        (TABLE.iloc[[0, 2, 1, 3]], "its rows are in a different order (first difference: line 3)"),
    ],
)  # fmt: skip
def test_a_changed_row_is_named(tmp_path: Path, frame: pd.DataFrame, said: str) -> None:
    first = of_table(tmp_path / "a.csv", TABLE)
    assert first.change(of_table(tmp_path / "b.csv", frame), place) == said


def test_changed_targets_are_named(tmp_path: Path) -> None:
    first = of_table(tmp_path / "a.csv", TABLE, "kind")
    other = of_table(tmp_path / "b.csv", TABLE.assign(kind=["a", "b", "c", "b"]), "kind")
    assert first.change(other, place) == (
        "it has target 'kind' with the classes a, b, c instead of "
        "target 'kind' with the classes a, b"
    )
    labels = of_table(tmp_path / "c.csv", TABLE.assign(kind=["b", "b", "a", "b"]), "kind")
    assert first.change(labels, place) == "the targets of 1 row changed (first: line 2)"


def store(count: int = 5, seed: int = 0) -> GraphStore:
    torch.manual_seed(seed)
    graphs = []
    for number in range(count):
        n = 2 + number % 3
        edges = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
        graphs.append(
            Data(
                x=torch.randint(0, 3, (n, 2)),
                edge_index=torch.cat([edges, edges.flip(0)], 1),
                edge_attr=torch.randint(0, 2, (2 * n - 2, 1)).float(),
                y=torch.rand(1),
            )
        )
    return graphs_from_pyg(graphs)


def test_graphs_are_known_by_what_a_network_sees() -> None:
    graphs = store()
    first = store_fingerprint(graphs)
    assert first.rows == 5
    for other in (
        replace(graphs, x=graphs.x.float()),
        replace(graphs, x=graphs.x.to(torch.uint8)),
        replace(graphs, edge_index=graphs.edge_index.int(), y=graphs.y.double()),
        graphs.select(torch.arange(5)),
    ):
        assert first.change(store_fingerprint(other), place) == ""
    x = graphs.x.clone()
    x[int(graphs.node_ptr[3])] += 1
    edges = graphs.edge_index.clone()
    edges[:, [-1, -2]] = edges[:, [-2, -1]]
    for other, row in ((replace(graphs, x=x), 5), (replace(graphs, edge_index=edges), 6)):
        said = first.change(store_fingerprint(other), place)
        assert said == f"the graphs of 1 row changed (first: line {row})"
    wider = replace(graphs, x=torch.cat([graphs.x, graphs.x], 1))
    said = first.change(store_fingerprint(wider), place)
    assert said == "it has 4 node features instead of 2 node features"
    bare = replace(graphs, x=None, edge_attr=None, y=None)
    assert store_fingerprint(bare).rows == 5


def test_targets_of_nodes_count() -> None:
    graphs = replace(store(), y=None)
    values = torch.rand(int(graphs.node_ptr[-1]), 2)
    values[0] = torch.nan
    first = store_fingerprint(replace(graphs, y_node=values))
    other = values.clone()
    other[-1, 0] += 1
    said = first.change(store_fingerprint(replace(graphs, y_node=other)), place)
    assert said == "the targets of 1 row changed (first: line 6)"


def test_a_data_set_is_counted_through_its_splits() -> None:
    first = splits_fingerprint(Splits(store(4), store(2, 1), store(3, 2)))
    assert first.rows == 9
    other = splits_fingerprint(Splits(store(4), store(2, 3), store(3, 2)))
    assert "of 2 rows changed (first: line 6)" in first.change(other, place)
    fewer = splits_fingerprint(Splits(store(4), store(2, 1), store(2, 2)))
    assert first.change(fewer, place) == "it has 2 test instead of 3 test"
