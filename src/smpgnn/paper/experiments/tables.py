"""All tables by name."""

from __future__ import annotations

from smpgnn.errors import InputError, nearest
from smpgnn.paper.experiments.brec_tables import BREC_TABLES
from smpgnn.paper.experiments.counting_tables import COUNTING
from smpgnn.paper.experiments.cycle_tables import CYCLES
from smpgnn.paper.experiments.literal_tables import LITERAL
from smpgnn.paper.experiments.property_tables import PROPERTIES
from smpgnn.paper.experiments.table import Selection, Table
from smpgnn.paper.experiments.zinc_tables import ZINC

TABLES: dict[str, Table] = {
    table.name: table for table in (*CYCLES, *PROPERTIES, *ZINC, *LITERAL, *BREC_TABLES, *COUNTING)
}

SELECTIONS: dict[str, Selection] = {
    "training_curves": Selection(
        name="training_curves",
        title="Training curves of SMP, PPGN and Ring-GNN at the largest size of each cycle length",
        table="cycle_detection",
        rows=("SMP", "PPGN", "Ring-GNN"),
        cells=("4 36", "6 56", "8 72"),
    )
}


def find_table(name: str) -> Table | Selection:
    """The table or selection of this name; raises `InputError` if there is none."""
    known: dict[str, Table | Selection] = {**TABLES, **SELECTIONS}
    if name not in known:
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"known are: {', '.join(known)}."
        raise InputError(f"TABLE '{name}': there is none of this name: {hint}")
    return known[name]
