"""The ladder: its record on BREC, and that no member of the family exceeds its class."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import networkx as nx
import pytest

from smpgnn.data.brec import brec_pairs
from smpgnn.data.brec_parts import BREC
from smpgnn.paper.theory.expressivity import (
    BOUND,
    copies,
    reference_pairs,
    relative_gaps,
)
from smpgnn.paper.theory.families import Family, cfi_graph
from smpgnn.paper.theory.ladder import REFINEMENTS
from smpgnn.paper.theory.programs import VARIANTS, Settings
from smpgnn.paper.theory.refinement import told_apart

RECORD = Path(__file__).resolve().parents[3] / "results" / "theory" / "ladder.json"
RUNGS = {one["refinement"]: one for one in json.loads(RECORD.read_text("utf-8"))["rungs"]}
FAMILY = [name for name in VARIANTS if VARIANTS[name].get("first_rows")]


def test_the_record_has_the_known_ceilings() -> None:
    assert list(RUNGS) == list(REFINEMENTS)
    assert {name: one["told_apart"] for name, one in RUNGS.items()} == {
        "1-WL": 0,
        "SMP": 260,
        "SSWL": 267,
        "local 2-FWL": 267,
        "2-FWL": 270,
        "two marks ≤ 1": 330,
        "two marks ≤ 2": 348,
        "two marks ≤ 3": 376,
    }
    for one in RUNGS.values():
        assert len(one["pairs"]) == one["told_apart"] == sum(one["by_category"].values())
        assert list(one["by_category"]) == list(BREC)


def distinguished(refinement: str, numbers: Iterable[int]) -> list[int]:
    pairs, rows = brec_pairs(), REFINEMENTS[refinement]
    return [k for k in numbers if told_apart(pairs[k].first, pairs[k].second, rows)]


@pytest.mark.skipif("SMPGNN_DATA" not in os.environ, reason="SMPGNN_DATA is not set")
@pytest.mark.parametrize("refinement", REFINEMENTS)
def test_the_record_is_what_the_program_finds(refinement: str) -> None:
    """On every seventh pair with graphs that are small enough."""
    pairs, most = brec_pairs(), 30 if "3" in refinement else 45
    chosen = [k for k in range(0, len(pairs), 7) if len(pairs[k].first) <= most]
    recorded = RUNGS[refinement]["pairs"]
    assert distinguished(refinement, chosen) == [k for k in recorded if k in chosen]


@pytest.mark.slow
@pytest.mark.skipif("SMPGNN_DATA" not in os.environ, reason="SMPGNN_DATA is not set")
@pytest.mark.parametrize("refinement", REFINEMENTS)
def test_the_whole_record_is_what_the_program_finds(refinement: str) -> None:
    assert distinguished(refinement, range(400)) == RUNGS[refinement]["pairs"]


def _pairs() -> Family:
    """Random pairs with equal degrees, by switching edges, and small hard ones."""
    graphs = []
    for seed in range(12):
        graph = nx.gnm_random_graph(8 + seed % 3, 13, seed=seed)
        graphs += [graph, nx.double_edge_swap(graph.copy(), 4, max_tries=1000, seed=seed)]
    bases = (nx.cycle_graph(4), nx.ladder_graph(4), nx.complete_graph(4))
    for base in bases:
        graphs += [cfi_graph(base, twisted=False), cfi_graph(base, twisted=True)]
    pairs = tuple((k, k + 1) for k in range(0, len(graphs), 2))
    return Family("random and hard pairs", tuple(graphs), pairs)


PAIRS = _pairs()


@pytest.mark.parametrize("model", FAMILY)
def test_no_member_exceeds_its_class(model: str) -> None:
    settings = Settings(models=(model,), families=(), seeds=1, relabelings=1, layers=3, width=8)
    apart = relative_gaps(model, PAIRS, copies(PAIRS, 1), settings).told_apart()
    assert apart is not None
    assert apart <= reference_pairs(PAIRS, BOUND[model])
    assert len(apart) >= 12
