"""The parts of the authors' code that the paper does not have, one at a time: rows for tables."""

from __future__ import annotations

from smpgnn.paper.experiments.table import Row

SMP = Row("SMP", "smp")

PARTS_NOTE = (
    "The trainings are shorter than those of the paper's tables, all at one learning rate. The "
    "authors' code multiplies the set terms W2 and W3 with 0.1 in every forward pass; ours start "
    "at a tenth of their usual size and are free to grow. Divided by the average degree as a whole "
    "means that the prepared context is divided, too, not the sum over the neighbours alone."
)


def parts_of_smp(narrow: int) -> tuple[Row, ...]:
    """SMP with one part changed; `narrow` channels give one tower as many parameters."""
    return (
        Row("one tower, same width", "smp", {"towers": 1}),
        Row("one tower, same parameters", "smp", {"towers": 1, "hidden_channels": narrow}),
        Row("set terms start at a tenth", "smp", {"set_scale": 0.1}),
        Row("divided by the average degree as a whole", "smp", {"divide_update": True}),
        Row("prepared context added to the update", "smp", {"update_residual": True}),
        Row("no residual around the layer", "smp", {"residual": False}),
    )
