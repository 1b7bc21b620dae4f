"""What nodes add to a prediction: it adds up, is the integral it should be, and equivariant."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smpgnn.config.models import MODELS
from smpgnn.config.options import ZincOptions
from smpgnn.config.settings import with_values
from smpgnn.contexts.context import LocalContext
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.inference.explain import explain_store, explained
from smpgnn.models.registry import NetworkSpec
from smpgnn.models.smp import SMP
from smpgnn.training.network import run_network
from smpgnn.training.tasks import Classification, GraphProperties, MultiLabel, Regression

TASK = Regression(names=("a", "b"), mean=(1.0, -2.0), scale=(3.0, 0.5))

NETWORKS: list[dict[str, Any]] = [
    {"identifiers": "onehot", "readout": "mean"},
    {"identifiers": "local", "features": "row", "own_terms": True, "readout": "mean+scaled-sum"},
    {"identifiers": "neighborhood", "readout": "sum", "norm_place": "after"},
    {"identifiers": "coloring", "readout": "mean", "shared_extractor": False},
    {"model": "fast-smp", "identifiers": "onehot", "readout": "max"},
    {"model": "mpnn", "readout": "mean+max"},
    {"model": "gin", "readout": "scaled-sum"},
    {"model": "pna"},
    {"model": "gated-gcn"},
    {"model": "mpnn-jt"},
    {"model": "ppgn"},
    {"model": "gin-degree", "readout": "max"},
    {"model": "fast-mpnn"},
    {"model": "dgn"},
    {"model": "gat"},
    {"model": "mpnn-sum"},
    {"model": "ring-gnn"},
]


def store() -> GraphStore:
    """A path, a ring with a tail, two parts, one node, a star."""
    edges = [
        [(0, 1), (1, 2), (2, 3)],
        [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5)],
        [(0, 1), (2, 3), (3, 4)],
        [],
        [(0, 1), (0, 2), (0, 3)],
    ]
    sizes = torch.tensor([4, 6, 5, 1, 4])
    both = [[*one, *((b, a) for a, b in one)] for one in edges]
    counts = torch.tensor([len(one) for one in both])
    index = torch.tensor([pair for one in both for pair in one]).t()
    generator = torch.Generator().manual_seed(3)
    bonds = torch.rand(index.size(1) // 2, 2, generator=generator)
    start, attr = 0, []
    for one in edges:
        part = bonds[start : start + len(one)]
        attr += [part, part]
        start += len(one)
    return GraphStore(
        node_ptr=torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)]),
        edge_ptr=torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)]),
        edge_index=index,
        x=torch.rand(int(sizes.sum()), 3, generator=generator),
        edge_attr=torch.cat(attr),
    )


def make(values: dict[str, Any], outputs: int = 2) -> nn.Module:
    small = {"hidden_channels": 8, "num_layers": 2, "towers": 2, "extractor_channels": 8}
    paper = {"identifiers": "onehot", "features": "own", "own_terms": False}
    options = with_values(ZincOptions(), {**small, **paper, **values}, "test")
    torch.manual_seed(0)
    widths = {"in_channels": 3, "edge_channels": 2, "node_outputs": 0, "graph_outputs": outputs}
    spec = NetworkSpec(options=options.network, **widths, max_nodes=6, usual_nodes=4.0)
    return spec.build().eval()


def of_graph(graphs: GraphStore, values: Tensor, graph: int) -> Tensor:
    return values[int(graphs.node_ptr[graph]) : int(graphs.node_ptr[graph + 1])]


@pytest.mark.parametrize("values", NETWORKS, ids=lambda v: f"{v.get('model', 'smp')}-{len(v)}")
def test_rest_and_nodes_add_up_to_the_prediction(values: dict[str, Any]) -> None:
    network, graphs = make(values), store()
    with torch.no_grad():
        expected = TASK.measured(run_network(network, graphs.batch())).double()
    found = explain_store(network, TASK, graphs, steps=400)
    torch.testing.assert_close(found.score, expected, atol=1e-5, rtol=1e-5)
    sums = torch.stack([of_graph(graphs, found.nodes, g).sum(0) for g in range(len(graphs))])
    torch.testing.assert_close(found.rest + sums, found.score)
    # the rest is what contexts of zeros give, the same for all graphs, but for what was missed
    bare = found.rest - found.missed
    torch.testing.assert_close(bare, bare[:1].expand_as(bare), atol=1e-5, rtol=1e-5)
    assert (found.missed.abs() < 0.02 * (found.score - bare).abs() + 1e-3).all()
    assert found.nodes.abs().max() > 0.01


@pytest.mark.parametrize("model", ["gin-random", "rp"])
def test_draws_are_averaged(model: str) -> None:
    """Networks that depend on chance: the score explained is that of the same draws."""
    found = explain_store(make({"model": model}), TASK, store(), steps=20)
    bare = found.rest - found.missed
    torch.testing.assert_close(bare, bare[:1].expand_as(bare), atol=1e-5, rtol=1e-5)
    assert (found.missed.abs() < 0.2 * (found.score - bare).abs() + 1e-2).all()


def test_all_networks_for_graphs_are_tested() -> None:
    tested = {values.get("model", "smp") for values in NETWORKS} | {"gin-random", "rp"}
    assert tested == set(MODELS)


# not with a maximum: where nodes are tied, as by their ones at first, it has no slope
@pytest.mark.parametrize("values", NETWORKS[:4], ids=lambda v: str(v["identifiers"]))
def test_a_node_adds_the_integral_of_what_its_context_changes(values: dict[str, Any]) -> None:
    """By differences: the share of one node's context moves a little, at each point."""
    network, graphs, steps, little = make(values), store(), 16, 1e-4
    network = network.double()
    assert isinstance(network, SMP)
    batch = graphs.batch()
    batch = replace(batch, x=_double(batch.x), edge_attr=_double(batch.edge_attr))

    def read(contexts: Any, index: Any) -> Tensor:
        layers: list[LocalContext] = list(contexts)

        def score(share: float, node: int, change: float) -> Tensor:
            moved = []
            for context in layers:
                shares = torch.full((context.rows.size(0), 1), share, dtype=torch.float64)
                shares[context.layout.owner == node] += change
                moved.append(context.with_rows(shares * context.rows))
            values = [network.values(context) for context in moved]
            return network.of_pooled(*network.pool(values, index))

        found = torch.zeros(batch.num_nodes, 2, dtype=torch.float64)
        for node in range(batch.num_nodes):
            for low, high in pairwise((step / steps) ** 2 for step in range(steps + 1)):
                share = (low + high) / 2
                slope = score(share, node, little) - score(share, node, -little)
                found[node] += slope[batch.batch[node]] * (high - low) / (2 * little)
        return found

    with torch.no_grad():
        expected = run_network(network, batch, reader=read)
    found = explain_store(make(values), TASK, graphs, steps=steps)
    scale = torch.tensor(TASK.scale, dtype=torch.float64)
    torch.testing.assert_close(found.nodes, scale * expected, atol=2e-3, rtol=2e-3)


def _double(values: Tensor | None) -> Tensor | None:
    return None if values is None else values.double()


@pytest.mark.parametrize("values", NETWORKS[:3], ids=lambda v: str(v["identifiers"]))
def test_nodes_keep_theirs_in_any_order_and_batch(values: dict[str, Any]) -> None:
    network, graphs = make(values), store()
    whole = explain_store(network, TASK, graphs, steps=8)
    for graph in range(len(graphs)):
        one = graphs.select([graph])
        order = torch.randperm(
            int(one.num_nodes[0]), generator=torch.Generator().manual_seed(graph)
        )
        assert one.x is not None
        new = torch.empty_like(one.x)
        new[order] = one.x
        renamed = replace(one, x=new, edge_index=order[one.edge_index])
        found = explain_store(network, TASK, renamed, steps=8)
        expected = of_graph(graphs, whole.nodes, graph)
        torch.testing.assert_close(found.nodes[order], expected, atol=1e-5, rtol=1e-4)


def test_alike_nodes_add_alike() -> None:
    """The leaves of the star have no features here, and their edges the same."""
    graphs = store().select([4])
    assert graphs.x is not None
    assert graphs.edge_attr is not None
    alike = replace(
        graphs, x=torch.ones_like(graphs.x), edge_attr=torch.ones_like(graphs.edge_attr)
    )
    nodes = explain_store(make(NETWORKS[0]), TASK, alike, steps=8).nodes
    torch.testing.assert_close(nodes[1:], nodes[1:2].expand(3, 2))
    assert (nodes[0] - nodes[1]).abs().max() > 1e-3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("values", NETWORKS[:8], ids=lambda v: f"{v.get('model', 'smp')}-{len(v)}")
def test_a_gpu_says_the_same(values: dict[str, Any]) -> None:
    network, graphs = make(values), store()
    expected = explain_store(network, TASK, graphs, steps=16)
    found = explain_store(network.cuda(), TASK, graphs, steps=16)
    torch.testing.assert_close(found.score, expected.score, atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(found.nodes, expected.nodes, atol=1e-2, rtol=1e-2)


def test_scores_of_classes_are_log_odds() -> None:
    output = torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.0, -2.0]])
    three = Classification(name="kind", classes=("a", "b", "c"))
    shares = output.softmax(1)
    torch.testing.assert_close(three.scores(output), (shares / (1 - shares)).log())
    assert three.score_names() == ["kind=a", "kind=b", "kind=c"]
    two = Classification(name="kind", classes=("no", "yes"))
    shares = output[:, :2].softmax(1)[:, 1:]
    torch.testing.assert_close(two.scores(output[:, :2]), (shares / (1 - shares)).log())
    assert two.score_names() == ["kind=yes"]
    labels = MultiLabel(names=("p", "q"), classes=(("no", "yes"), ("0", "1")))
    torch.testing.assert_close(labels.scores(output[:, :2]).sigmoid(), output[:, :2].sigmoid())
    assert labels.score_names() == ["p=yes", "q=1"]


def test_what_cannot_be_explained_is_refused() -> None:
    for task in (Regression(level="node"), GraphProperties()):
        with pytest.raises(InputError, match="node predictions cannot be explained"):
            explained(task)
    with pytest.raises(InputError, match="steps must be 1 or more, not 0"):
        explain_store(make({}), TASK, store(), steps=0)


def test_no_graphs_have_no_contributions() -> None:
    found = explain_store(make({}), TASK, store().select([]))
    assert found.score.shape == found.nodes.shape == (0, 2)
