"""Bad input raises InputError with one sentence that names the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from strategies import cycle, make_case, path
from torch import nn

from smpgnn import (
    MPNN,
    SMP,
    ContextIndex,
    DefaultSMPLayer,
    FastSMPLayer,
    InputError,
    MultiTaskMPNN,
    MultiTaskSMP,
    Topology,
)

X = torch.randn(3, 2)
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
Y = torch.randn(4, 3)
NONE = torch.zeros(2, 0, dtype=torch.long)

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "SMP": lambda **o: SMP(**{"in_channels": 2, "out_channels": 1, "hidden_channels": 4,
                              "num_layers": 2, **o}),
    "MPNN": lambda **o: MPNN(**{"in_channels": 2, "out_channels": 1, "hidden_channels": 4,
                                "num_layers": 2, **o}),
    "MultiTaskSMP": lambda **o: MultiTaskSMP(**{
        "in_channels": 2, "node_channels": 1, "graph_channels": 1, "hidden_channels": 4,
        "num_layers": 2, **o}),
    "MultiTaskMPNN": lambda **o: MultiTaskMPNN(**{
        "in_channels": 2, "node_channels": 1, "graph_channels": 1, "hidden_channels": 4,
        "num_layers": 2, **o}),
}  # fmt: skip


def assert_one_sentence(error: pytest.ExceptionInfo[InputError], name: str) -> None:
    text = str(error.value)
    assert name in text
    assert text.endswith(".")
    assert ". " not in text
    assert "\n" not in text
    assert isinstance(error.value, ValueError)


def batch(*graphs: int) -> torch.Tensor:
    return torch.tensor(graphs)


#: What is wrong, the argument that the message names, and the arguments of the call.
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "x missing": ("x", {"x": None}),
    "x too wide": ("x", {"x": torch.randn(3, 5)}),
    "x of one dimension": ("x", {"x": torch.randn(3)}),
    "x of three dimensions": ("x", {"x": torch.randn(3, 2, 1)}),
    "x of integers": ("x", {"x": torch.ones(3, 2, dtype=torch.long)}),
    "x of booleans": ("x", {"x": torch.ones(3, 2, dtype=torch.bool)}),
    "x of another precision": ("x", {"x": X.double()}),
    "x a list": ("x", {"x": X.tolist()}),
    "x an array": ("x", {"x": X.numpy()}),
    "edge_index of floats": ("edge_index", {"edge_index": EDGES.float()}),
    "edge_index of booleans": ("edge_index", {"edge_index": EDGES.bool()}),
    "edge_index complex": ("edge_index", {"edge_index": EDGES.to(torch.complex64)}),
    "edge_index transposed": ("call edge_index.t()", {"edge_index": EDGES.t()}),
    "edge_index of one dimension": ("edge_index", {"edge_index": EDGES[0]}),
    "edge_index negative": ("edge_index", {"edge_index": EDGES - 1}),
    "edge_index out of range": ("edge_index", {"edge_index": EDGES + 1}),
    "edge_index a list": ("edge_index", {"edge_index": EDGES.tolist()}),
    "edge_index missing": ("edge_index", {"edge_index": None}),
    "edge_index a sparse tensor": (
        "edge_index must be a dense tensor, not torch.sparse_coo: call torch_geometric.utils."
        "to_edge_index", {"edge_index": torch.eye(3).to_sparse()}),
    "edge_index a sparse tensor of integers": (
        "to_edge_index", {"edge_index": torch.eye(3).long().to_sparse()}),
    "edge_index a SparseTensor": (
        "to_edge_index", {"edge_index": type("SparseTensor", (), {})()}),
    "edge_index an array": ("torch.as_tensor(edge_index)", {"edge_index": EDGES.numpy()}),
    "edge_index nested": ("edge_index", {"edge_index": torch.nested.nested_tensor(
        [EDGES[0], EDGES[1]], layout=torch.jagged)}),
    "edge_index on another device": (
        "edge_index is on meta, but the network is on cpu", {"edge_index": EDGES.to("meta")}),
    "x on another device": ("x is on meta", {"x": X.to("meta")}),
    "x sparse": ("x.to_dense()", {"x": X.to_sparse()}),
    "batch on another device": ("batch is on meta", {"batch": batch(0, 0, 0).to("meta")}),
    "batch sparse": ("batch.to_dense()", {"batch": batch(0, 0, 0).to_sparse()}),
    "batch_size text": ("batch_size", {"batch_size": "3"}),
    "index of another kind": ("index must be a ContextIndex, not Tensor", {"index": EDGES}),
    "edge_attr unexpected": ("edge_attr", {"edge_attr": Y}),
    "batch decreasing": ("batch", {"batch": batch(1, 1, 0), "edge_index": NONE}),
    "batch negative": ("batch", {"batch": batch(-1, 0, 0), "edge_index": NONE}),
    "batch too short": ("batch", {"batch": batch(0, 0)}),
    "batch too long": ("batch", {"batch": batch(0, 0, 0, 0)}),
    "batch of two dimensions": ("batch", {"batch": batch(0, 0, 0).unsqueeze(1)}),
    "batch of floats": ("batch", {"batch": batch(0, 0, 0).float()}),
    "batch of booleans": ("batch", {"batch": batch(0, 0, 1).bool()}),
    "batch a list": ("batch", {"batch": [0, 0, 0]}),
    "an edge between two graphs": ("edge_index", {"batch": batch(0, 0, 1)}),
    "batch_size too small": ("batch_size", {"batch": batch(0, 2, 2), "edge_index": NONE,
                                            "batch_size": 2}),
    "batch_size zero": ("batch_size", {"batch_size": 0}),
    "num_nodes contradicts x": ("num_nodes", {"num_nodes": 4}),
}  # fmt: skip


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("mistake", CALLS)
def test_bad_calls(network: str, mistake: str) -> None:
    name, arguments = CALLS[mistake]
    model = NETWORKS[network]()
    with pytest.raises(InputError) as error:
        model(**{"x": X, "edge_index": EDGES, **arguments})
    assert_one_sentence(error, name)


#: The same for networks with edge features.
EDGE_CALLS: dict[str, tuple[str, torch.Tensor | None]] = {
    "missing": ("edge_attr", None),
    "too few": ("edge_attr", Y[:3]),
    "too wide": ("edge_attr", torch.randn(4, 5)),
    "of one dimension": ("edge_attr", Y[:, 0]),
    "of integers": ("edge_attr", Y.long()),
    "of booleans": ("edge_attr", Y > 0),
    "of another precision": ("edge_attr", Y.double()),
    "a list": ("edge_attr", Y.tolist()),
    "sparse": ("edge_attr.to_dense()", Y.to_sparse()),
    "on another device": ("edge_attr is on meta", Y.to("meta")),
}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("mistake", EDGE_CALLS)
def test_bad_edge_features(network: str, mistake: str) -> None:
    name, value = EDGE_CALLS[mistake]
    model = NETWORKS[network](edge_channels=3)
    with pytest.raises(InputError) as error:
        model(X, EDGES, value)
    assert_one_sentence(error, name)


@pytest.mark.parametrize("network", NETWORKS)
def test_edge_features_given_to_the_fast_layer(network: str) -> None:
    with pytest.raises(InputError) as error:
        NETWORKS[network](layer="fast", edge_channels=3)
    assert_one_sentence(error, "edge_channels")
    with pytest.raises(InputError) as error:
        NETWORKS[network](layer="fast")(X, EDGES, Y)
    assert_one_sentence(error, "edge_attr")


#: Options that every network refuses, and the argument that the message names.
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "unknown layer": ("layer", {"layer": "slow"}),
    "unknown identifiers": ("identifiers", {"identifiers": "random"}),
    "unknown norm": ("norm", {"norm": "group"}),
    "no layers": ("num_layers", {"num_layers": 0}),
    "layers not whole": ("num_layers", {"num_layers": 2.5}),
    "layers a truth value": ("num_layers", {"num_layers": True}),
    "no width": ("hidden_channels", {"hidden_channels": 0}),
    "negative features": ("in_channels", {"in_channels": -1}),
    "negative edge features": ("edge_channels", {"edge_channels": -1}),
    "towers that do not divide": ("towers", {"towers": 3}),
    "no towers": ("towers", {"towers": 0}),
    "negative towers": ("towers", {"towers": -2}),
}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("layer", ["default", "fast"])
@pytest.mark.parametrize("mistake", OPTIONS)
def test_bad_options(network: str, layer: str, mistake: str) -> None:
    name, options = OPTIONS[mistake]
    with pytest.raises(InputError) as error:
        NETWORKS[network](**{"layer": layer, **options})
    assert_one_sentence(error, name)


@pytest.mark.parametrize(
    ("network", "name", "options"),
    [
        ("SMP", "level", {"level": "edge"}),
        ("MPNN", "level", {"level": "edge"}),
        ("SMP", "pooling", {"pooling": "medium"}),
        ("SMP", "pooling", {"pooling": None}),
        ("SMP", "out_channels", {"out_channels": 0}),
        ("SMP", "out_channels", {"out_channels": -1}),
        ("SMP", "dropout", {"dropout": 1.5}),
        ("SMP", "extractor_channels", {"extractor_channels": -1}),
        ("MultiTaskSMP", "node_channels", {"node_channels": -1}),
        ("MultiTaskSMP", "graph_channels", {"graph_channels": -1}),
        ("MultiTaskSMP", "extractor_channels", {"extractor_channels": -2}),
        ("MultiTaskSMP", "state_channels", {"state_channels": 0}),
    ],
)
def test_bad_options_of_one_network(network: str, name: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        NETWORKS[network](**options)
    assert_one_sentence(error, name)


@pytest.mark.parametrize("layer", [DefaultSMPLayer, FastSMPLayer])
@pytest.mark.parametrize("towers", [0, -1, 3])
def test_bad_towers_of_a_layer(layer: type[DefaultSMPLayer], towers: int) -> None:
    with pytest.raises(InputError) as error:
        layer(4, 4, towers=towers)
    assert_one_sentence(error, "towers")


def test_edge_features_given_to_a_layer_that_takes_none() -> None:
    index = make_case([path(3)]).index("onehot")
    context = index.initial(None, torch.float32)
    for layer in (FastSMPLayer(1, 4), DefaultSMPLayer(1, 4)):
        with pytest.raises(InputError) as error:
            layer(context, index, Y)
        assert_one_sentence(error, "edge_attr")


# ------------------------------------------------------------------ prepared indices


def index_of(
    edges: torch.Tensor, scheme: str = "onehot", layers: int = 2, **more: Any
) -> ContextIndex:
    return ContextIndex.build(Topology.checked(edges, **more), scheme, layers)


@pytest.mark.parametrize("network", ["SMP", "MultiTaskSMP"])
@pytest.mark.parametrize(
    "index",
    [
        make_case([path(4)]).index("onehot"),
        make_case([cycle(3)]).index("onehot"),
        index_of(EDGES, num_nodes=5),
        index_of(EDGES, "coloring", 1),
        index_of(EDGES, "neighborhood", 1),
        index_of(EDGES[:, [1, 0, 3, 2]].flip(0).roll(1, 1)),
        index_of(torch.tensor([[0, 2, 2, 1], [2, 0, 1, 2]])),
    ],
    ids=[
        "more nodes",
        "more edges",
        "as many edges, more nodes",
        "colours for fewer layers",
        "neighbourhoods for fewer layers",
        "edges in another order",
        "other edges of the same number",
    ],
)
def test_an_index_that_does_not_fit(network: str, index: ContextIndex) -> None:
    with pytest.raises(InputError) as error:
        NETWORKS[network]()(X, EDGES, index=index)
    assert_one_sentence(error, "index")


def test_an_index_of_other_graphs_than_the_batch_says() -> None:
    """Two edges, one or two graphs: the prepared index must not overrule `batch`."""
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    x = torch.randn(4, 2)
    with pytest.raises(InputError) as error:
        NETWORKS["SMP"]()(x, edges, batch=batch(0, 0, 1, 1), index=index_of(edges))
    assert_one_sentence(error, "index")


@pytest.mark.parametrize("network", ["MPNN", "MultiTaskMPNN"])
def test_an_index_of_contexts_given_to_the_ablation(network: str) -> None:
    """It has one row a node; on contexts its layers would quietly compute something else."""
    with pytest.raises(InputError) as error:
        NETWORKS[network]()(X, EDGES, index=index_of(EDGES))
    assert_one_sentence(error, "index")


@pytest.mark.parametrize("network", ["SMP", "MultiTaskSMP"])
def test_an_index_of_nodes_given_to_a_network_on_contexts(network: str) -> None:
    index = ContextIndex.of_nodes(Topology.checked(EDGES))
    with pytest.raises(InputError) as error:
        NETWORKS[network]()(X, EDGES, index=index)
    assert_one_sentence(error, "index")


def test_a_network_without_features_refuses_x_of_any_width() -> None:
    model = NETWORKS["SMP"](in_channels=0)
    with pytest.raises(InputError) as error:
        model(X, EDGES)
    assert_one_sentence(error, "x")
    assert model(None, EDGES).shape == (1, 1)


def test_batch_given_as_a_list_without_x() -> None:
    with pytest.raises(InputError) as error:
        NETWORKS["SMP"](in_channels=0)(None, EDGES, batch=[0, 0, 0])
    assert_one_sentence(error, "batch")


def test_num_nodes_smaller_than_the_edges_say() -> None:
    with pytest.raises(InputError) as error:
        NETWORKS["SMP"](in_channels=0)(None, EDGES, num_nodes=2)
    assert_one_sentence(error, "edge_index")


def test_num_nodes_below_zero() -> None:
    with pytest.raises(InputError) as error:
        NETWORKS["SMP"](in_channels=0)(None, NONE, num_nodes=-1)
    assert_one_sentence(error, "num_nodes")
