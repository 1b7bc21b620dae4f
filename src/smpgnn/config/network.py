"""Options of networks: what one layer computes, and what the network around it does."""

from __future__ import annotations

from dataclasses import dataclass

from smpgnn.config.models import MODELS
from smpgnn.config.setting import HARDWARE, NETWORK, option
from smpgnn.config.settings import Options, nested

#: Types of local contexts: which rows they have.
IDENTIFIERS = ("onehot", "coloring", "neighborhood", "local", "pairs")
#: Types in which each row describes one node, or the far nodes.
ONE_NODE = ("onehot", "local")
#: Where node features enter the initial contexts: in the context's own row; in all rows, those of
#: the context's node; in each row, those of the node that the row describes; or in each row, both.
FEATURES = ("own", "context", "row", "both")
#: What row j of context i holds besides node features before the first layer: the distance of j,
#: the edge from j to i, and probabilities of random walks from i to j.
FIRST_ROWS = ("distance", "bond", "walks")
#: What a row receives besides the messages of SMP (docs/concepts/family.md).
TERMS = ("inside", "folklore", "mirror", "product", "block-product")
NORMS = ("batch", "layer", "none")
#: Where the rows are normalised: before or after a layer.
NORM_PLACES = ("before", "after")
#: Pooling of the nodes of a graph; '+' concatenates two poolings.
READOUTS = ("mean", "sum", "scaled-sum", "max", "mean+max", "sum+max", "mean+scaled-sum")
_WIDEST, _DEEPEST = 2**16, 1000


@dataclass(frozen=True)
class LayerOptions(Options):
    """Options of one SMP layer. Each layer lists the ones that it supports in `option_names`."""

    towers: int = option(
        1, NETWORK, "independent channel groups; more need fewer weights",
        advanced=True, at_least=1, at_most=_WIDEST,
    )  # fmt: skip
    set_scale: float = option(
        1.0, NETWORK, "factor on the initial weights W2 and W3",
        advanced=True, at_least=-(10**6), at_most=10**6,
    )  # fmt: skip
    set_terms: bool = option(
        True, NETWORK, "W2 and W3, which add the mean row of a context to its rows", advanced=True
    )
    own_terms: bool = option(
        False, NETWORK, "add the context's own row to all its rows", advanced=True
    )
    message_residual: bool = option(
        False, NETWORK, "add the neighbour's context to its message (smp)", advanced=True
    )
    update_residual: bool = option(
        False, NETWORK, "add the transformed context to the update (smp)", advanced=True
    )
    divide_update: bool = option(
        False, NETWORK, "divide the whole update by the average degree", advanced=True
    )
    terms: tuple[str, ...] = option(
        (), NETWORK, "more terms in each layer (smp; docs/concepts/family.md)", TERMS, advanced=True
    )


@dataclass(frozen=True)
class NetworkOptions(Options):
    """A network without what the data decide: its size, contexts, norms and readout."""

    model: str = option("smp", NETWORK, "network to train", tuple(MODELS))
    hidden_channels: int = option(32, NETWORK, "width of the layers", at_least=1, at_most=_WIDEST)
    num_layers: int = option(
        4, NETWORK, "number of layers; each reaches one hop further", at_least=0, at_most=_DEEPEST
    )
    identifiers: str = option("onehot", NETWORK, "type of local contexts", IDENTIFIERS)
    context_radius: int = option(
        3, NETWORK, "radius in hops (--identifiers local, pairs; --first-rows distance)",
        at_least=1, at_most=10**9,
    )  # fmt: skip
    pair_distance: int = option(
        1, NETWORK, "hops between the two nodes of a row (--identifiers pairs)",
        advanced=True, at_least=0, at_most=10**9,
    )  # fmt: skip
    dropout: float = option(
        0.0, NETWORK, "dropout probability before the last linear layer", at_least=0, below=1
    )
    readout: str = option("mean", NETWORK, "pooling of the nodes of a graph", READOUTS)
    norm: str = option("none", NETWORK, "normalisation layer", NORMS, advanced=True)
    norm_place: str = option(
        "before", NETWORK, "normalise before or after a layer", NORM_PLACES, advanced=True
    )
    residual: bool = option(False, NETWORK, "residual connection around each layer", advanced=True)
    features: str = option(
        "own", NETWORK, "where node features enter the initial contexts", FEATURES, advanced=True
    )
    first_rows: tuple[str, ...] = option(
        (), NETWORK, "what initial rows hold besides node features", FIRST_ROWS, advanced=True
    )
    walk_steps: int = option(
        16, NETWORK, "steps of the random walks (--first-rows walks)",
        advanced=True, at_least=1, at_most=10**4,
    )  # fmt: skip
    shared_extractor: bool = option(
        False, NETWORK, "one extractor for all layers instead of one per layer", advanced=True
    )
    extractor_channels: int = option(
        0, NETWORK, "width of the extracted features; 0: four times the layer width",
        advanced=True, at_least=0, at_most=_WIDEST,
    )  # fmt: skip
    checkpoint: bool = option(
        False, HARDWARE, "gradient checkpointing: less memory, more time", advanced=True
    )
    layer: LayerOptions = nested(LayerOptions())
