"""The networks by name: where their classes are, and what a layer costs. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

#: Memory and time of a layer for n nodes, m edges and width c.
_CONTEXTS = ("n² c", "m n c + n² c²")
_PAIRS = ("n² c", "n³ c + n² c²")
_NODES = ("n c", "m c + n c²")
_EDGES = ("m c", "m c + n c²")
_MESSAGES = ("m c", "m c²")


@dataclass(frozen=True)
class Entry:
    """One network.

    `network` is module:class below `smpgnn`, `layer` the name of its layer if the class has
    several, `cost` the memory and time of a layer. `edges` says whether it takes edge features,
    `multitask` whether there is also a MultiTask… class, for node and graph targets together.
    """

    name: str
    network: str
    text: str
    paper: str
    cost: tuple[str, str]
    layer: str | None = None
    edges: bool = False
    multitask: bool = False


_ALL = (
    Entry("smp", "models:SMP", "default SMP: MLPs in message and update", "Vignac et al., 2020",
          _CONTEXTS, layer="default", edges=True, multitask=True),
    Entry("fast-smp", "models:SMP", "Fast SMP: one message per node", "Vignac et al., 2020",
          _CONTEXTS, layer="fast", multitask=True),
    Entry("mpnn", "models:MPNN", "ablation: the default layers on node features",
          "Vignac et al., 2020", _NODES, layer="default", edges=True, multitask=True),
    Entry("fast-mpnn", "models:MPNN", "ablation: the fast layers on node features",
          "Vignac et al., 2020", _NODES, layer="fast", multitask=True),
    Entry("gin", "baselines.gine:GINE", "GIN, with edge features GINE",
          "Xu et al., 2019; Hu et al., 2020", _NODES, edges=True, multitask=True),
    Entry("gin-degree", "baselines.degree:DegreeGIN", "GIN with the degree as one-hot feature",
          "Xu et al., 2019", _NODES),
    Entry("gin-random", "baselines.random_identifiers:RandomIdentifierGIN",
          "GIN with a random identifier per node (not invariant)", "Sato et al., 2020", _NODES),
    Entry("rp", "baselines.relational_pooling:RelationalPooling",
          "relational pooling: GIN on permuted one-hot identifiers", "Murphy et al., 2019", _NODES),
    Entry("ppgn", "baselines.ppgn:PPGN", "provably powerful graph network, order 2",
          "Maron et al., 2019", _PAIRS),
    Entry("ring-gnn", "baselines.ring_gnn:RingGNN",
          "Ring-GNN: 15 linear equivariant operations and a matmul, order 2", "Chen et al., 2019",
          _PAIRS),
    Entry("gat", "baselines.gat:GAT", "graph attention network", "Veličković et al., 2018",
          _EDGES, edges=True, multitask=True),
    Entry("mpnn-sum", "baselines.mpnn_sum:MPNNSum", "MPNN with an MLP per message, summed",
          "Gilmer et al., 2017", _MESSAGES, edges=True, multitask=True),
    Entry("pna", "baselines.pna:PNA", "principal neighbourhood aggregation",
          "Corso et al., 2020", _MESSAGES, edges=True, multitask=True),
    Entry("gated-gcn", "baselines.gated_gcn:GatedGCN", "Gated-GCN with edge states",
          "Bresson and Laurent, 2018", _EDGES, edges=True, multitask=True),
    Entry("dgn", "baselines.dgn:DGN", "directional graph network, along Laplacian eigenvectors",
          "Beaini et al., 2020", _MESSAGES, edges=True, multitask=True),
    Entry("mpnn-jt", "baselines.junction_tree:JunctionTreeMPNN",
          "hierarchical inter-message passing on the junction tree", "Fey et al., 2020", _EDGES,
          edges=True),
)  # fmt: skip

MODELS: dict[str, Entry] = {entry.name: entry for entry in _ALL}
#: Networks on local contexts.
CONTEXTS = ("smp", "fast-smp")
#: Networks whose rows are contexts or pairs of nodes: n² rows per graph.
PAIRWISE = (*CONTEXTS, "ppgn", "ring-gnn")
#: Networks of SMP's layers, which have the options of layers.
SMP_LAYERS = (*CONTEXTS, "mpnn", "fast-mpnn")
