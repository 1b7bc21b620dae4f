"""The public checks accept correct modules and reject every kind of broken one."""

from __future__ import annotations

import doctest
import importlib

import pytest
import torch
from strategies import ODD, SCHEMES, cycle, make_case, path, randomize, undirected
from torch import Tensor, nn
from torch_geometric.nn import GIN, global_add_pool

from smpgnn import SMP, ContextIndex, FastSMPLayer, LocalContext, MultiTaskSMP, SMPLayer
from smpgnn.testing import Graph, assert_batch_invariant, assert_equivariant

CASE = make_case([path(4), cycle(5), ODD["two parts"]])
GRAPHS = [
    Graph(case.x, case.edge_index)
    for case in (make_case([s]) for s in (path(4), cycle(5), path(2)))
]


class PooledGIN(nn.Module):
    """A network of PyTorch Geometric, called as those of this library."""

    def __init__(self) -> None:
        super().__init__()
        self.gin, self.out = GIN(2, 8, 2), nn.Linear(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None,
                batch: Tensor | None = None) -> Tensor:  # fmt: skip
        return self.out(global_add_pool(self.gin(x, edge_index), batch))


class RowPosition(FastSMPLayer):
    """Broken: the update adds the place of a row, which renaming does not move along."""

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        place = torch.arange(index.num_rows) - index.table.ptr[index.table.owner]
        return context.with_rows(messages.rows + 0.01 * place.unsqueeze(1))

    forward = SMPLayer.general_forward


class FirstRow(FastSMPLayer):
    """Broken: the message adds the first row of the sender to all rows."""

    def message(self, u_i: LocalContext, u_j: LocalContext, y_ij: Tensor | None) -> LocalContext:
        first = u_j.rows[u_j.layout.ptr[:-1]]
        return u_j.with_rows(u_j.rows + u_j.expand(0.1 * first))

    forward = SMPLayer.general_forward


class Broken(nn.Module):
    """A node-level network with a flaw of your choice."""

    def __init__(self, flaw: str) -> None:
        super().__init__()
        self.flaw, self.linear = flaw, nn.Linear(2, 2).double()

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None,
                batch: Tensor | None = None) -> Tensor:  # fmt: skip
        out = self.linear(x)
        if self.flaw == "position":
            out = out + 0.01 * torch.arange(len(x)).unsqueeze(1)
        elif self.flaw == "normalises over the batch":
            out = out - out.mean(0)
        elif self.flaw == "padding leak":  # as many rows as the largest graph has
            out = out * torch.bincount(batch).max()
        elif self.flaw == "not a number":
            out = out / 0
        return out


@pytest.mark.parametrize("identifiers", SCHEMES)
def test_a_good_layer_passes(identifiers: str) -> None:
    layer = randomize(FastSMPLayer(3, 4))
    assert_equivariant(layer, None, CASE.edge_index, None, CASE.batch, identifiers=identifiers)


@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("layer", [RowPosition, FirstRow])
def test_a_broken_layer_fails(layer: type[FastSMPLayer], identifiers: str) -> None:
    with pytest.raises(AssertionError, match="differ by"):
        assert_equivariant(
            randomize(layer(3, 3)), None, CASE.edge_index, None, CASE.batch, identifiers=identifiers
        )


def test_a_layer_without_weights_is_given_its_width() -> None:
    assert_equivariant(SMPLayer("max"), None, CASE.edge_index, None, CASE.batch, channels=2)


def test_good_networks_pass() -> None:
    for model in (SMP(2, 1, 4, 2), SMP(2, 1, 4, 2, level="node"), MultiTaskSMP(2, 3, 2, 4, 2)):
        model.double()
        assert_equivariant(model, CASE.x, CASE.edge_index, None, CASE.batch)
        assert_batch_invariant(model, GRAPHS)


def test_a_network_of_pyg_passes() -> None:
    model = PooledGIN().double()
    assert_equivariant(model, CASE.x, CASE.edge_index, None, CASE.batch)
    assert_batch_invariant(model, GRAPHS)


def test_a_network_of_pyg_without_a_batch_passes() -> None:
    model = GIN(2, 8, 2).double()
    assert_equivariant(model, CASE.x, CASE.edge_index)


def test_a_network_that_uses_the_position_fails() -> None:
    with pytest.raises(AssertionError, match="differ by"):
        assert_equivariant(Broken("position"), CASE.x, CASE.edge_index, None, CASE.batch)


@pytest.mark.parametrize("flaw", ["normalises over the batch", "padding leak"])
def test_a_network_that_looks_at_its_batch_fails(flaw: str) -> None:
    assert_equivariant(Broken(flaw), CASE.x, CASE.edge_index, None, CASE.batch)
    with pytest.raises(AssertionError, match="alone and in the batch"):
        assert_batch_invariant(Broken(flaw), GRAPHS)


def test_numbers_that_are_not_finite_fail() -> None:
    with pytest.raises(AssertionError, match="not finite"):
        assert_equivariant(Broken("not a number"), CASE.x, CASE.edge_index, None, CASE.batch)


def test_the_wrong_level_fails() -> None:
    model = SMP(2, 1, 4, 2, level="node").double()
    with pytest.raises(AssertionError):
        assert_equivariant(model, CASE.x, CASE.edge_index, None, CASE.batch, level="graph")


def test_as_many_nodes_as_graphs_need_a_level() -> None:
    with pytest.raises(AssertionError, match="level"):
        assert_equivariant(Broken(""), torch.randn(1, 2).double(), torch.zeros(2, 0).long())
    assert_equivariant(
        Broken(""), torch.randn(1, 2).double(), torch.zeros(2, 0).long(), level="node"
    )


def test_the_mode_of_the_module_is_kept() -> None:
    model = SMP(2, 1, 4, 2, norm="batch", dropout=0.5).double().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert_equivariant(model, CASE.x, CASE.edge_index, None, CASE.batch)
    assert_batch_invariant(model, GRAPHS)
    assert model.training
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_graphs_without_features_may_have_isolated_nodes() -> None:
    """Renaming may make the isolated node the last one: the number of nodes must be kept."""
    model = SMP(0, 1, 4, 2).double()
    _, edges = undirected(4, [(0, 3), (1, 3)])  # node 2 has no edge
    assert_equivariant(model, None, torch.tensor(edges).t(), trials=10)


def test_graphs_without_features_and_with_isolated_nodes_are_batched() -> None:
    model = SMP(0, 1, 4, 2).double()
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = [
        Graph(None, edges, num_nodes=4),
        Graph(None, edges),
        Graph(None, edges[:, :0], None, 2),
    ]
    assert_batch_invariant(model, graphs)


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_empty_graph_may_stand_among_the_graphs(place: int, level: str) -> None:
    model = SMP(2, 1, 4, 2, level=level).double()
    empty = Graph(torch.zeros(0, 2, dtype=torch.float64), torch.zeros(2, 0, dtype=torch.long))
    graphs = GRAPHS[:2]
    assert_batch_invariant(model, [*graphs[:place], empty, *graphs[place:]])


@pytest.mark.parametrize(
    "module", ["testing", "contexts.context", "layers.base", "models.smp", "contexts.transforms"]
)
def test_examples_in_docstrings_run(module: str) -> None:
    assert doctest.testmod(importlib.import_module(f"smpgnn.{module}")).failed == 0
