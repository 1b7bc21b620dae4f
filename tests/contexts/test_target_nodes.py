"""Mini-batches of target nodes: the results of the whole graph, from what the targets need."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    Case,
    Structure,
    assert_same,
    cycle,
    long_structures,
    make_case,
    path,
    randomize,
    seeds,
    structures,
)
from torch_geometric.data import Data

from smpgnn import MPNN, SMP, InputError, MultiTaskSMP
from smpgnn.contexts.rows import NeighborhoodRows
from smpgnn.contexts.target_nodes import ReceptiveFields, TargetBatch, TargetLoader

GRAPHS = st.lists(
    st.one_of(structures(1, max_nodes=6), long_structures(12)), min_size=1, max_size=3
)
OPTIONS: list[dict[str, Any]] = [
    {"layer": "default", "edge_channels": 2, "residual": True},
    {"layer": "default", "message_residual": True, "shared_extractor": True},
    {"layer": "fast", "norm": "layer"},
    {"features": "context"},
]


def as_data(case: Case) -> Data:
    return Data(
        x=case.x,
        edge_index=case.edge_index,
        edge_attr=case.edge_attr,
        batch=case.batch,
        num_nodes=case.num_nodes,
    )


def call(model: SMP, batch: TargetBatch) -> torch.Tensor:
    return model(batch.x, batch.edge_index, batch.edge_attr, index=batch.index)


def some_order(count: int, seed: int) -> torch.Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=GRAPHS, depth=st.integers(1, 4), size=st.integers(1, 5), seed=seeds())
def test_batches_together_are_the_whole_graph(
    options: dict[str, Any], graphs: list[Structure], depth: int, size: int, seed: int
) -> None:
    """In training: the outputs of all batches, and the sums of their gradients."""
    case = make_case(graphs, 2, options.get("edge_channels", 0), seed)
    model = randomize(SMP(2, 2, 4, depth, level="node", **options), seed)
    whole = case.call(model, index=case.index("onehot"))
    leaves = [*model.parameters(), *case.leaves()]
    weight = torch.randn(whole.shape, generator=torch.Generator().manual_seed(0)).double()
    expected = torch.autograd.grad((weight * whole).sum(), leaves, allow_unused=True)
    total = [torch.zeros_like(leaf) for leaf in leaves]
    seen = []
    loader = TargetLoader(as_data(case), depth, some_order(case.num_nodes, seed), batch_size=size)
    for batch in loader:
        out = call(model, batch)
        assert_same(out, whole[batch.targets], tolerance=1e-12)
        part = torch.autograd.grad((weight[batch.targets] * out).sum(), leaves, allow_unused=True)
        total = [a if b is None else a + b for a, b in zip(total, part, strict=True)]
        seen += batch.targets.tolist()
    assert sorted(seen) == list(range(case.num_nodes))
    zeros = [torch.zeros_like(leaf) for leaf in leaves]
    wanted = [z if e is None else e for z, e in zip(zeros, expected, strict=True)]
    assert_same(total, wanted, tolerance=1e-11)


@pytest.mark.parametrize("layer", ["default", "fast"])
@given(graphs=GRAPHS, depth=st.integers(1, 3), seed=seeds())
def test_batch_norm_in_eval_mode_equals_that_of_the_whole_graph(
    layer: str, graphs: list[Structure], depth: int, seed: int
) -> None:
    case = make_case(graphs, 2, 0, seed)
    model = randomize(SMP(2, 1, 4, depth, layer, level="node", norm="batch"), seed).eval()
    whole = case.call(model)
    batch = TargetLoader(as_data(case), depth).batch(some_order(case.num_nodes, seed)[:3])
    assert_same(call(model, batch), whole[batch.targets], tolerance=1e-12)


def test_batch_norm_in_training_takes_the_rows_of_the_batch() -> None:
    """Those of the whole graph if all nodes are targets, others if not."""
    case = make_case([path(12)], 2, 0, 1)
    model = randomize(SMP(2, 1, 4, 2, level="node", norm="batch"), 1).train()
    whole = case.call(model)
    loader = TargetLoader(as_data(case), 2)
    assert_same(call(model, loader.batch(torch.arange(12))), whole)
    part = call(model, loader.batch(torch.tensor([0])))
    assert (part - whole[:1]).abs().max() > 1e-6


@given(graphs=GRAPHS, depth=st.integers(1, 3), seed=seeds())
def test_a_field_has_exactly_what_its_targets_need(
    graphs: list[Structure], depth: int, seed: int
) -> None:
    """V_l is what reaches the targets within L − l hops; contexts have rows for l hops in it."""
    case = make_case(graphs)
    order = some_order(case.num_nodes, seed)
    targets = order[: 1 + seed % 3]
    field = ReceptiveFields(case.topology, depth)(targets)
    hops, start = {}, 0
    for graph in case.graphs:
        for i, line in enumerate(graph.hops()):
            hops |= {(start + i, start + j): value for j, value in enumerate(line)}
        start += graph.num_nodes
    far = {
        j: min(hops.get((int(t), j), float("inf")) for t in targets) for j in range(case.num_nodes)
    }
    assert set(field.nodes.tolist()) == {j for j, value in far.items() if value <= depth}
    assert field.nodes[: targets.numel()].tolist() == targets.tolist()
    assert torch.equal(field.nodes[field.edge_index], case.edge_index[:, field.edges])
    arriving = [e for e, i in enumerate(case.edge_index[1].tolist()) if far[i] < depth]
    assert sorted(field.edges.tolist()) == arriving
    for number, layer in enumerate(field.index.layers, start=1):
        table, nodes = layer.table, field.nodes.tolist()
        assert isinstance(table, NeighborhoodRows)
        assert layer.topology.num_nodes == sum(v <= depth - number + 1 for v in far.values())
        assert layer.topology.num_edges == sum(
            far[i] <= depth - number for i in case.edge_index[1].tolist()
        )
        for k in range(layer.topology.num_nodes):
            rows = table.described[table.ptr[k] : table.ptr[k + 1]].tolist()
            radius = number if far[nodes[k]] <= depth - number else number - 1
            assert {nodes[j] for j in rows if j < len(nodes)} == {
                j for j in range(case.num_nodes) if hops.get((nodes[k], j), 99) <= radius
            }
        sizes = case.topology.graph_size[case.batch[field.nodes]]
        assert torch.equal(layer.layout.count, sizes[: layer.topology.num_nodes])


@pytest.mark.parametrize("layer", ["default", "fast"])
@given(graphs=GRAPHS, seed=seeds())
def test_layers_of_your_own_work_on_a_field(layer: str, graphs: list[Structure], seed: int) -> None:
    """Edge by edge, as a layer with functions of its own would, and by the short way."""
    case = make_case(graphs, 2, 0, seed)
    backbone = randomize(SMP(2, 1, 4, 2, layer, level="node"), seed).backbone
    batch = TargetLoader(as_data(case), 2).batch(some_order(case.num_nodes, seed)[:2])
    index = batch.index
    context = index.initial(batch.x, torch.float64)
    for number, part in enumerate(backbone.layers, start=1):
        context, here = index.enter(context, number), index.of_layer(number)
        new = part(context, here)
        assert_same(part.general_forward(context, here).rows, new.rows)
        context = new
        assert index.read(context, number).own().size(0) == batch.targets.numel()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("layer", ["default", "fast"])
def test_fields_are_the_same_on_a_gpu(layer: str) -> None:
    case = make_case([path(30), cycle(20)], 2, 0, 1)
    model = randomize(SMP(2, 1, 8, 3, layer, level="node"), 1).eval()
    loaders = [TargetLoader(as_data(case).to(device), 3) for device in ("cpu", "cuda")]
    one, other = (loader.batch(torch.tensor([3, 40, 11])) for loader in loaders)
    assert torch.equal(one.nodes, other.nodes.cpu())
    for here, there in zip(one.index.layers, other.index.layers, strict=True):
        for field in ("ptr", "source", "target", "edge", "scale"):
            assert torch.equal(getattr(here.lift, field), getattr(there.lift, field).cpu())
    expected = call(model, one)
    assert_same(call(model.cuda(), other).cpu(), expected)


def test_far_away_a_field_is_small() -> None:
    """A ring of a million nodes: what one target needs does not grow with the ring."""
    ring = torch.arange(1_000_000)
    edges = torch.stack([ring, ring.roll(-1)])
    data = Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), num_nodes=1_000_000)
    batch = TargetLoader(data, 2).batch(torch.tensor([500_000]))
    assert batch.nodes.tolist()[:1] == [500_000]
    assert sorted(batch.nodes.tolist()) == list(range(499_998, 500_003))
    # Five contexts, three of them with one hop; then three, one of them with two hops.
    assert [layer.num_rows for layer in batch.index.layers] == [3 * 4 + 2 * 2, 6 + 2 * 4]
    assert batch.index.layers[0].layout.count.tolist() == [1_000_000] * 5


def test_the_same_field_twice() -> None:
    fields = ReceptiveFields(make_case([cycle(9)]).topology, 2)
    one, _, again = (fields(torch.tensor(t)) for t in ([3, 1], [8], [3, 1]))
    assert torch.equal(one.nodes, again.nodes)
    assert torch.equal(one.edge_index, again.edge_index)


def test_the_loader_by_hand() -> None:
    case = make_case([path(7)], 2)
    data = as_data(case)
    data.y = torch.arange(7.0)
    mask = torch.tensor([1, 0, 1, 1, 0, 0, 1], dtype=torch.bool)
    loader = TargetLoader(data, 1, mask, batch_size=3)
    assert len(loader) == 2
    first, second = loader
    assert first.targets.tolist() == first.y.tolist() == [0, 2, 3]
    assert first.nodes.tolist() == [0, 2, 3, 1, 4]
    assert torch.equal(first.x, case.x[first.nodes])
    assert first.edge_attr is None
    assert second.targets.tolist() == [6]
    assert len(TargetLoader(data, 1, torch.zeros(7, dtype=torch.bool))) == 0
    assert list(TargetLoader(data, 1, torch.zeros(7, dtype=torch.bool))) == []


def test_shuffling_follows_the_generator() -> None:
    data = as_data(make_case([path(20)]))

    def orders(seed: int) -> list[list[int]]:
        generator = torch.Generator().manual_seed(seed)
        loader = TargetLoader(data, 1, batch_size=20, shuffle=True, generator=generator)
        return [batch.targets.tolist() for _ in range(2) for batch in loader]

    assert orders(0) == orders(0)
    assert orders(0)[0] != orders(0)[1]
    assert sorted(orders(1)[0]) == list(range(20))


def test_networks_for_graphs_and_for_nodes_without_contexts_refuse_a_field() -> None:
    case = make_case([path(5)], 2)
    batch = TargetLoader(as_data(case), 2).batch(torch.tensor([1]))
    for model in (SMP(2, 1, 4, 2).double(), MultiTaskSMP(2, 1, 1, 4, 2).double()):
        with pytest.raises(InputError, match="target nodes"):
            model(batch.x, batch.edge_index, index=batch.index)
    with pytest.raises(InputError, match="works on nodes"):
        call(MPNN(2, 1, 4, 2, level="node").double(), batch)
    with pytest.raises(InputError, match="for 2 layers, but the network has 3"):
        call(SMP(2, 1, 4, 3, level="node").double(), batch)
    with pytest.raises(InputError, match="rename the nodes of the whole graph"):
        batch.index.permute(torch.arange(5))


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (torch.tensor([0, 5]), "names node 5"),
        (torch.tensor([-1]), "names node -1"),
        (torch.tensor([1, 1]), "twice"),
        (torch.tensor([0.5]), "node numbers"),
        (torch.tensor([[1]]), "node numbers"),
        (torch.ones(4, dtype=torch.bool), "shape"),
        ([0, 1], "torch.Tensor"),
    ],
)
def test_bad_targets_are_refused(targets: Any, message: str) -> None:
    data = as_data(make_case([path(5)]))
    with pytest.raises(InputError, match=message):
        TargetLoader(data, 1, targets)


def test_other_bad_arguments_are_refused() -> None:
    data = as_data(make_case([path(5)]))
    with pytest.raises(InputError, match="batch_size"):
        TargetLoader(data, 1, batch_size=0)
    with pytest.raises(InputError, match="num_layers"):
        TargetLoader(data, 0)
    with pytest.raises(InputError, match="empty"):
        TargetLoader(data, 1).batch(torch.tensor([], dtype=torch.long))
    data.y = torch.zeros(1)
    with pytest.raises(InputError, match=r"data\.y must have a row for each of the 5 nodes"):
        TargetLoader(data, 1)
