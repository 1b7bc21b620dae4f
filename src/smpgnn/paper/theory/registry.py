"""The programs of `smpgnn paper theory` as plain data, so that listing them needs no torch."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smpgnn.config.models import CONTEXTS, MODELS
from smpgnn.errors import InputError

if TYPE_CHECKING:
    from smpgnn.paper.theory.program import Program


@dataclass(frozen=True)
class Listing:
    """Where a program is, and what its module says of it.

    Args:
        name: the word after `smpgnn paper theory`.
        claim: the claim of its `Program`.
        module: its module in `smpgnn.paper.theory`, which exposes it as `PROGRAM`.
        page: the page of docs/theory that explains it.
    """

    name: str
    claim: str
    module: str
    page: str

    def load(self) -> Program:
        """Import the module and return its program."""
        program: Program = importlib.import_module(f"smpgnn.paper.theory.{self.module}").PROGRAM
        return program


LISTINGS = (
    Listing(
        "equivariance",
        "Theorem 1: a layer is equivariant if its message, aggregation and update are",
        "equivariance",
        "equivariance.md",
    ),
    Listing(
        "warm-up",
        "Appendix B.1, Lemma 2: n×n contexts under elementwise max recover A_i⁽ˡ⁾, in the end A",
        "warm_up",
        "warm-up.md",
    ),
    Listing(
        "reconstruction",
        "Theorem 2: contexts of width 2·d_max + c_X + n·c_Y hold the whole graph at every node",
        "reconstruction",
        "reconstruction.md",
    ),
    Listing(
        "corollary",
        "Corollary 1: equivariant and invariant functions of the graph from any single node's "
        "context",
        "corollary",
        "reconstruction.md",
    ),
    Listing(
        "mpnn",
        "Proposition 1: SMP simulates any MPNN with as many layers, and MPNNs not every SMP",
        "proposition_1",
        "mpnn.md",
    ),
    Listing(
        "ppgn",
        "Proposition 2: a Fast SMP with k layers is a PPGN with 2k blocks",
        "proposition_2",
        "ppgn.md",
    ),
    Listing(
        "coloring",
        "Appendix E, Algorithm 1: identifiers may repeat beyond 2L hops; how many are needed",
        "colors",
        "coloring.md",
    ),
    Listing(
        "expressivity",
        "Section 3.2, measured: which hard pairs of graphs each network tells apart",
        "expressivity",
        "expressivity.md",
    ),
)
BY_NAME = {listing.name: listing for listing in LISTINGS}
#: The families of graphs that `expressivity` knows.
FAMILY_NAMES = ("regular", "csl", "cfi", "strongly-regular", "atlas")
_LOCAL = {"model": "smp", "identifiers": "local", "features": "row"}
#: Variants of SMP that `expressivity` measures beside the networks by name, as options.
VARIANTS: dict[str, dict[str, Any]] = {
    "smp-own-terms": {"model": "smp", "own_terms": True},
    "smp-local": _LOCAL,  # the contexts of `smpgnn train zinc`
    "smp-local-own-terms": {**_LOCAL, "own_terms": True},  # those of `smpgnn train molecules`
}
#: All networks that `expressivity` knows.
NETWORK_NAMES = (*CONTEXTS, *VARIANTS, *(name for name in MODELS if name not in CONTEXTS))


def program(name: str) -> Program:
    """The program of this name."""
    if name not in BY_NAME:
        raise InputError(f"program must be one of {', '.join(BY_NAME)}, not {name!r}.")
    return BY_NAME[name].load()
