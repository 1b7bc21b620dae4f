"""All networks by name: their modules, their inputs and the cost of a layer. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One network: its class, and its class for node and graph targets together ('' if none).

    `memory` and `time` are per layer, for n nodes, m edges and width c.
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
        "Default SMP: MLPs in message and update",
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
        "Fast SMP: one message per node",
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
        "GIN with a random identifier per node (not invariant)",
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
        "Ring-GNN: 15 linear equivariant operations and a matmul, order 2",
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
        "MPNN with an MLP per message, summed",
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
#: Pooling of the nodes of a graph; '+' concatenates two poolings.
READOUTS = ("mean", "sum", "scaled-sum", "max", "mean+max", "sum+max", "mean+scaled-sum")
#: Types of local contexts: which rows they have.
IDENTIFIERS = ("onehot", "coloring", "neighborhood", "local")
#: Where the rows are normalised: before or after a layer.
NORM_PLACES = ("before", "after")
#: Where node features enter the initial contexts: in the context's own row; in all rows, those of
#: the context's node; or in each row, those of the node that the row describes.
FEATURES = ("own", "context", "row")
#: Multi-task loss: mean of the squared errors of the targets, or of their logarithms.
OBJECTIVES = ("mse", "log-mse")
#: Regression loss: mean absolute error, or its sum with a Huber loss.
REGRESSION_OBJECTIVES = ("mae", "mae+huber")
#: Integration steps of an explanation.
EXPLAIN_STEPS = 256
MODELS = tuple(BY_NAME)
#: Networks whose rows are contexts or pairs of nodes: n² rows per graph.
PAIRWISE = ("smp", "fast-smp", "ppgn", "ring-gnn")
#: Networks that take the options of SMP's layers: towers, set_scale, …
OWN_LAYERS = ("smp", "fast-smp", "mpnn", "fast-mpnn")
