"""Batches of fixed size: what is not used of the room changes nothing, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
from recording import NothingFromPython
from strategies import ODD, assert_same, cycle, make_case, path, randomize, undirected
from sweep import sweep
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode

from smpgnn import MPNN, SMP, ContextIndex, MultiTaskMPNN, MultiTaskSMP, Topology
from smpgnn.baselines.degree import DegreeGIN
from smpgnn.baselines.dgn import DGN, MultiTaskDGN
from smpgnn.baselines.gat import GAT, MultiTaskGAT
from smpgnn.baselines.gated_gcn import GatedGCN, MultiTaskGatedGCN
from smpgnn.baselines.gin import GIN
from smpgnn.baselines.gine import GINE, MultiTaskGINE
from smpgnn.baselines.junction_tree import JunctionTreeMPNN
from smpgnn.baselines.mpnn_sum import MPNNSum, MultiTaskMPNNSum
from smpgnn.baselines.pna import PNA, MultiTaskPNA
from smpgnn.baselines.ppgn import PPGN
from smpgnn.baselines.relational_pooling import RelationalPooling
from smpgnn.baselines.ring_gnn import RingGNN
from smpgnn.capture.padded import Capacity, PaddedStore
from smpgnn.capture.rows import LocalAxes, NodeAxes, OneHotAxes, RowAxes
from smpgnn.capture.steps import can_capture, row_axes, structures
from smpgnn.config.network import TERMS
from smpgnn.data.store import GraphStore
from smpgnn.ops import backend
from smpgnn.training.network import run_network

GRAPHS = [path(6), cycle(5), ODD["edgeless"], ODD["loops"], path(9), ODD["single"], cycle(7)]
GRAPHS.append(undirected(8, [*((k, (k + 1) % 6) for k in range(6)), (0, 2), (3, 6), (6, 7)]))
CHOSEN = [4, 2, 0, 3]
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "default": lambda: SMP(2, 2, 4, 2, edge_channels=3, norm="batch", towers=2, residual=True,
                           message_residual=True, update_residual=True, shared_extractor=True),
    "fast": lambda: SMP(2, 2, 3, 3, "fast", norm="batch"),
    "own terms": lambda: SMP(2, 2, 4, 3, "fast", norm="batch", own_terms=True, residual=True),
    "norm after": lambda: SMP(2, 2, 4, 3, norm="batch", norm_place="after", residual=True,
                              edge_channels=3),
    "layer norm": lambda: SMP(2, 2, 3, 3, "fast", norm="layer"),
    "node level": lambda: SMP(2, 2, 3, 2, "fast", level="node", norm="batch"),
    "local": lambda: SMP(2, 2, 4, 3, identifiers="local", context_radius=2, edge_channels=3,
                         norm="batch", residual=True, message_residual=True, own_terms=True),
    "local features": lambda: SMP(2, 2, 4, 3, identifiers="local", context_radius=1, norm="batch",
                                  features="row", own_terms=True, edge_channels=3),
    "fast local": lambda: SMP(2, 2, 3, 4, "fast", "local", context_radius=1, norm="batch"),
    "local nodes": lambda: SMP(2, 2, 3, 2, "fast", "local", level="node", norm="layer"),
    "multi-task local": lambda: MultiTaskSMP(2, 3, 2, 4, 2, identifiers="local", state_channels=3,
                                             norm_place="after"),
    "ablation": lambda: MPNN(2, 2, 3, 2, edge_channels=3, norm="batch"),
    "multi-task": lambda: MultiTaskSMP(2, 3, 2, 4, 2, state_channels=3),
    "largest": lambda: SMP(2, 2, 3, 3, "fast", norm="batch", readout="max"),
    "GIN": lambda: GIN(2, 2, 3, 3, norm="batch", residual=True, readout="max"),
    "GIN + degree": lambda: DegreeGIN(2, 2, 3, 3, norm="batch"),
    "PPGN": lambda: PPGN(2, 2, 3, 3, norm="batch", residual=True),
    "PPGN without norm": lambda: PPGN(2, 2, 3, 3),
    "Ring-GNN": lambda: RingGNN(2, 2, 3, 3, norm="batch", residual=True),
    "multi-task ablation": lambda: MultiTaskMPNN(2, 3, 2, 4, 2, "fast", state_channels=3),
}  # fmt: skip
#: The family on the same rows (docs/concepts/family.md).
FAMILY: dict[str, dict[str, Any]] = {
    "inside": {"terms": ("inside",)},
    "local 2-FWL": {"terms": ("inside", "folklore"), "edge_channels": 3, "norm": "batch"},
    "mirror": {"terms": ("mirror",), "edge_channels": 3, "level": "node"},
    "products": {"terms": ("product", "block-product"), "norm": "layer"},
    "all terms": {"terms": TERMS, "edge_channels": 3, "norm": "batch", "residual": True,
                  "features": "both", "first_rows": ("distance", "bond")},
    "walks": {"first_rows": ("bond", "walks"), "walk_steps": 3, "norm": "batch"},
}  # fmt: skip
NETWORKS |= {
    f"{name}, {rows}": partial(SMP, 2, 2, 4, 2, identifiers=rows, context_radius=2, **options)
    for name, options in FAMILY.items()
    for rows in ("onehot", "local")
}
NETWORKS |= {
    "pairs": lambda: SMP(2, 2, 4, 2, identifiers="pairs", context_radius=2, edge_channels=3,
                         norm="batch", residual=True, own_terms=True),
    "pairs with walks": lambda: SMP(2, 2, 4, 2, identifiers="pairs", context_radius=2,
                                    pair_distance=2, edge_channels=3, walk_steps=3,
                                    features="both", first_rows=("distance", "bond", "walks")),
}  # fmt: skip
#: Those with messages on edges.
BASELINES: dict[str, Callable[[], nn.Module]] = {
    "GINE": lambda: GINE(2, 2, 3, 3, norm="batch", residual=True),
    "GINE with edges": lambda: GINE(2, 2, 3, 3, edge_channels=3, norm="batch", readout="max"),
    "GAT": lambda: GAT(2, 2, 4, 3, norm="batch", heads=2, residual=True),
    "GAT with edges": lambda: GAT(2, 2, 4, 3, edge_channels=3, level="node", heads=2),
    "PNA": lambda: PNA(2, 2, 3, 3, norm="batch", residual=True),
    "PNA with edges": lambda: PNA(2, 2, 3, 3, edge_channels=3, norm="layer"),
    "MPNN (sum)": lambda: MPNNSum(2, 2, 3, 3),
    "MPNN (sum) with edges": lambda: MPNNSum(2, 2, 3, 3, edge_channels=3, norm="batch"),
    "Gated-GCN": lambda: GatedGCN(2, 2, 3, 3, norm="batch", residual=True),
    "Gated-GCN with edges": lambda: GatedGCN(2, 2, 3, 3, edge_channels=3, norm="layer"),
    "DGN": lambda: DGN(2, 2, 3, 3, norm="batch", residual=True),
    "DGN with edges": lambda: DGN(2, 2, 3, 3, edge_channels=3, norm="layer",
                                  aggregators=["dx2", "max", "av1", "min", "dx1"]),
    "DGN without sums": lambda: DGN(2, 2, 3, 3, norm="batch", aggregators=["max"]),
    "MPNN-JT": lambda: JunctionTreeMPNN(2, 2, 3, 3, norm="batch", residual=True),
    "MPNN-JT with edges": lambda: JunctionTreeMPNN(2, 2, 3, 3, edge_channels=3, norm="layer"),
    "multi-task GINE": lambda: MultiTaskGINE(2, 3, 2, 4, 2, edge_channels=3, state_channels=3),
    "multi-task GAT": lambda: MultiTaskGAT(2, 3, 2, 4, 2, edge_channels=3, state_channels=3),
    "multi-task PNA": lambda: MultiTaskPNA(2, 3, 2, 4, 2, edge_channels=3, state_channels=3),
    "multi-task MPNN (sum)": lambda: MultiTaskMPNNSum(2, 3, 2, 4, 2, state_channels=3),
    "multi-task DGN": lambda: MultiTaskDGN(2, 3, 2, 4, 2, edge_channels=3, state_channels=3),
    "multi-task Gated-GCN": lambda: MultiTaskGatedGCN(2, 3, 2, 4, 3, edge_channels=3,
                                                      state_channels=3, residual=True),
}  # fmt: skip
NETWORKS |= BASELINES
LOCAL = [name for name, make in NETWORKS.items() if make().backbone.identifiers == "local"]


def make_store() -> GraphStore:
    case = make_case(GRAPHS, 2, 3)
    sizes = torch.bincount(case.batch, minlength=len(GRAPHS))
    owner = case.batch[case.edge_index[0]]
    order = torch.argsort(owner, stable=True)
    counts = torch.bincount(owner, minlength=len(GRAPHS))
    node_ptr = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    return GraphStore(
        node_ptr,
        torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)]),
        case.edge_index[:, order] - node_ptr[owner[order]],
        case.x.detach(),
        case.edge_attr.detach()[order],
        torch.arange(len(GRAPHS)).unsqueeze(1).float(),
    )


def capacity(graphs: int, nodes: int, edges: int, rows: int, messages: int = 1) -> Capacity:
    return Capacity(graphs, {"node": nodes, "edge": edges, "row": rows, "message": messages})


def make_padded(store: GraphStore, network: nn.Module) -> PaddedStore:
    rows, room = row_axes(network, store), capacity(6, 40, 80, 300, 500)
    if network.backbone.identifiers == "pairs":
        room = capacity(6, 40, 80, 900, 1800)
    own = {"link_row": 300, "node_row": 300, "link_edge": 80, "inside": 600}
    more = {axis: own.get(axis, 1500) for axis in rows.axes if axis not in room.sizes}
    room = Capacity(room.graphs, {**room.sizes, **more})
    return PaddedStore(store, room, rows, structures(network))


def outputs_and_gradients(network: nn.Module, out: object, real: list[int]) -> list[Tensor]:
    outs = [out] if isinstance(out, Tensor) else list(out)  # type: ignore[call-overload]
    outs = [o[:n] for o, n in zip(outs, real, strict=True)]
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(o.shape, generator=generator, dtype=o.dtype) for o in outs]
    sum((o * w).sum() for o, w in zip(outs, weights, strict=True)).backward()
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in network.parameters()]
    return [*(o.detach() for o in outs), *grads, *(b.double() for b in network.buffers())]


def compare_with_padded(name: str, training: bool, chosen: Sequence[int] = CHOSEN) -> None:
    """Outputs, gradients and statistics of a batch, and of the same batch with room to spare."""
    store = make_store()
    network = randomize(NETWORKS[name]()).train(training)
    other = deepcopy(network)
    batch, graphs = store.batch(chosen), len(chosen)
    backbone = network.backbone
    edge_attr = batch.edge_attr.double() if backbone.edge_channels else None
    out = network(batch.x.double(), batch.edge_index, edge_attr, batch.batch, batch_size=graphs)
    level = getattr(network, "level", "graph")
    one = [batch.num_nodes if level == "node" else graphs]
    real = one if isinstance(out, Tensor) else [batch.num_nodes, graphs]
    expected = outputs_and_gradients(network, out, real)

    padded = make_padded(store, network)
    padded.x, padded.edge_attr = padded.x.double(), padded.edge_attr.double()
    assert padded.fits(torch.tensor(chosen))
    room, index = padded.batch(torch.tensor([*chosen, *[-1] * (6 - graphs)]))
    actual = outputs_and_gradients(other, run_network(other, room, index), real)
    # fixed channels of initial rows are stored in float32
    assert_same(actual, expected, tolerance=1e-6 if "walks" in name else 1e-11)


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("name", NETWORKS)
def test_padding_has_no_effect(name: str, training: bool) -> None:
    compare_with_padded(name, training)


@pytest.mark.parametrize("chosen", [(7, 4, 3, 2, 1, 5), (7,), (2, 1), (5, 7, 7, 0)], ids=str)
@pytest.mark.parametrize("name", [name for name, make in BASELINES.items() if structures(make())])
def test_padding_has_no_effect_on_structures_of_graphs(name: str, chosen: tuple[int, ...]) -> None:
    compare_with_padded(name, True, chosen)


@pytest.mark.skipif(not backend.has_kernels(), reason="needs triton")
@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are interpreted on a CPU")
# test_calls.py compares one padded network with kernels in the short run
@pytest.mark.parametrize("name", sweep(LOCAL, always=lambda name: False))
def test_padding_has_no_effect_on_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "INTERPRETED", True)
    compare_with_padded(name, training=True)


#: Networks run by kernels, and baselines also by plain torch.
CAPTURED = [*NETWORKS, *(f"{name}, plain" for name in BASELINES)]


@pytest.mark.skipif(not backend.has_kernels(), reason="needs triton")
@pytest.mark.parametrize(
    ("name", "training"),
    sweep(
        CAPTURED,
        [True, False],
        always=lambda name, training: name in NETWORKS and (training or name not in BASELINES),
    ),
)
def test_nothing_is_asked_of_the_cpu(
    name: str, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, *plain = name.split(", plain")
    # Fake tensors have shapes but no content: what asks for it (a number, the places where a mask
    # is true, how many values differ) raises.
    monkeypatch.setattr(backend, "INTERPRETED", not plain)
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    for kind in (JITFunction, InterpretedFunction):  # what launches kernels runs, they do not
        monkeypatch.setattr(kind, "__getitem__", lambda *_: lambda *_, **__: None)
    network = NETWORKS[name]().train(training)
    padded = make_padded(make_store(), network)
    graphs, mode = torch.zeros(6, dtype=torch.long), FakeTensorMode()
    with FakeCopyMode(mode):
        network, padded, graphs = deepcopy((network, padded, graphs))
    with mode, NothingFromPython():
        out = run_network(network, *padded.batch(graphs))
        outs = [out] if isinstance(out, Tensor) else out
        sum(o.square().sum() for o in outs).backward()
    assert all(value.grad is not None for value in network.parameters())


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x[0].item(),
        lambda x: x[x > 0],
        lambda x: torch.bincount(x, minlength=3),
        lambda x: x.unique(),
        lambda x: x.repeat_interleave(x),
        lambda x: x.new_tensor([1]),
        lambda x: x[[0, 0]],
    ],
)
def test_questions_to_the_cpu_are_seen(ask: Callable[[Tensor], object]) -> None:
    with FakeTensorMode() as mode:
        x = mode.from_tensor(torch.ones(1, dtype=torch.long))
        with NothingFromPython(), pytest.raises(RuntimeError):
            ask(x)


def test_padding_has_no_effect_on_random_inputs() -> None:
    store = make_store()
    network = randomize(RelationalPooling(2, 2, 3, 3, norm="batch", max_nodes=9)).eval()
    batch = store.batch(CHOSEN)
    expected = network(batch.x.double(), batch.edge_index, None, batch.batch, batch_size=4)
    padded = make_padded(store, network)
    padded.x = padded.x.double()
    room, index = padded.batch(torch.tensor([*CHOSEN, -1, -1]))
    assert_same(run_network(network, room, index)[:4], expected)


def test_targets_of_what_is_not_there_are_unknown() -> None:
    padded = PaddedStore(make_store(), capacity(3, 40, 80, 300))
    batch, index = padded.batch(torch.tensor([5, -1, 1]))
    assert batch.y[[0, 2], 0].tolist() == [5, 1]
    assert batch.y[1].isnan().all()
    assert index.graphs.multiplicity.tolist() == [1, 0, 1, 0]
    assert index.topology.graph_size.tolist() == [1, 0, 5, 34]


def test_what_fits() -> None:
    padded = PaddedStore(make_store(), capacity(3, 15, 40, 90))
    assert padded.tables.count(torch.tensor([1, 5, -1])) == [6, 10, 26]
    assert padded.fits(torch.tensor([1, 5]))
    assert not padded.fits(torch.tensor([4, 0]))  # 15 nodes: one must be left
    assert not padded.fits(torch.tensor([4, 1]))  # 106 rows
    assert not padded.fits(torch.tensor([1, 5, 2, 5]))  # 4 graphs


@pytest.mark.parametrize(
    "make", [OneHotAxes, NodeAxes, lambda store: LocalAxes(store, 1)], ids=["all", "own", "local"]
)
def test_the_capacity_of_a_store_fits_its_batches(
    make: Callable[[GraphStore], RowAxes],
) -> None:
    store = make_store()
    rows = make(store)
    room = Capacity.of(store, 3, rows)
    padded = PaddedStore(store, room, rows)
    for graphs in torch.combinations(torch.arange(len(GRAPHS)), 3):
        assert padded.fits(graphs)
    assert all(size % 16 == 0 for size in room.sizes.values())


def test_what_fits_of_local_contexts() -> None:
    store = make_store()
    rows = LocalAxes(store, 1)
    # of a cycle of five: 5 contexts of 4 rows, each of which hears from two neighbours
    padded = PaddedStore(store, capacity(3, 40, 40, 40, 80), rows)
    assert padded.tables.count(torch.tensor([1, 5, -1])) == [6, 10, 22, 40]
    assert padded.fits(torch.tensor([1, 5]))
    assert not padded.fits(torch.tensor([1, 1]))  # 40 rows: one must be left
    narrow = PaddedStore(store, capacity(3, 40, 40, 90, 80), rows)
    assert not narrow.fits(torch.tensor([1, 1]))  # 80 messages, likewise


@pytest.mark.parametrize("chosen", [(7, 4, 3, 2, 1, 5), (7,), (2, 1), (5, 7, 7, 0)], ids=str)
def test_the_lists_of_local_messages_are_those_of_the_batch(chosen: tuple[int, ...]) -> None:
    store = make_store()
    padded = PaddedStore(store, capacity(6, 60, 90, 300, 700), LocalAxes(store, 2))
    batch, index = padded.batch(torch.tensor([*chosen, *[-1] * (6 - len(chosen))]))
    found = index.routes.sides()
    plain = store.batch(chosen)
    # edges by receiver, as the padded batch has them
    order = torch.argsort(plain.edge_index[1], stable=True)
    topology = Topology(plain.edge_index[:, order], plain.batch, plain.num_nodes, len(chosen))
    expected = ContextIndex.build(topology, "local", 1, 2)
    rows, messages = expected.num_rows, expected.lift.source.numel()
    for one, two in zip(found, expected.routes.sides(), strict=True):
        assert torch.equal(one.row_ptr[: rows + 1], two.row_ptr)
        assert (one.row_ptr[rows:] == messages).all()
        assert torch.equal(one.row[:messages], two.row)
        assert (one.row[messages:] == padded.capacity.sizes["row"] - 1).all()
    assert torch.equal(found[1].last[:messages], expected.routes.sides()[1].last)
    table, whole = index.table, expected.table
    assert torch.equal(table.ptr[: plain.num_nodes + 1], whole.ptr)
    assert (table.ptr[plain.num_nodes :] == rows).all()
    assert torch.equal(table.own[: plain.num_nodes], whole.own)
    assert torch.equal(table.owner[:rows], whole.owner)
    assert (table.owner[rows:] == batch.num_nodes - 1).all()


def test_a_cpu_captures_nothing() -> None:
    assert not can_capture(NETWORKS["fast"](), torch.device("cpu"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_what_can_be_captured() -> None:
    cuda = torch.device("cuda")
    for make in NETWORKS.values():
        assert can_capture(make(), cuda)
    assert not can_capture(SMP(2, 2, 3, 3, "fast", "neighborhood"), cuda)
    assert not can_capture(SMP(2, 2, 3, 3, "fast", pooling="max"), cuda)
