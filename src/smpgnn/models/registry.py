"""Networks by name: from plain numbers, as they stand in a saved model, to the module."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from torch import nn

from smpgnn.config.catalogue import BY_NAME, ENTRIES, OWN_LAYERS, Entry
from smpgnn.config.options import TrainOptions
from smpgnn.errors import InputError


@dataclass(frozen=True)
class NetworkSpec:
    """All that is needed to build a network anew; plain values only."""

    model: str
    in_channels: int
    edge_channels: int
    node_outputs: int  # numbers to predict for each node
    graph_outputs: int  # numbers to predict for each graph; both: the multi-task frame
    hidden_channels: int
    num_layers: int
    identifiers: str
    dropout: float
    norm: str
    residual: bool
    towers: int
    set_scale: float
    message_residual: bool
    update_residual: bool
    shared_extractor: bool
    extractor_channels: int
    checkpoint: bool = False
    readout: str = "mean"
    set_terms: bool = True
    own_terms: bool = False
    divide_update: bool = False
    norm_place: str = "before"
    context_radius: int = 3  # of local contexts
    features: str = "own"  # rows that hold node features at first
    max_nodes: int = 0  # of the largest graph there is (for relational pooling)
    usual_nodes: float = 1.0  # of a usual training graph (for the readout 'scaled-sum')

    @classmethod
    def from_options(
        cls,
        options: TrainOptions,
        *,
        in_channels: int,
        edge_channels: int,
        node_outputs: int,
        graph_outputs: int,
        num_layers: int | None = None,
        max_nodes: int = 0,
        usual_nodes: float = 1.0,
    ) -> NetworkSpec:
        names = {f.name for f in fields(cls)} & {f.name for f in fields(options)}
        values = {name: getattr(options, name) for name in names}
        values["num_layers"] = num_layers or options.num_layers
        if not BY_NAME[options.model].edges:
            edge_channels = 0
        return cls(
            **values,
            in_channels=in_channels,
            edge_channels=edge_channels,
            node_outputs=node_outputs,
            graph_outputs=graph_outputs,
            max_nodes=max_nodes,
            usual_nodes=usual_nodes,
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def level(self) -> str:
        return "node" if self.node_outputs and not self.graph_outputs else "graph"

    def build(self) -> nn.Module:
        """The network, with fresh weights."""
        if self.model not in BY_NAME:
            raise InputError(f"model must be one of {', '.join(BY_NAME)}, not {self.model!r}.")
        entry = BY_NAME[self.model]
        options: dict[str, Any] = {
            "edge_channels": self.edge_channels,
            "norm": None if self.norm == "none" else self.norm,
            "norm_place": self.norm_place,
            "residual": self.residual,
            "checkpoint": self.checkpoint,
        }
        if self.model in OWN_LAYERS:
            options |= self._layer_options()
        if self.model == "rp":
            options["max_nodes"] = max(1, self.max_nodes)
        if self.node_outputs and self.graph_outputs:
            if not entry.multitask:
                several = [other.name for other in ENTRIES if other.multitask]
                raise InputError(
                    f"model: '{self.model}' has no version for several targets at once: "
                    f"take one of {', '.join(several)}."
                )
            multitask = _find(entry, entry.multitask)
            return multitask(
                self.in_channels,
                self.node_outputs,
                self.graph_outputs,
                self.hidden_channels,
                self.num_layers,
                extractor_channels=self.extractor_channels or 32,
                **options,
            )
        return _find(entry, entry.network)(
            self.in_channels,
            self.node_outputs or self.graph_outputs,
            self.hidden_channels,
            self.num_layers,
            level=self.level,
            dropout=self.dropout,
            extractor_channels=self.extractor_channels or None,
            shared_extractor=self.shared_extractor,
            readout=self.readout,
            usual_nodes=self.usual_nodes,
            **options,
        )

    def _layer_options(self) -> dict[str, Any]:
        fast = self.model.startswith("fast-")
        options: dict[str, Any] = {
            "layer": "fast" if fast else "default",
            "identifiers": self.identifiers,
            "context_radius": self.context_radius,
            "towers": self.towers,
            "set_scale": self.set_scale,
            "set_terms": self.set_terms,
            "divide_update": self.divide_update,
        }
        if self.model in ("smp", "fast-smp"):  # the ablations have no contexts
            options["own_terms"] = self.own_terms
            options["features"] = self.features
        if not fast:
            options["message_residual"] = self.message_residual
            options["update_residual"] = self.update_residual
        return options


def _find(entry: Entry, name: str) -> Callable[..., nn.Module]:
    module = entry.module
    if name.startswith("MultiTask") and module == "models.smp":
        module = "models.multitask"
    found: Callable[..., nn.Module] = getattr(importlib.import_module(f"smpgnn.{module}"), name)
    return found
