"""Networks by name: from plain values, as in a saved model, to the module."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from smpgnn.config.models import MODELS, SMP_LAYERS
from smpgnn.config.network import LayerOptions, NetworkOptions
from smpgnn.config.settings import Options, flat, nested, plain, with_values
from smpgnn.errors import InputError, quoted


@dataclass(frozen=True)
class NetworkSpec(Options):
    """Everything needed to build a network: its options, and what the data determine.

    `max_nodes` is the size of the largest graph (for relational pooling), `usual_nodes` the mean
    size of training graphs (for the readout 'scaled-sum'), `global_channels` the number of features
    of each graph.
    """

    in_channels: int = 0
    edge_channels: int = 0
    node_outputs: int = 0  # numbers to predict for each node
    graph_outputs: int = 0  # numbers to predict for each graph; both: the multi-task networks
    max_nodes: int = 0
    usual_nodes: float = 1.0
    global_channels: int = 0
    options: NetworkOptions = nested(NetworkOptions())

    def to_dict(self) -> dict[str, Any]:
        """The flat view, as in saved models."""
        return plain(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> NetworkSpec:
        """From the flat view, also of models of earlier versions.

        Files of smpgnn have each value in the type of its setting; others are refused.
        """
        made = with_values(cls(), values, "spec")
        for name, value in plain(made).items():
            if values.get(name, value) != value:
                raise InputError(f"spec.{name} is {quoted(values[name])}")
        return made

    @property
    def level(self) -> str:
        return "node" if self.node_outputs and not self.graph_outputs else "graph"

    def build(self) -> nn.Module:
        """The network with new weights."""
        entry, options = MODELS[self.options.model], self.options
        if entry.name not in SMP_LAYERS:  # baselines have neither contexts nor options of layers
            usual = NetworkOptions()
            options = options.changed(
                identifiers=usual.identifiers,
                features=usual.features,
                first_rows=usual.first_rows,
                **flat(LayerOptions()),
            )
        more: dict[str, Any] = {
            "edge_channels": self.edge_channels if entry.edges else 0,
            "options": options,
        }
        if entry.layer is not None:
            more["layer"] = entry.layer
        if entry.name == "rp":
            more["max_nodes"] = max(1, self.max_nodes)
        place, name = entry.network.split(":")
        if self.node_outputs and self.graph_outputs:
            if not entry.multitask:
                several = ", ".join(other.name for other in MODELS.values() if other.multitask)
                raise InputError(
                    f"model: '{entry.name}' has no version for several targets at once: "
                    f"take one of {several}."
                )
            name, outputs = f"MultiTask{name}", [self.node_outputs, self.graph_outputs]
        else:
            outputs = [self.node_outputs or self.graph_outputs]
            more |= {"level": self.level, "usual_nodes": self.usual_nodes}
            more["global_channels"] = self.global_channels
        make: Callable[..., nn.Module] = getattr(importlib.import_module(f"smpgnn.{place}"), name)
        return make(self.in_channels, *outputs, **more)
