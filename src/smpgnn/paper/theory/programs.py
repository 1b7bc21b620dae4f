"""The programs of `smpgnn paper theory` and the options of `expressivity`. Needs no torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from smpgnn.config.models import CONTEXTS, MODELS
from smpgnn.config.network import READOUTS
from smpgnn.config.setting import NETWORK, RUN, option
from smpgnn.config.settings import Options
from smpgnn.errors import InputError, quoted

#: The claim of each program: where it stands in the paper, and what it says.
CLAIMS = {
    "equivariance": "Theorem 1: a layer is equivariant if its message, aggregation and update are",
    "warm-up": "Appendix B.1, Lemma 2: n×n contexts with an element-wise max recover A_i⁽ˡ⁾",
    "reconstruction": "Theorem 2: contexts of width 2·d_max + c_X + n·c_Y hold the whole graph",
    "corollary": "Corollary 1: any equivariant or invariant function from one node's context",
    "mpnn": "Proposition 1: SMP simulates any MPNN with as many layers, but MPNNs not every SMP",
    "ppgn": "Proposition 2: a Fast SMP with k layers is a PPGN with 2k blocks",
    "coloring": "Appendix E, Algorithm 1: how many colours replace one-hot identifiers",
    "expressivity": "Section 3.2, measured: which hard pairs of graphs each network distinguishes",
}


def load(name: str) -> Callable[..., None]:
    """Import the module of a program and return its `run`.

    It prints what it constructs and finds, and raises `AssertionError` if the claim fails.
    """
    module = importlib.import_module(f"smpgnn.paper.theory.{name.replace('-', '_')}")
    run: Callable[..., None] = module.run
    return run


#: The families of graphs that `expressivity` measures, constructed in `families`.
FAMILY_NAMES = ("regular", "csl", "cfi", "strongly-regular", "atlas")
_LOCAL = {"model": "smp", "identifiers": "local", "features": "row"}
#: The rows of the family start from distances, without which differences fade beyond rounding.
_FAMILY = {"model": "smp", "first_rows": ("distance",), "context_radius": 20}
#: Variants of SMP that it measures besides the networks of the catalogue, as training options.
VARIANTS: dict[str, dict[str, Any]] = {
    "smp-own-terms": {"model": "smp", "own_terms": True},
    "smp-local": _LOCAL,  # the contexts of `smpgnn train zinc`
    "smp-local-own-terms": {**_LOCAL, "own_terms": True},  # those of `smpgnn train molecules`
    "smp-distance": _FAMILY,
    "smp-inside": {**_FAMILY, "terms": ("inside",)},
    "smp-inside-folklore": {**_FAMILY, "terms": ("inside", "folklore")},
    "smp-mirror": {**_FAMILY, "terms": ("mirror",)},
    "smp-block-product": {**_FAMILY, "terms": ("block-product",)},
    "smp-product": {**_FAMILY, "terms": ("product",)},
    **{
        f"smp-marks-{hops}": {**_FAMILY, "identifiers": "pairs", "pair_distance": hops}
        for hops in (1, 2, 3)
    },
}
NETWORK_NAMES = (*CONTEXTS, *VARIANTS, *(name for name in MODELS if name not in CONTEXTS))


@dataclass(frozen=True)
class Settings(Options):
    """What `expressivity` measures, and how."""

    models: tuple[str, ...] = option(
        NETWORK_NAMES,
        RUN,
        "networks, or module:function that returns your own, called as f(x, edge_index, batch=)",
        flag="--model",
    )
    families: tuple[str, ...] = option(FAMILY_NAMES, RUN, "families of graphs")
    pairs: tuple[str, ...] = option(
        (), RUN,
        "also measure pairs of these files: one graph6 per line, two lines a pair, or a table like "
        "BREC's; only these unless --families is given",
    )  # fmt: skip
    seeds: int = option(
        5, RUN, "random initialisations; a pair counts if one of them distinguishes it",
        at_least=1, at_most=10**6,
    )  # fmt: skip
    relabelings: int = option(3, RUN, "relabelled copies of each graph", at_least=1, at_most=10**6)
    layers: int = option(6, NETWORK, "layers of the networks", at_least=1, at_most=1000)
    width: int = option(16, NETWORK, "width of the networks", at_least=1, at_most=1000)
    # Layer norm treats each row separately, so the bounds hold with it; without it, the matrix
    # products of PPGN drown small differences in large numbers.
    norm: str = option("layer", NETWORK, "norm of the rows", ("layer", "none"))
    readout: str = option("mean", NETWORK, "readout of the networks", READOUTS)

    def __post_init__(self) -> None:
        super().__post_init__()
        own = tuple(name for name in self.models if ":" in name)
        for what, names, known in (
            ("models", self.models, NETWORK_NAMES + own),
            ("families", self.families, FAMILY_NAMES),
        ):
            if unknown := [name for name in names if name not in known]:
                raise InputError(
                    f"{what} must be one of {', '.join(known)}, not {quoted(unknown[0])}."
                )
