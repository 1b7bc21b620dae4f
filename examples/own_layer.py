"""Write your own layer: any equivariant message, aggregation and update on contexts.

    python examples/own_layer.py

With this layer every node learns its distance to every other node: a context starts with a 1 in the
own row, and each layer spreads it by one hop. `assert_equivariant` confirms that the layer is
equivariant, and detects that a careless version is not.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smpgnn import ContextIndex, LocalContext, SMPLayer, Topology
from smpgnn.testing import assert_equivariant


class Reach(SMPLayer):
    """U_i[j] = 1 once a message from j has reached i: the maximum over i and its neighbours."""

    def __init__(self) -> None:
        super().__init__(aggregation="max")

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        return context.with_rows(torch.maximum(context.rows, messages.rows))


class Careless(Reach):
    """Not equivariant: it treats the first row of a context differently."""

    def message(self, u_i: LocalContext, u_j: LocalContext, y_ij: Tensor | None) -> LocalContext:
        rows = u_j.rows.clone()
        rows[u_j.layout.ptr[:-1]] *= 2
        return u_j.with_rows(rows)


def distances(edge_index: Tensor, num_layers: int) -> Tensor:
    """The number of layers until a message from each node reaches each other node, [n, n]."""
    topology = Topology.checked(edge_index)
    n = topology.num_nodes
    index = ContextIndex.build(topology, "onehot", num_layers)
    context, layer = index.initial(None, torch.float64), Reach()
    distance = torch.full((n, n), torch.inf, dtype=torch.float64)
    for hops in range(num_layers + 1):
        reached = context.rows.view(n, n) > 0
        distance = torch.where(reached & distance.isinf(), float(hops), distance)
        context = layer(context, index)
    return distance


def main() -> None:
    path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])  # a – b – c – d
    print("Distances on the path a – b – c – d:")
    print(distances(path, 3).int().tolist())
    assert_equivariant(Reach(), None, path)
    print("Reach is equivariant.")
    try:
        assert_equivariant(Careless(), None, path)
    except AssertionError as error:
        print(f"Careless is not: {error}")


if __name__ == "__main__":
    main()
