"""torch.compile and torch.export of whole networks: one graph, equal to eager, for any sizes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from strategies import Case, assert_same, cycle, make_case, path, randomize
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.export import Dim

from smpgnn import MPNN, SMP, ContextIndex, InputError, MultiTaskSMP, TargetLoader, Topology

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.filterwarnings("ignore")  # of the compiler, about its own insides
#: Compilations that ragged batches may need: one for the first sizes, one for all others.
MOST = 2
#: Inductor chooses between forms by size, so it may add one for small batches.
MOST_OF_INDUCTOR = 3


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def batches(count: int, seed: int = 0) -> Iterator[Case]:
    """Ragged batches of paths and cycles."""
    draw = random.Random(seed)
    for _ in range(count):
        sizes = [draw.randint(3, 9) for _ in range(draw.randint(2, 6))]
        yield make_case([draw.choice((path, cycle))(size) for size in sizes], 2)


def edge_features(case: Case, channels: int) -> Tensor | None:
    return torch.randn(case.edge_index.size(1), channels).double() if channels else None


def assert_compiles(
    make: Callable[[], nn.Module],
    count: int = 4,
    edges: int = 0,
    index: Callable[[Case], ContextIndex] | None = None,
    backend: str = "aot_eager",
) -> None:
    """Outputs and first gradients equal eager ones, in few compilations without a graph break."""
    model = randomize(make()).train()
    other = deepcopy(model)
    compiled = torch.compile(other, fullgraph=True, backend=backend)
    for case in batches(count):
        y = edge_features(case, edges)
        more = {} if index is None else {"index": index(case)}
        expected = model(case.x, case.edge_index, y, case.batch, **more)
        actual = compiled(case.x, case.edge_index, y, case.batch, **more)
        pairs = zip(_all(actual), _all(expected), strict=True)
        for one, another in pairs:
            assert_same(one.detach(), another.detach())
        for network, outputs in ((model, expected), (other, actual)):
            network.zero_grad()
            sum(value.square().sum() for value in _all(outputs)).backward()
        assert_same(
            [p.grad for p in other.parameters() if p.grad is not None],
            [p.grad for p in model.parameters() if p.grad is not None],
            tolerance=1e-9,
        )
        assert_same(list(other.buffers()), list(model.buffers()))
    most = MOST_OF_INDUCTOR if backend == "inductor" else MOST
    assert counters["stats"]["unique_graphs"] <= most
    assert not counters["graph_break"]


def _all(outputs: Any) -> tuple[Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def test_a_hundred_ragged_batches_with_the_index_built_inside() -> None:
    assert_compiles(
        lambda: SMP(2, 1, 4, 1, identifiers="local", edge_channels=3, norm="batch"),
        count=100, edges=3, backend="eager",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(  # each two of the three choices meet
    ("kind", "layer", "level"),
    [
        *((kind, "default", "graph") for kind in ("onehot", "neighborhood", "local", "pairs")),
        *((kind, "fast", "node") for kind in ("onehot", "neighborhood", "local", "pairs")),
        ("local", "default", "node"),
        ("local", "fast", "graph"),
    ],
)
def test_types_of_contexts(kind: str, layer: str, level: str) -> None:
    edges = 3 if layer == "default" else 0
    norm = "batch" if level == "graph" else "layer"
    assert_compiles(
        lambda: SMP(2, 1, 4, 2, layer, kind, edges, level=level, norm=norm), edges=edges
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["onehot", "coloring", "neighborhood", "local", "pairs"])
def test_a_prepared_index(kind: str) -> None:
    def index(case: Case) -> ContextIndex:
        found = ContextIndex.build(Topology.checked(case.edge_index, case.batch), kind, 2)
        if case.batch.numel() % 2:  # what has been computed before makes no difference
            _ = found.lift, found.layout.count
        return found

    assert_compiles(lambda: SMP(2, 1, 4, 2, identifiers=kind, norm="batch"), index=index)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"features": "both", "own_terms": True},
        {"first_rows": ("distance", "bond", "walks"), "walk_steps": 3},
        {"terms": ("inside", "mirror", "folklore")},
        {"terms": ("product",)},
        {"pooling": "softmax"},
        {"checkpoint": True, "norm": "batch"},
        {"readout": "mean+max", "towers": 2, "divide_update": True, "norm": "layer",
         "norm_place": "after", "residual": True, "message_residual": True,
         "update_residual": True},
    ],
    ids=str,
)  # fmt: skip
def test_options(changes: dict[str, Any]) -> None:
    assert_compiles(lambda: SMP(2, 1, 4, 2, identifiers="local", **changes), count=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [lambda: MultiTaskSMP(2, 1, 3, 4, 2), lambda: MPNN(2, 1, 4, 2, norm="batch")]
)
def test_other_networks(make: Callable[[], nn.Module]) -> None:
    assert_compiles(make)


@pytest.mark.slow
def test_inductor() -> None:
    assert_compiles(
        lambda: SMP(2, 1, 4, 2, identifiers="local", edge_channels=3, norm="batch"),
        count=6, edges=3, backend="inductor",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["onehot", "neighborhood"])
def test_with_graph_breaks_an_index_serves_eager_calls_afterwards(kind: str) -> None:
    model = randomize(SMP(2, 1, 4, 2, identifiers=kind, norm="layer"))
    compiled = torch.compile(model, backend="aot_eager")
    for case in batches(2):
        given = case.x, case.edge_index, None, case.batch
        index = model.backbone.index(Topology.checked(case.edge_index, case.batch))
        expected = model(*given)
        assert_same(compiled(*given).detach(), expected.detach())
        assert_same(compiled(*given, index=index).detach(), expected.detach())
        assert_same(model(*given, index=index).detach(), expected.detach())


@pytest.mark.slow
def test_the_examples_of_the_page_run() -> None:
    from torch_geometric.datasets import FakeDataset
    from torch_geometric.loader import DataLoader

    text = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    compiles, exports, *_ = re.findall(r"^```python\n(.*?)^```", text, flags=re.S | re.M)
    graphs = FakeDataset(6, avg_num_nodes=8, avg_degree=3, num_channels=7, edge_dim=3)
    (batch,) = DataLoader(graphs, batch_size=6)
    names: dict[str, Any] = {"batch": batch}
    for block in (compiles, exports):
        exec(block, names)
        out = names["model"](batch.x, batch.edge_index, batch.edge_attr, batch.batch)
        # batch norm in training moves its running statistics, not its output
        torch.testing.assert_close(names["out"], out, rtol=1e-4, atol=1e-5)


def test_errors_of_eager_calls_stay() -> None:
    model = SMP(2, 1, 4, 1).double()
    case = make_case([path(4)], 2)
    with pytest.raises(InputError, match="names node 9"):
        model(case.x, torch.tensor([[0], [9]]), None, case.batch)
    index = ContextIndex.build(Topology.checked(torch.tensor([[0], [1]]), num_nodes=4), "onehot", 1)
    with pytest.raises(InputError, match="other graphs"):
        model(case.x, case.edge_index, index=index)


def test_target_nodes_are_refused() -> None:
    from torch_geometric.data import Data

    case = make_case([cycle(6)], 2)
    data = Data(x=case.x, edge_index=case.edge_index)
    (part,) = TargetLoader(data, num_layers=1, batch_size=6)
    model = SMP(2, 1, 4, 1, identifiers="neighborhood", level="node").double()
    with pytest.raises(Exception, match="target nodes"):
        torch.compile(model, fullgraph=True, backend="eager")(
            part.x, part.edge_index, index=part.index
        )


@pytest.mark.parametrize(
    "kind", ["local", *(pytest.param(k, marks=pytest.mark.slow) for k in
                        ("onehot", "neighborhood", "pairs"))],
)  # fmt: skip
def test_export_with_dynamic_sizes(kind: str) -> None:
    model = randomize(SMP(2, 1, 4, 1, identifiers=kind, edge_channels=3, norm="batch")).eval()
    first, *others = batches(4)
    dynamic = ({0: Dim.DYNAMIC}, {1: Dim.DYNAMIC}, {0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})
    example = first.x, first.edge_index, edge_features(first, 3), first.batch
    program = torch.export.export(model, example, dynamic_shapes=dynamic, strict=False)
    exported = program.module()
    alone = make_case([path(1)], 2)  # a single node, no edge
    for case in (*others, alone):
        given = case.x, case.edge_index, edge_features(case, 3), case.batch
        assert_same(exported(*given).detach(), model(*given).detach())
