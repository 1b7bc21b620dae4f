"""The programs of `smpgnn paper theory` and the options of `expressivity`. Needs no torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from smpgnn.config.models import CONTEXTS, MODELS
from smpgnn.config.network import READOUTS
from smpgnn.errors import InputError, check_counts

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
NORMS = ("layer", "none")


@dataclass(frozen=True)
class Settings:
    """What `expressivity` measures, and how.

    Args:
        models: names from `NETWORK_NAMES`, or module:function for your own (`given.OwnNetwork`).
        families: names from `FAMILY_NAMES`.
        pairs: files of further pairs (`data.brec.read_pairs`).
        seeds: number of random initialisations; a pair counts if one of them distinguishes it.
        relabelings: relabelled copies of every graph.
        layers, width, readout: of the networks.
        norm: 'layer' or 'none'. Layer norm treats each row separately, so the bounds hold with it;
            without it, the matrix products of PPGN drown small differences in large numbers.
    """

    models: tuple[str, ...] = NETWORK_NAMES
    families: tuple[str, ...] = FAMILY_NAMES
    pairs: tuple[str, ...] = ()
    seeds: int = 5
    relabelings: int = 3
    layers: int = 6
    width: int = 16
    norm: str = "layer"
    readout: str = "mean"

    def __post_init__(self) -> None:
        _check_names("models", [name for name in self.models if ":" not in name], NETWORK_NAMES)
        _check_names("families", self.families, FAMILY_NAMES)
        _check_names("norm", [self.norm], NORMS)
        _check_names("readout", [self.readout], READOUTS)
        counts = {name: getattr(self, name) for name in ("seeds", "relabelings", "layers", "width")}
        check_counts(**counts, at_least=1)


def _check_names(argument: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"{argument} must be one of {', '.join(known)}, not {name!r}.")
