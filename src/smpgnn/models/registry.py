"""Networks by name: from plain numbers, as they stand in a saved model, to the module."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from torch import nn

from smpgnn.errors import InputError
from smpgnn.options import MODELS, TrainOptions


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
    ) -> NetworkSpec:
        names = {f.name for f in fields(cls)} & {f.name for f in fields(options)}
        values = {name: getattr(options, name) for name in names}
        values["num_layers"] = num_layers or options.num_layers
        if options.model not in ("smp", "mpnn"):
            edge_channels = 0  # the others take no edge features
        return cls(
            **values,
            in_channels=in_channels,
            edge_channels=edge_channels,
            node_outputs=node_outputs,
            graph_outputs=graph_outputs,
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def level(self) -> str:
        return "node" if self.node_outputs and not self.graph_outputs else "graph"

    def build(self) -> nn.Module:
        """The network, with fresh weights."""
        from smpgnn.baselines import GIN
        from smpgnn.models.multitask import MultiTaskMPNN, MultiTaskSMP
        from smpgnn.models.smp import MPNN, SMP

        if self.model not in MODELS:
            raise InputError(f"model must be one of {', '.join(MODELS)}, not {self.model!r}.")
        layer = "fast" if self.model.startswith("fast-") else "default"
        contexts = self.model in ("smp", "fast-smp")
        layer_options: dict[str, Any] = {"towers": self.towers, "set_scale": self.set_scale}
        if layer == "default":
            layer_options["message_residual"] = self.message_residual
            layer_options["update_residual"] = self.update_residual
        common: dict[str, Any] = {
            "identifiers": self.identifiers,
            "norm": None if self.norm == "none" else self.norm,
            "residual": self.residual,
        }
        if self.node_outputs and self.graph_outputs:
            if self.model == "gin":
                raise InputError("model: 'gin' is not there yet for several targets at once.")
            multitask = MultiTaskSMP if contexts else MultiTaskMPNN
            return multitask(
                self.in_channels,
                self.node_outputs,
                self.graph_outputs,
                self.hidden_channels,
                self.num_layers,
                layer,
                edge_channels=self.edge_channels,
                extractor_channels=self.extractor_channels or 32,
                **common,
                **layer_options,
            )
        network: type[SMP] = SMP if contexts else MPNN
        if self.model == "gin":
            network, layer_options = GIN, {}
        else:
            layer_options["layer"] = layer
        return network(
            self.in_channels,
            self.node_outputs or self.graph_outputs,
            self.hidden_channels,
            self.num_layers,
            edge_channels=self.edge_channels,
            level=self.level,
            dropout=self.dropout,
            extractor_channels=self.extractor_channels or None,
            shared_extractor=self.shared_extractor,
            **common,
            **layer_options,
        )
