"""smpgnn: structural message-passing on PyTorch and PyTorch Geometric."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smpgnn.api import report, train, tune
    from smpgnn.capture.pause import eager_calls
    from smpgnn.capture.step import CapturedStep
    from smpgnn.config.network import LayerOptions, NetworkOptions
    from smpgnn.contexts.context import LocalContext
    from smpgnn.contexts.index import ContextIndex
    from smpgnn.contexts.target_nodes import TargetLoader
    from smpgnn.contexts.topology import Topology
    from smpgnn.contexts.transforms import AddIdentifiers, context_index
    from smpgnn.errors import InputError
    from smpgnn.estimators import SMPClassifier, SMPRegressor
    from smpgnn.inference.predict import Model, load
    from smpgnn.layers import DefaultSMPLayer, FastSMPLayer, SetLinear, SMPLayer
    from smpgnn.models import MPNN, SMP, MultiTaskMPNN, MultiTaskSMP
    from smpgnn.pooling import GraphExtractor, NodeExtractor

__version__ = "0.1.0"

__all__ = [
    "MPNN", "SMP", "AddIdentifiers", "CapturedStep", "ContextIndex", "DefaultSMPLayer",
    "FastSMPLayer", "GraphExtractor", "InputError", "LayerOptions", "LocalContext", "Model",
    "MultiTaskMPNN", "MultiTaskSMP", "NetworkOptions", "NodeExtractor", "SMPClassifier", "SMPLayer",
    "SMPRegressor", "SetLinear", "TargetLoader", "Topology", "context_index", "eager_calls", "load",
    "report", "train", "tune",
]  # fmt: skip

# Names are loaded when first used: `import smpgnn` itself stays quick, and so does `smpgnn --help`.
_HOME = {
    name: module
    for module, names in {
        "api": "report train tune",
        "capture.pause": "eager_calls",
        "capture.step": "CapturedStep",
        "config.network": "LayerOptions NetworkOptions",
        "contexts.context": "LocalContext",
        "contexts.index": "ContextIndex",
        "contexts.target_nodes": "TargetLoader",
        "contexts.topology": "Topology",
        "contexts.transforms": "AddIdentifiers context_index",
        "errors": "InputError",
        "estimators": "SMPClassifier SMPRegressor",
        "inference.predict": "Model load",
        "layers": "DefaultSMPLayer FastSMPLayer SetLinear SMPLayer",
        "models": "MPNN SMP MultiTaskMPNN MultiTaskSMP",
        "pooling": "GraphExtractor NodeExtractor",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'smpgnn' has no attribute {name!r}")
    return getattr(importlib.import_module(f"smpgnn.{_HOME[name]}"), name)
