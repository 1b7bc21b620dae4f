"""What all networks share: options, and from them the layers on contexts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn

from smpgnn.capture.pause import padded_call
from smpgnn.config.network import LayerOptions, NetworkOptions
from smpgnn.config.settings import refuse_unknown, settings, with_values
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError
from smpgnn.layers import DefaultSMPLayer, FamilySMPLayer, FastSMPLayer, SMPLayer
from smpgnn.models.backbone import Backbone

#: Arguments of all layers.
_COMMON = ("in_channels", "out_channels", "edge_channels", "options")
#: Settings that all networks take as arguments by name; their layers have more.
_ARGUMENTS = [
    name
    for name in settings(NetworkOptions)
    if name != "model" and name not in settings(LayerOptions)
]


class Network(nn.Module):
    """A network of layers on contexts.

    Args:
        in_channels: number of node features.
        edge_channels: number of edge features.
        layer: name of a layer in `layer_types`; None: the first.
        options: of the network and its layers; None: `default_options`.
        changes: in place of those in `options`, by name, settings of `NetworkOptions` and
            `LayerOptions`, and arguments of the layer itself. None (but for `norm`) changes
            nothing.
    """

    #: The layers of the network by name.
    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {
        "default": DefaultSMPLayer,
        "fast": FastSMPLayer,
    }
    default_options: ClassVar[NetworkOptions] = NetworkOptions()
    #: Whether a row belongs to a context; otherwise each node has one row.
    on_contexts: ClassVar[bool] = True

    def __init__(
        self,
        in_channels: int,
        edge_channels: int,
        layer: str | None,
        options: NetworkOptions | None,
        **changes: Any,
    ) -> None:
        super().__init__()
        name = next(iter(self.layer_types)) if layer is None else layer
        if name not in self.layer_types:
            known = ", ".join(self.layer_types)
            raise InputError(f"layer must be one of {known}, not {name!r}.")
        kind = self.layer_types[name]
        wider = FamilySMPLayer if kind is DefaultSMPLayer else kind  # the same with more terms
        own = _own_arguments(kind)
        changes = {n: value for n, value in changes.items() if value is not None or n == "norm"}
        where = type(self).__name__
        refuse_unknown(changes, [*_ARGUMENTS, *wider.option_names, *own], where, "argument")
        arguments = {n: changes.pop(n) for n in own if n in changes}
        given = self.default_options if options is None else options
        self.options = with_values(given, changes, where)
        kind = wider if self.options.layer.terms else kind
        if kind.option_names:
            arguments["options"] = self.options.layer
        make: Callable[..., SMPLayer] = kind
        self.backbone = Backbone(
            partial(make, edge_channels=edge_channels, **arguments),
            in_channels,
            edge_channels,
            self.options,
            on_contexts=self.on_contexts,
        )

    def _replayed(
        self,
        edge_index: Any,
        x: Any,
        edge_attr: Any,
        batch: Any,
        num_nodes: int | None,
        batch_size: int | None,
        index: ContextIndex | None,
    ) -> Any:
        """The result of a call from CUDA graphs or on a padded batch (`smpgnn.capture`).

        None: run eagerly.
        """
        if torch.compiler.is_compiling():
            return None
        padded = padded_call(edge_index) if index is None else None
        if padded is not None:
            return padded(self, x, edge_attr)
        if not getattr(edge_index, "is_cuda", False):
            return None
        from smpgnn.capture.calls import replayed

        return replayed(self, x, edge_index, edge_attr, batch, num_nodes, batch_size, index)


def _own_arguments(layer: type[SMPLayer]) -> list[str]:
    """The arguments that a layer has and others have not."""
    return [
        name
        for name, parameter in inspect.signature(layer).parameters.items()
        if name not in _COMMON and parameter.kind is not parameter.VAR_KEYWORD
    ]
