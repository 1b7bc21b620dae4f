"""Features of whole graphs, which join the network at its head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import oracle
import pytest
import torch
from hypothesis import given
from small_networks import make
from strategies import Structure, assert_same, batches, cycle, make_case, path, randomize, seeds
from torch import Tensor, nn

from smpgnn import MPNN, SMP
from smpgnn.baselines.degree import DegreeGIN
from smpgnn.baselines.ppgn import PPGN
from smpgnn.capture.padded import Capacity, PaddedStore
from smpgnn.capture.step import CapturedStep
from smpgnn.capture.steps import row_axes
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.inference.explain import explain_store
from smpgnn.models.global_features import GlobalFeatures
from smpgnn.models.registry import NetworkSpec
from smpgnn.testing import Graph, assert_batch_invariant, assert_equivariant
from smpgnn.training.memory_probe import probe
from smpgnn.training.network import run_network
from smpgnn.training.row_counts import count_rows
from smpgnn.training.tasks import Regression

CHANNELS = 3
OPTIONS: list[dict[str, Any]] = [
    {},
    {"layer": "fast", "level": "node", "norm": "batch"},
    {"pooling": "sum"},
    {"readout": "mean+scaled-sum", "shared_extractor": True, "identifiers": "local"},
    {"edge_channels": 2, "norm": "layer"},
]
#: Other networks with the same head.
OTHERS: dict[str, Callable[[], SMP]] = {
    "MPNN": lambda: MPNN(2, 2, 4, 2, global_channels=CHANNELS),
    "GIN + degree": lambda: DegreeGIN(2, 2, 4, 2, global_channels=CHANNELS),
    "PPGN": lambda: PPGN(2, 2, 4, 2, global_channels=CHANNELS),
}


def features(count: int, seed: int = 0) -> Tensor:
    """Random features of graphs, some of them unknown or far out."""
    generator = torch.Generator().manual_seed(seed)
    u = 5 * torch.randn(count, CHANNELS, generator=generator, dtype=torch.float64) + 2
    u[torch.rand(u.shape, generator=generator) < 0.2] = torch.nan
    u[torch.rand(u.shape, generator=generator) < 0.2] *= 1e4
    return u


def fitted(model: SMP) -> SMP:
    assert model.globals is not None
    model.globals.fit(features(20, seed=9))
    return model


class WithFeatures(nn.Module):
    """A network whose first node feature in each graph is also a feature of the graph."""

    def __init__(self, network: SMP) -> None:
        super().__init__()
        self.network, self.level = network, network.level

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Any = None, batch: Any = None):  # type: ignore[no-untyped-def]
        graphs = int(batch.max()) + 1
        total = x.new_zeros(graphs, x.size(1)).index_add(0, batch, x)
        u = torch.cat([total, total.square()], dim=1)[:, :CHANNELS]
        return self.network(x, edge_index, edge_attr, batch, u=u)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(), seed=seeds())
def test_equals_the_oracle(options: dict[str, Any], graphs: list[Structure], seed: int) -> None:
    options = {k: v for k, v in options.items() if k != "identifiers"}
    model = fitted(make({**options, "global_channels": CHANNELS}, seed=seed)).eval()
    case = make_case(graphs, 2, options.get("edge_channels", 0), seed)
    u = features(case.num_graphs, seed)
    expected = oracle.smp(model, case.graphs, options.get("pooling", ""), u)
    assert_same(case.call(model, u=u), expected, model, case.leaves())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_equivariant_and_independent_of_the_batch(options: dict[str, Any]) -> None:
    model = WithFeatures(fitted(make({**options, "global_channels": CHANNELS})).eval())
    edges = options.get("edge_channels", 0)
    case = make_case([path(4), cycle(3), path(2)], 2, edges)
    assert_equivariant(model, case.x, case.edge_index, case.edge_attr, case.batch)
    cases = [make_case([graph], 2, edges, seed) for seed, graph in enumerate([path(4), cycle(5)])]
    assert_batch_invariant(model, [Graph(c.x, c.edge_index, c.edge_attr) for c in cases])


@pytest.mark.parametrize("name", OTHERS)
def test_other_networks_use_them(name: str) -> None:
    model = WithFeatures(fitted(randomize(OTHERS[name]())).eval())
    case = make_case([path(4), cycle(3)], 2)
    assert_equivariant(model, case.x, case.edge_index, None, case.batch)
    one, other = (case.call(model.network, u=u) for u in (features(2), features(2, seed=1)))
    assert not torch.allclose(one, other)


def test_standardised_by_the_known_values_of_training() -> None:
    features = GlobalFeatures(4)
    nan, inf = torch.nan, torch.inf
    features.fit(torch.tensor([[1.0, 7.0, nan, 300.0], [3.0, 7.0, nan, nan], [nan, 7.0, nan, 302]]))
    found = features(torch.tensor([[4.0, 7.0, 5.0, 301.0], [nan, 8.0, nan, -inf]]))
    # deviations 1, none, none, 1
    torch.testing.assert_close(found, torch.tensor([[2.0, 0.0, 5.0, 0.0], [0.0, 1.0, 0.0, -10.0]]))


def store(case: Any, u: Tensor | None = None) -> GraphStore:
    sizes = torch.tensor([graph.num_nodes for graph in case.graphs])
    edges = torch.bincount(case.batch[case.edge_index[0]], minlength=len(sizes))
    start = (sizes.cumsum(0) - sizes)[case.batch[case.edge_index[0]]]
    return GraphStore.of_sizes(
        sizes, edges, edge_index=case.edge_index - start, x=case.x.detach().float(), u=u
    )


@pytest.mark.parametrize("level", ["graph", "node"])
def test_padded_batches_carry_them(level: str) -> None:
    case = make_case([path(4), cycle(3), path(2), cycle(6)], 2)
    u = features(4).float()
    graphs = store(case, u)
    model = fitted(make({"level": level, "global_channels": CHANNELS})).float().eval()
    chosen = torch.tensor([3, 0, 2])
    expected = run_network(model, graphs.batch(chosen))
    rows = row_axes(model, graphs)
    padded = PaddedStore(graphs, Capacity.of(graphs, 4, rows), rows)
    found = run_network(model, *padded.batch(torch.tensor([3, 0, 2, -1])))
    torch.testing.assert_close(found[: len(expected)], expected)
    assert found.isfinite().all()


def test_captured_steps_of_your_own_refuse_them() -> None:
    with pytest.raises(InputError, match="SMP with global_channels=3 cannot be captured"):
        CapturedStep(lambda batch: None, SMP(2, 1, 4, 1, global_channels=3))


def test_stores_take_them_along() -> None:
    graphs = store(make_case([path(4), cycle(3)], 2), features(2))
    torch.testing.assert_close(graphs.select([1, 1]).u, features(2)[[1, 1]], equal_nan=True)
    both = GraphStore.concat([graphs, graphs.select([0])])
    torch.testing.assert_close(both.u, features(2)[[0, 1, 0]], equal_nan=True)
    assert graphs.batch().u.dtype == torch.float32
    with pytest.raises(InputError, match="u has 1 entries instead of 2"):
        replace(graphs, u=torch.zeros(1, 3))


def test_explanations_add_up_with_the_features_in_the_rest() -> None:
    graphs = store(make_case([path(4), cycle(3), path(2)], 2), features(3).float())
    options = {"readout": "mean", "shared_extractor": True, "global_channels": CHANNELS}
    model, task = fitted(make(options)).float().eval(), Regression(names=("a", "b"), mean=(0, 1),
                                                                   scale=(1, 2))  # fmt: skip
    found = explain_store(model, task, graphs, steps=200)
    with torch.no_grad():
        torch.testing.assert_close(
            found.score, task.measured(run_network(model, graphs.batch())).double()
        )
    bare = found.rest - found.missed  # the score of zero contexts, with the features of each graph
    assert not torch.allclose(bare[0], bare[1])
    assert (found.missed.abs() < 0.05 * (found.score - bare).abs() + 1e-2).all()


@pytest.mark.parametrize(
    ("channels", "u", "message"),
    [
        (3, None, "u is missing: global_channels is 3."),
        (3, torch.zeros(2, 3), r"u must have shape \[number of graphs, 3\] = \[1, 3\], not"),
        (3, torch.zeros(1, 3, dtype=torch.float64), "u is torch.float64 but the network"),
        (3, [1.0, 2.0, 3.0], "u must be a torch.Tensor"),
        (0, torch.zeros(1, 3), "u is given, but global_channels is 0: leave u out."),
    ],
)
def test_wrong_features_are_refused(channels: int, u: Any, message: str) -> None:
    model = SMP(0, 1, 4, 1, global_channels=channels)
    with pytest.raises(InputError, match=message):
        model(None, torch.tensor([[0, 1], [1, 0]]), u=u)


def test_the_probe_of_the_memory_runs_with_them() -> None:
    graphs = store(make_case([path(4), cycle(3), path(40)], 2), features(3).float())
    network = make({}).options
    spec = NetworkSpec(in_channels=2, graph_outputs=1, options=network, global_channels=CHANNELS)
    counts = count_rows(graphs, spec)
    assert probe(graphs, spec, torch.device("cpu"), counts).per_row > 0
