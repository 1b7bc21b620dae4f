"""Options of networks: what one layer computes, and what the network around it does."""

from __future__ import annotations

from dataclasses import dataclass

from smpgnn.config.models import MODELS
from smpgnn.config.setting import HARDWARE, NETWORK, advanced, option
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

    towers: int = advanced(
        1, NETWORK, "independent channel groups; more need fewer weights",
        at_least=1, at_most=_WIDEST,
    )  # fmt: skip
    set_scale: float = advanced(
        1.0, NETWORK, "factor on the initial weights W2 and W3", at_least=-(10**6), at_most=10**6
    )
    set_terms: bool = advanced(
        True, NETWORK, "W2 and W3, which add the mean row of a context to its rows"
    )
    own_terms: bool = advanced(False, NETWORK, "add the context's own row to all its rows")
    message_residual: bool = advanced(
        False, NETWORK, "add the neighbour's context to its message (smp)"
    )
    update_residual: bool = advanced(
        False, NETWORK, "add the transformed context to the update (smp)"
    )
    divide_update: bool = advanced(False, NETWORK, "divide the whole update by the average degree")
    terms: tuple[str, ...] = advanced(
        (), NETWORK, "more terms in each layer (smp; docs/concepts/family.md)", TERMS
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
    pair_distance: int = advanced(
        1, NETWORK, "hops between the two nodes of a row (--identifiers pairs)",
        at_least=0, at_most=10**9,
    )  # fmt: skip
    dropout: float = option(
        0.0, NETWORK, "dropout probability before the last linear layer", at_least=0, below=1
    )
    readout: str = option("mean", NETWORK, "pooling of the nodes of a graph", READOUTS)
    norm: str = advanced("none", NETWORK, "normalisation layer", NORMS)
    norm_place: str = advanced("before", NETWORK, "normalise before or after a layer", NORM_PLACES)
    residual: bool = advanced(False, NETWORK, "residual connection around each layer")
    features: str = advanced(
        "own", NETWORK, "where node features enter the initial contexts", FEATURES
    )
    first_rows: tuple[str, ...] = advanced(
        (), NETWORK, "what initial rows hold besides node features", FIRST_ROWS
    )
    walk_steps: int = advanced(
        16, NETWORK, "steps of the random walks (--first-rows walks)", at_least=1, at_most=10**4
    )
    shared_extractor: bool = advanced(
        False, NETWORK, "one extractor for all layers instead of one per layer"
    )
    extractor_channels: int = advanced(
        0, NETWORK, "width of the extracted features; 0: four times the layer width",
        at_least=0, at_most=_WIDEST,
    )  # fmt: skip
    checkpoint: bool = advanced(False, HARDWARE, "gradient checkpointing: less memory, more time")
    layer: LayerOptions = nested(LayerOptions())
