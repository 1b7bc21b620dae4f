"""Layers of structural message-passing."""

from smpgnn.layers.base import SMPLayer
from smpgnn.layers.default import DefaultSMPLayer
from smpgnn.layers.family import FamilySMPLayer
from smpgnn.layers.fast import FastSMPLayer
from smpgnn.layers.linear import TowerLinear
from smpgnn.layers.norm import RowBatchNorm, RowLayerNorm, row_norm
from smpgnn.layers.plain import FastMPNNLayer, MPNNLayer
from smpgnn.layers.set_linear import MarkedSetLinear, RowLinear, SetLinear

__all__ = [
    "DefaultSMPLayer",
    "FamilySMPLayer",
    "FastMPNNLayer",
    "FastSMPLayer",
    "MPNNLayer",
    "MarkedSetLinear",
    "RowBatchNorm",
    "RowLayerNorm",
    "RowLinear",
    "SMPLayer",
    "SetLinear",
    "TowerLinear",
    "row_norm",
]
