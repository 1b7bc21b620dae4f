"""Colours of Algorithm 1 beside the rows of neighbourhoods."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import networkx as nx
import pytest
import torch

from smpgnn.paper.theory.coloring import FAMILIES, check_colors, measure, mesh, rows
from smpgnn.paper.theory.graphs import topology


def test_path_by_hand() -> None:
    found = rows("path", nx.path_graph(20), (1, 2))
    # Within 2L hops of a node of a path are L colours on each side and more: 2L + 1 suffice.
    assert [row.colors for row in found] == [3, 5]
    assert [row.max_rows for row in found] == [3 + 1, 5 + 1]
    assert found[0].mean_rows == pytest.approx((18 * 4 + 2 * 3) / 20)
    assert (found[0].degree, found[0].diameter) == (1.9, 19)


def test_star_needs_all_colors() -> None:
    (row,) = rows("star", nx.star_graph(9), (1,))
    assert row.colors == 10
    assert row.max_rows == 11  # the unseen row of the centre stands for nobody


def test_mesh_is_a_triangulation() -> None:
    graph = mesh(25)
    assert graph.number_of_nodes() == 25
    assert graph.number_of_edges() == 2 * 20 + 16
    assert sum(nx.triangles(graph).values()) == 3 * 2 * 16


@pytest.mark.parametrize("family", FAMILIES)
def test_families_are_connected_and_of_the_size_asked_for(family: str) -> None:
    graph = FAMILIES[family](64)
    assert nx.is_connected(graph)
    assert len(graph) == 64


def test_no_context_has_more_rows_than_colors_and_one() -> None:
    found = measure(sizes=(36,), depths=(1, 2, 3))
    assert len(found) == 3 * len(FAMILIES)
    assert all(row.mean_rows <= row.max_rows <= row.colors + 1 for row in found)
    assert all((row.colors < row.nodes) == (row.diameter > 2 * row.layers) for row in found)


def test_a_bad_coloring_is_found() -> None:
    batch = topology([nx.path_graph(4)])
    check_colors(batch, 1, torch.tensor([0, 1, 2, 0]))
    with pytest.raises(AssertionError, match="a colour repeats within 1 hops"):
        check_colors(batch, 1, torch.tensor([0, 1, 0, 1]))


def test_the_record_says_what_is_found() -> None:
    file = Path(__file__).resolve().parents[3] / "results" / "theory" / "coloring.json"
    rows_of_record = json.loads(file.read_text(encoding="utf-8"))["rows"]
    small = [row for row in rows_of_record if row["nodes"] == 64 and row["layers"] <= 2]
    found = measure(sizes=(64,), depths=(1, 2))
    assert small == [asdict(row) for row in found]
