"""All networks by name: where they are, what they take, and what a layer costs. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One network: its classes for one kind of target and for several at once ('' if none).

    `memory` and `time` are per layer, in nodes n, edges m, width c and colours χ.
    """

    name: str
    text: str
    paper: str
    module: str
    network: str
    multitask: str
    edges: bool
    memory: str
    time: str


_SMP = "Vignac et al., 2020"

ENTRIES = (
    Entry(
        "smp",
        "Default SMP: perceptrons in message and update",
        _SMP,
        "models.smp",
        "SMP",
        "MultiTaskSMP",
        True,
        "n² c",
        "m n c + n² c²",
    ),
    Entry(
        "fast-smp",
        "Fast SMP: one message a node",
        _SMP,
        "models.smp",
        "SMP",
        "MultiTaskSMP",
        False,
        "n² c",
        "m n c + n² c²",
    ),
    Entry(
        "mpnn",
        "ablation: the default layers on node features",
        _SMP,
        "models.smp",
        "MPNN",
        "MultiTaskMPNN",
        True,
        "n c",
        "m c + n c²",
    ),
    Entry(
        "fast-mpnn",
        "ablation: the fast layers on node features",
        _SMP,
        "models.smp",
        "MPNN",
        "MultiTaskMPNN",
        False,
        "n c",
        "m c + n c²",
    ),
    Entry(
        "gin",
        "GIN, with edge features GINE",
        "Xu et al., 2019; Hu et al., 2020",
        "baselines.gine",
        "GINE",
        "MultiTaskGINE",
        True,
        "n c",
        "m c + n c²",
    ),
    Entry(
        "gin-degree",
        "GIN with the degree as one-hot feature",
        "Xu et al., 2019",
        "baselines.degree",
        "DegreeGIN",
        "",
        False,
        "n c",
        "m c + n c²",
    ),
    Entry(
        "gin-random",
        "GIN with a random identifier a node (not invariant)",
        "Sato et al., 2020",
        "baselines.random_identifiers",
        "RandomIdentifierGIN",
        "",
        False,
        "n c",
        "m c + n c²",
    ),
    Entry(
        "rp",
        "relational pooling: GIN on permuted one-hot identifiers",
        "Murphy et al., 2019",
        "baselines.relational_pooling",
        "RelationalPooling",
        "",
        False,
        "n c",
        "m c + n c²",
    ),
    Entry(
        "ppgn",
        "provably powerful graph network, order 2",
        "Maron et al., 2019",
        "baselines.ppgn",
        "PPGN",
        "",
        False,
        "n² c",
        "n³ c + n² c²",
    ),
    Entry(
        "ring-gnn",
        "Ring-GNN: 15 linear equivariant operations and a product, order 2",
        "Chen et al., 2019",
        "baselines.ring_gnn",
        "RingGNN",
        "",
        False,
        "n² c",
        "n³ c + n² c²",
    ),
    Entry(
        "gat",
        "graph attention network",
        "Veličković et al., 2018",
        "baselines.gat",
        "GAT",
        "MultiTaskGAT",
        True,
        "m c",
        "m c + n c²",
    ),
    Entry(
        "mpnn-sum",
        "MPNN with a perceptron a message, summed",
        "Gilmer et al., 2017",
        "baselines.mpnn_sum",
        "MPNNSum",
        "MultiTaskMPNNSum",
        True,
        "m c",
        "m c²",
    ),
    Entry(
        "pna",
        "principal neighbourhood aggregation",
        "Corso et al., 2020",
        "baselines.pna",
        "PNA",
        "MultiTaskPNA",
        True,
        "m c",
        "m c²",
    ),
    Entry(
        "gated-gcn",
        "Gated-GCN with edge states",
        "Bresson and Laurent, 2018",
        "baselines.gated_gcn",
        "GatedGCN",
        "MultiTaskGatedGCN",
        True,
        "m c",
        "m c + n c²",
    ),
    Entry(
        "dgn",
        "directional graph network, along Laplacian eigenvectors",
        "Beaini et al., 2020",
        "baselines.dgn",
        "DGN",
        "MultiTaskDGN",
        True,
        "m c",
        "m c²",
    ),
    Entry(
        "mpnn-jt",
        "hierarchical inter-message passing on the junction tree",
        "Fey et al., 2020",
        "baselines.junction_tree",
        "JunctionTreeMPNN",
        "",
        True,
        "m c",
        "m c + n c²",
    ),
)

BY_NAME = {entry.name: entry for entry in ENTRIES}
#: How networks may join the nodes of a graph; with '+' both ways side by side.
READOUTS = ("mean", "sum", "scaled-sum", "max", "mean+max", "sum+max", "mean+scaled-sum")
#: Which rows a context may have.
IDENTIFIERS = ("onehot", "coloring", "neighborhood", "local")
#: What a norm of rows may be put to: the input of a layer, or its result.
NORM_PLACES = ("before", "after")
#: Rows of a context that hold node features at first: its own; all, those of its node; each row
#: those of the node that it describes.
FEATURES = ("own", "context", "row")
#: What is made small for several targets: the mean of their errors or of the logarithms of these.
OBJECTIVES = ("mse", "log-mse")
#: What regressions make small: absolute errors, or these and Huber's function of them beside.
REGRESSION_OBJECTIVES = ("mae", "mae+huber")
#: Points of the integrals by which predictions are explained.
EXPLAIN_STEPS = 256
MODELS = tuple(BY_NAME)
#: Networks whose rows are contexts or pairs of nodes: n² rows a graph.
PAIRWISE = ("smp", "fast-smp", "ppgn", "ring-gnn")
#: Networks that take the options of SMP's layers: towers, set_scale, …
OWN_LAYERS = ("smp", "fast-smp", "mpnn", "fast-mpnn")
