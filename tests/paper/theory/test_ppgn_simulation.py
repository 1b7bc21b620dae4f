"""Proposition 2: the blocks of a PPGN from the weights of a Fast SMP."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from smpgnn.errors import InputError
from smpgnn.models import SMP
from smpgnn.paper.theory.ppgn import (
    PRINTED,
    TOLERANCE,
    PPGNBlock,
    compare,
    fast_smp,
    largest_factors,
    ppgn_blocks,
    ppgn_contexts,
    ppgn_input,
    relu_product,
    smp_contexts,
)

TREE = nx.random_labeled_tree(9, seed=3)


@pytest.mark.parametrize(
    "graph",
    [TREE, nx.petersen_graph(), nx.empty_graph(1), nx.empty_graph(3), nx.lollipop_graph(4, 3)],
    ids=["tree", "petersen", "one node", "no edges", "lollipop"],
)
def test_blocks_equal_the_layers(graph: nx.Graph) -> None:
    network = fast_smp(layers=3, width=6)
    assert len(ppgn_blocks(network)) == 6
    assert len(smp_contexts(network, graph)) == 4
    assert compare(network, graph) <= TOLERANCE


def test_node_features_and_towers() -> None:
    torch.manual_seed(2)
    network = SMP(3, 1, 8, 3, layer="fast", towers=2, set_scale=0.1).double()
    assert compare(network, TREE, x=torch.randn(9, 3, dtype=torch.float64)) <= TOLERANCE


def test_the_same_blocks_serve_all_graphs() -> None:
    network = fast_smp(layers=2, width=4)
    blocks = ppgn_blocks(network)
    for graph in (TREE, nx.cycle_graph(12), nx.complete_graph(5)):
        found = ppgn_contexts(blocks, ppgn_input(graph))
        for ours, theirs in zip(smp_contexts(network, graph), found, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("printed", PRINTED)
def test_what_the_appendix_prints_differs(printed: str) -> None:
    assert compare(fast_smp(layers=2, width=4), TREE, printed=printed) > 1e-2


def test_without_the_residual_it_is_the_layer_of_the_appendix() -> None:
    network = fast_smp(layers=1, width=4)
    t = ppgn_input(TREE)
    set_block, message_block = ppgn_blocks(network)
    hat = set_block(t)[..., :-3]
    whole = message_block(set_block(t))[..., :-3]
    (_, less) = ppgn_contexts(ppgn_blocks(network, printed="without_residual"), t)
    torch.testing.assert_close(less, whole - hat, rtol=0, atol=1e-12)


def test_block_by_hand() -> None:
    def double(t: torch.Tensor) -> torch.Tensor:
        return 2 * t

    def add(both: torch.Tensor) -> torch.Tensor:
        return both[..., :1] + both[..., 1:]

    t = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).unsqueeze(2)
    found = PPGNBlock(double, lambda t: t, double, add)(t)
    assert found[..., 0].tolist() == [[2 + 14, 4 + 20], [6 + 30, 8 + 44]]


def test_relu_product_keeps_its_bound() -> None:
    product = relu_product(hidden=32, bound=4.0)
    x = torch.linspace(-2, 2, 41, dtype=torch.float64)
    found = product(x[:, None], x[None, :])
    step = 2 * 4.0 / 32
    error = (found - x[:, None] * x[None, :]).abs().max().item()
    assert 0 < error <= step**2 / 16 + 1e-12  # of two squares, a quarter each, of step²/8
    zero = torch.zeros(1, dtype=torch.float64)
    assert torch.equal(product(zero, zero), zero)


def test_mlps_approach_the_layer() -> None:
    network = fast_smp(layers=2, width=4)
    bound = 2 * largest_factors(TREE, network)
    coarse, fine = (compare(network, TREE, relu_product(k, bound)) for k in (64, 512))
    assert fine < coarse / 20  # eight times the relus: about 64 times as near


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (SMP(0, 1, 4, 2, layer="fast", norm="layer"), "norm=None and residual=False"),
        (SMP(0, 1, 4, 2, layer="fast", residual=True), "norm=None and residual=False"),
        (SMP(0, 1, 4, 2), "network has a DefaultSMPLayer: take layer='fast'"),
    ],
)
def test_other_networks_are_refused(network: SMP, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ppgn_blocks(network)
