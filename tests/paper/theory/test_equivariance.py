"""Theorem 1: the checker finds what is broken, and only that; the proof breaks where it should."""

from __future__ import annotations

import doctest
from pathlib import Path

import networkx as nx
import pytest
import torch
from torch import Tensor

from smpgnn import ContextIndex, DefaultSMPLayer, FastSMPLayer, LocalContext, SMPLayer, Topology
from smpgnn.paper.theory import conditions
from smpgnn.paper.theory.equivariance import (
    FunctionLayer,
    check_conditions,
    example,
    initial_contexts,
    proof,
)
from smpgnn.paper.theory.graphs import adjacency_matrix, undirected
from smpgnn.testing import assert_equivariant

ROOT = Path(__file__).parents[3]
FLAWS = ["message", "aggregation", "order", "update"]


class FirstRowPrepare(FastSMPLayer):
    """Broken: the set map treats the first row of a context unlike the others."""

    def prepare(self, context: LocalContext, index: ContextIndex) -> LocalContext:
        rows = super().prepare(context, index).rows
        first = torch.zeros(len(rows), 1, dtype=rows.dtype)
        first[context.layout.ptr[:-1]] = 0.1
        return context.with_rows(rows + first)

    forward = SMPLayer.general_forward


class OwnRow(SMPLayer):
    """Sound: the own row is found by who owns the context, not by its place."""

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        return messages.add_own(context.mean())


class Blank(SMPLayer):
    """Broken in a way that only shows in the numbers: not a number at one place."""

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        return messages.with_rows(messages.rows / 0.0 * 0.0)


@pytest.mark.parametrize("aggregation", ["sum", "mean", "max", "absmax"])
def test_the_aggregations_of_the_library_are_sound(aggregation: str) -> None:
    assert check_conditions(SMPLayer(aggregation), 2) == {}


@pytest.mark.parametrize(
    "layer", [DefaultSMPLayer(2, 3, edge_channels=1), FastSMPLayer(2, 3), OwnRow()]
)
def test_sound_layers_pass(layer: SMPLayer) -> None:
    assert check_conditions(layer.double(), 2) == {}


@pytest.mark.parametrize("flaw", FLAWS)
def test_each_flaw_is_found_where_it_is(flaw: str) -> None:
    broken = check_conditions(example(flaw), 3)
    assert list(broken) == [flaw, "layer"]
    assert [one.condition for one in broken.values()] == [flaw, "layer"]


@pytest.mark.parametrize("flaw", ["message", "aggregation", "update"])
def test_the_smallest_counterexample_is_one_edge(flaw: str) -> None:
    one = check_conditions(example(flaw), 3)[flaw]
    assert (one.num_nodes, one.edges, one.permutation) == (2, ((0, 1),), (1, 0))
    assert one.gap > 0.01
    assert str(one).startswith(f"{flaw}: on the graph 0–1, nodes renamed 0 1 → 1 0 changes")


def test_a_counterexample_to_the_order_needs_two_messages() -> None:
    one = check_conditions(example("order"), 3)["order"]
    assert one.num_nodes == 3
    assert "messages reordered" in str(one)


def test_counterexamples_can_be_repeated_by_hand() -> None:
    """u adds the first row: exchanging the nodes of one edge exchanges what is added."""
    own = torch.tensor([[1.0, 0, 0], [0, 2, 0]], dtype=torch.float64)
    zero = torch.zeros(2, 3, dtype=torch.float64)
    u = example("update").u
    assert float((u(own[[1, 0]], zero) - u(own, zero)[[1, 0]]).abs().max()) == pytest.approx(0.2)
    u = example().u
    assert torch.equal(u(own[[1, 0]], zero), u(own, zero)[[1, 0]])


def test_the_conditions_are_not_necessary() -> None:
    assert list(check_conditions(example("unused"), 3)) == ["message"]


def test_subclasses_are_checked_part_by_part() -> None:
    assert list(check_conditions(FirstRowPrepare(2, 3).double(), 2)) == ["prepare", "layer"]
    broken = check_conditions(Blank(), 2)
    assert list(broken) == ["update", "layer"]
    assert broken["update"].gap == torch.inf


@pytest.mark.parametrize("flaw", ["", "message", "aggregation", "update", "unused"])
def test_the_verdict_agrees_with_the_public_checker(flaw: str) -> None:
    layer = example(flaw)
    edges = undirected(nx.bull_graph()).edge_index
    y = torch.randn(edges.size(1), 2, dtype=torch.float64)
    if "layer" not in check_conditions(layer, 3):
        assert_equivariant(layer, None, edges, y, channels=3)
    else:
        with pytest.raises(AssertionError, match="differ by"):
            assert_equivariant(layer, None, edges, y, channels=3)


def test_the_layer_is_given_back_as_it_was() -> None:
    layer = FastSMPLayer(2, 3).double()
    check_conditions(layer, 2, max_nodes=2)
    assert layer.training


def test_three_functions_are_the_layer_of_the_library() -> None:
    """m = U_j, φ = maximum, u = Ũ: `SMPLayer('max')`, also where a node has no neighbour."""
    functions = FunctionLayer(
        lambda u_i, u_j, y: u_j, lambda sent: sent.amax(dim=0), lambda own, arrived: arrived
    )
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    index = ContextIndex.build(Topology.checked(edges, num_nodes=4), "onehot", 1)
    rows = torch.randn(16, 3, dtype=torch.float64)
    context = LocalContext(rows, index.layout)
    assert torch.equal(functions(context, index).rows, SMPLayer("max")(context, index).rows)
    alone = ContextIndex.build(Topology.checked(edges[:, :0], num_nodes=2), "onehot", 1)
    context = LocalContext(rows[:4], alone.layout)
    assert not functions(context, alone).rows.any()


def house() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    a = adjacency_matrix(nx.house_graph())
    x = torch.randn(5, 2, generator=generator, dtype=torch.float64)
    y = torch.randn(5, 5, 2, generator=generator, dtype=torch.float64)
    return a, x, y


@pytest.mark.parametrize("pi", [(0, 1, 2, 3, 4), (1, 0, 2, 3, 4), (2, 0, 4, 1, 3)])
def test_the_proof_holds_line_by_line(pi: tuple[int, ...]) -> None:
    assert max(one.gap for one in proof(example(), *house(), pi)) < 1e-12


@pytest.mark.parametrize(
    ("flaw", "reason"),
    [("message", "m equivariant"), ("aggregation", "φ equivariant"), ("order", "π bijective"),
     ("update", "u equivariant")],
)  # fmt: skip
def test_the_proof_breaks_at_the_broken_condition(flaw: str, reason: str) -> None:
    equalities = proof(example(flaw), *house(), (2, 0, 4, 1, 3))
    assert {one.reason for one in equalities if one.gap > 1e-12} == {reason}


def test_initial_contexts_are_those_of_the_library() -> None:
    a, x, _ = house()
    edges = undirected(nx.from_numpy_array(a.numpy())).edge_index
    index = ContextIndex.build(Topology.checked(edges, num_nodes=5), "onehot", 1)
    assert torch.equal(index.initial(x, x.dtype).rows.view(5, 5, 3), initial_contexts(x))


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(conditions)
    assert result.attempted
    assert not result.failed


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "theory" / "equivariance.md").read_text(encoding="utf-8")
    code, output = (page.split(f"```{kind}\n")[1].split("```")[0] for kind in ("python", "text"))
    exec(compile(code, "equivariance.md", "exec"), {})
    assert capsys.readouterr().out == output
