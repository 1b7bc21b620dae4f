"""What all baselines with one row a node promise: the same checks for each of them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from strategies import ODD, Case, cycle, make_case, path, randomize, undirected
from torch import Tensor, nn

from smpgnn import ContextIndex
from smpgnn.baselines.dgn import DGN, MultiTaskDGN
from smpgnn.baselines.gat import GAT, MultiTaskGAT
from smpgnn.baselines.gated_gcn import GatedGCN, MultiTaskGatedGCN
from smpgnn.baselines.gine import GINE, MultiTaskGINE
from smpgnn.baselines.junction_tree import JunctionTreeMPNN
from smpgnn.baselines.mpnn_sum import MPNNSum, MultiTaskMPNNSum
from smpgnn.baselines.pna import PNA, MultiTaskPNA
from smpgnn.errors import InputError
from smpgnn.models.multitask import MultiTaskMPNN
from smpgnn.models.smp import MPNN
from smpgnn.testing import Graph, assert_batch_invariant, assert_equivariant

NETWORKS: list[type[MPNN]] = [GINE, GAT, MPNNSum, PNA, GatedGCN, DGN, JunctionTreeMPNN]
MULTITASK: list[type[MultiTaskMPNN]] = [
    MultiTaskGINE,
    MultiTaskGAT,
    MultiTaskMPNNSum,
    MultiTaskPNA,
    MultiTaskGatedGCN,
    MultiTaskDGN,
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"edge_channels": 2, "norm": "batch", "residual": True, "shared_extractor": True},
    {"level": "node", "norm": "layer", "residual": True},
]
MULTITASK_OPTIONS: list[dict[str, Any]] = [{}, {"edge_channels": 2, "norm": None, "residual": True}]
CUBE = undirected(8, [(a, a ^ b) for a in range(8) for b in (1, 2, 4) if not a & b])
STAR = undirected(5, [(0, k) for k in range(1, 5)])
PRISM = undirected(6, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (0, 3), (1, 4), (2, 5)])
MOLECULE = undirected(
    11,
    [*((k, (k + 1) % 6) for k in range(6)), (2, 6), (6, 7), (7, 8), (8, 3), (8, 9), (9, 10)],
)
GRAPHS = [*ODD.values(), CUBE, STAR, PRISM, MOLECULE, cycle(6)]

CASES = [(network, options) for network in NETWORKS for options in OPTIONS]
CASES += [(network, options) for network in MULTITASK for options in MULTITASK_OPTIONS]


def make(network: type[nn.Module], options: dict[str, Any], **more: Any) -> Any:
    arguments: dict[str, Any] = {"in_channels": 2, "hidden_channels": 4, "num_layers": 3}
    if issubclass(network, MultiTaskMPNN):
        arguments |= {"node_channels": 3, "graph_channels": 2}
    else:
        arguments |= {"out_channels": 2}
    return randomize(network(**{**arguments, **options, **more}))


def outputs(case: Case, model: nn.Module) -> tuple[Tensor, ...]:
    result: Any = case.call(model)
    return (result,) if isinstance(result, Tensor) else result


@pytest.mark.parametrize(("network", "options"), CASES, ids=str)
def test_renaming_nodes_renames_the_result(
    network: type[nn.Module], options: dict[str, Any]
) -> None:
    model = make(network, options)
    case = make_case(GRAPHS, 2, options.get("edge_channels", 0))
    assert_equivariant(model, case.x, case.edge_index, case.edge_attr, case.batch, trials=2)


@pytest.mark.parametrize(("network", "options"), CASES, ids=str)
def test_batch_mates_change_nothing(network: type[nn.Module], options: dict[str, Any]) -> None:
    model = make(network, options)
    graphs = [
        Graph(case.x, case.edge_index, case.edge_attr)
        for case in (make_case([s], 2, options.get("edge_channels", 0)) for s in GRAPHS[4:])
    ]
    assert_batch_invariant(model, graphs)


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize(("network", "options"), CASES, ids=str)
def test_odd_graphs_give_finite_outputs_and_gradients(
    network: type[nn.Module], options: dict[str, Any], training: bool
) -> None:
    model = make(network, options).train(training)
    sets = [[ODD[name]] for name in ("empty", "single", "single with loop", "edgeless", "pair")]
    sets += [[*ODD.values(), ODD["empty"]], [ODD["empty"], ODD["empty"]]]
    for structures in sets:
        case = make_case(structures, 2, options.get("edge_channels", 0))
        model.zero_grad()
        found = outputs(case, model)
        levels = ["node", "graph"] if len(found) == 2 else [options.get("level", "graph")]
        for out, level in zip(found, levels, strict=True):
            assert out.size(0) == (case.num_nodes if level == "node" else case.num_graphs)
            assert out.isfinite().all()
        sum(out.sum() for out in found).backward()
        for leaf in [*model.parameters(), *case.leaves()]:
            assert leaf.grad is None or leaf.grad.isfinite().all()


@pytest.mark.parametrize(("network", "options"), CASES, ids=str)
def test_every_weight_is_used(network: type[nn.Module], options: dict[str, Any]) -> None:
    # Or training on several processes would wait for gradients that never come.
    model = make(network, options)
    found = outputs(make_case(GRAPHS, 2, options.get("edge_channels", 0)), model)
    sum(out.square().sum() for out in found).backward()
    assert [name for name, value in model.named_parameters() if value.grad is None] == []


@pytest.mark.parametrize("network", [*NETWORKS, *MULTITASK])
def test_runs_without_node_features_and_with_a_prepared_index(network: type[nn.Module]) -> None:
    model = make(network, {}, in_channels=0).eval()
    case = make_case([path(4), MOLECULE], 0)
    expected = outputs(case, model)
    index = ContextIndex.of_nodes(case.topology)
    for _ in range(2):
        found = model(None, case.edge_index, None, case.batch, index=index)
        found = (found,) if isinstance(found, Tensor) else found
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("network", [*NETWORKS, *MULTITASK])
def test_refuses_edge_features_it_was_not_built_for(network: type[nn.Module]) -> None:
    case = make_case([path(4)], 2, 3)
    with pytest.raises(InputError, match="edge_attr"):
        case.call(make(network, {}))
    with pytest.raises(InputError, match="edge_attr"):
        case.call(make(network, {"edge_channels": 2}))


@pytest.mark.parametrize("network", [*NETWORKS, *MULTITASK])
def test_bfloat16_autocast_is_near_float32(network: type[nn.Module]) -> None:
    torch.manual_seed(0)
    heads = {"node_channels": 3, "graph_channels": 2}
    if not issubclass(network, MultiTaskMPNN):
        heads = {"out_channels": 2}
    model = network(in_channels=2, hidden_channels=8, num_layers=3, edge_channels=2, **heads)
    case = make_case([path(8), MOLECULE, ODD["single"]], 2, 2, dtype=torch.float32)
    expected = outputs(case, deepcopy(model))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = outputs(case, model)
    sum(out.float().sum() for out in found).backward()
    for near, exact in zip(found, expected, strict=True):
        # The batch norm of multi-task graph outputs magnifies rounding, as there are three graphs.
        share = 0.2 if len(found) == 2 and near is found[1] else 0.05
        assert (near.float() - exact).abs().max() < share * max(1.0, exact.abs().max().item())
    for leaf in [*model.parameters(), *case.leaves()]:
        assert leaf.grad is None or leaf.grad.isfinite().all()


@pytest.mark.parametrize("network", [*NETWORKS, *MULTITASK])
def test_saved_weights_give_the_same_result(network: type[nn.Module]) -> None:
    options = {"edge_channels": 2, "norm": "batch"}
    case = make_case(GRAPHS, 2, 2)
    model, other = make(network, options).eval(), make(network, options).eval()
    for value in other.parameters():
        value.data.zero_()
    other.load_state_dict(model.state_dict())
    for one, again in zip(outputs(case, model), outputs(case, other), strict=True):
        assert torch.equal(one, again)


@pytest.mark.parametrize("network", [*NETWORKS, *MULTITASK])
def test_learns_eight_random_labels_by_heart(network: type[nn.Module]) -> None:
    torch.manual_seed(0)
    case = make_case([MOLECULE, path(6), cycle(5), STAR] * 2, 3, 2, dtype=torch.float32)
    multitask = issubclass(network, MultiTaskMPNN)
    heads = {"node_channels": 1, "graph_channels": 1} if multitask else {"out_channels": 1}
    options = {} if multitask else {"norm": "batch"}
    model = network(
        in_channels=3, hidden_channels=24, num_layers=2, edge_channels=2, **heads, **options
    )
    targets = [torch.randn_like(out) for out in outputs(case, model)][-1:]  # those of the graphs
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(150):
        optimizer.zero_grad()
        found = outputs(case, model)[-1:]
        loss = sum(nn.functional.mse_loss(a, b) for a, b in zip(found, targets, strict=True))
        loss.backward()
        optimizer.step()
        if loss < 1e-2:
            return
    raise AssertionError(f"the loss is still {loss:.3g}")


@pytest.mark.parametrize("edge_channels", [0, 3])
@pytest.mark.parametrize(
    ("network", "hidden_channels", "num_layers"),
    [(GINE, 92, 5), (PNA, 36, 4), (GatedGCN, 66, 4), (DGN, 44, 4), (JunctionTreeMPNN, 52, 5)],
)
def test_has_about_100_000_parameters_for_zinc(
    network: type[MPNN], hidden_channels: int, num_layers: int, edge_channels: int
) -> None:
    model = network(
        28,
        1,
        hidden_channels,
        num_layers,
        edge_channels=edge_channels,
        extractor_channels=64,
        shared_extractor=True,
        norm="batch",
        residual=True,
    )
    assert 95_000 < sum(value.numel() for value in model.parameters()) < 105_000
