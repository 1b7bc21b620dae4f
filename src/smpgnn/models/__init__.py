"""The networks of the paper's experiments."""

from smpgnn.models.multitask import MultiTaskMPNN, MultiTaskSMP
from smpgnn.models.smp import MPNN, SMP

__all__ = ["MPNN", "SMP", "MultiTaskMPNN", "MultiTaskSMP"]
