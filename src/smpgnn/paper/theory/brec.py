"""The ladder on BREC: which of its 400 pairs each refinement distinguishes, exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from smpgnn.data.brec import GraphPair
from smpgnn.data.brec_parts import BREC
from smpgnn.paper.theory.ladder import REFINEMENTS
from smpgnn.paper.theory.refinement import told_apart
from smpgnn.paper.theory.tables import Table


@dataclass(frozen=True)
class Rung:
    """The pairs that one refinement distinguishes, by number and counted by category."""

    refinement: str
    told_apart: int
    by_category: dict[str, int]
    pairs: list[int]


def rung(refinement: str, pairs: Sequence[GraphPair]) -> Rung:
    """The pairs that a refinement distinguishes: seconds, for the widest marks minutes."""
    rows = REFINEMENTS[refinement]
    apart = [k for k, pair in enumerate(pairs) if told_apart(pair.first, pair.second, rows)]
    counts = Counter(pairs[k].category for k in apart)
    return Rung(refinement, len(apart), {name: counts[name] for name in BREC}, apart)


def ladder_table(rungs: Sequence[Rung]) -> Table:
    """Pairs distinguished, by category and in all."""
    rows = [[r.refinement, *r.by_category.values(), r.told_apart] for r in rungs]
    head = ["pairs of BREC", *BREC, "all"]
    return [head, ["there are", *BREC.values(), sum(BREC.values())], *rows]
