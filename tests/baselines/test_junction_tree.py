"""MPNN-JT against loops over atoms and cliques of a tree written down by hand."""

from __future__ import annotations

import pytest
import torch
from node_layers import BARBELL, arriving, edge_feature, of_nodes
from strategies import assert_same, make_case, path, randomize
from torch import Tensor, nn

from smpgnn.baselines.junction_tree import JunctionTreeLayer
from smpgnn.errors import InputError

# Of BARBELL: two rings (kind 0), the bond between them and the tail (kind 1).
CLIQUES = [[0, 1, 2], [3, 4, 5], [2, 3], [5, 6]]
KINDS = [0, 0, 1, 1]
TREE = [(0, 2), (2, 1), (1, 3)]


def _affine(linear: nn.Linear, value: Tensor) -> Tensor:
    return linear.weight @ value + linear.bias


def _mlp(mlp: nn.Sequential, value: Tensor) -> Tensor:
    return _affine(mlp[2], torch.relu(_affine(mlp[0], value)))


def _mean(values: list[Tensor]) -> Tensor:
    return torch.stack(values).mean(0) if values else torch.zeros(4, dtype=torch.float64)


@pytest.mark.parametrize("edge_channels", [0, 2])
@pytest.mark.parametrize("residual", [False, True], ids=["", "residual"])
def test_two_layers_equal_loops(residual: bool, edge_channels: int) -> None:
    case = make_case([BARBELL], 3, edge_channels)
    first = JunctionTreeLayer(3, 4, edge_channels, clique_residual=residual)
    second = JunctionTreeLayer(4, 4, edge_channels, clique_residual=residual)
    second.follow("layer")
    stack = randomize(nn.ModuleList([first, second]))
    index, context = of_nodes(case)
    actual = second(first(context, index, case.edge_attr), index, case.edge_attr)

    x, cliques = list(case.x), [first.clique_encoder.weight[kind] for kind in KINDS]
    for layer in (first, second):
        conv = layer.atom_conv.conv
        new_x: list[Tensor] = []
        for i in range(case.num_nodes):
            total = x[i]
            for e, j in arriving(case, i):
                message = x[j]
                if edge_channels:
                    message = torch.relu(message + _affine(conv.lin, edge_feature(case, e)))
                total = total + message
            new_x.append(torch.relu(_mlp(conv.nn, total)))
        before = cliques
        if layer is second:
            norm = second.clique_norm
            cliques = [
                (t - t.mean()) / (t.var(unbiased=False) + norm.eps).sqrt() * norm.weight + norm.bias
                for t in cliques
            ]
        cliques = [
            t + torch.relu(_affine(layer.to_tree, _mean([new_x[i] for i in CLIQUES[c]])))
            for c, t in enumerate(cliques)
        ]
        heard = [
            t + sum(cliques[b] if a == c else cliques[a] for a, b in TREE if c in (a, b))
            for c, t in enumerate(cliques)
        ]
        cliques = [torch.relu(_mlp(layer.tree_conv.nn, t)) for t in heard]
        x = [
            new_x[i]
            + torch.relu(
                _affine(layer.to_atoms, _mean([cliques[c] for c in range(4) if i in CLIQUES[c]]))
            )
            for i in range(case.num_nodes)
        ]
        if residual:
            cliques = [t + old for t, old in zip(cliques, before, strict=True)]
    assert_same(actual.rows, torch.stack(x), stack, case.leaves())


def test_a_later_layer_needs_the_tree_of_the_one_before() -> None:
    layer = JunctionTreeLayer(3, 3).double()
    layer.follow(None)
    index, context = of_nodes(make_case([path(3)], 3))
    with pytest.raises(InputError, match="must follow another"):
        layer(context, index)
