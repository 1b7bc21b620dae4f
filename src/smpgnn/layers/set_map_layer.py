"""The base of the default and the fast layer: their options and their first step, the set map."""

from __future__ import annotations

from typing import Any, ClassVar

from smpgnn.config.network import LayerOptions
from smpgnn.config.settings import refuse_unknown
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.layers.base import SMPLayer
from smpgnn.layers.set_linear import RowLinear, SetLinear, set_map_type
from smpgnn.ops.backend import WIDEST


class SetMapLayer(SMPLayer):
    """A layer that begins with the set map Û.

    Args:
        in_channels: width of the contexts.
        out_channels: width of the new contexts.
        edge_channels: number of edge features; 0: none.
        options: of the layer; those that it does not have (`option_names`) are ignored.
        changes: options by name, which override those in `options`.
    """

    contained = merges_norm = True
    first_map: ClassVar[type[SetLinear] | type[RowLinear]] = SetLinear

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        edge_channels: int = 0,
        options: LayerOptions | None = None,
        **changes: Any,
    ) -> None:
        super().__init__("sum")
        refuse_unknown(changes, self.option_names, type(self).__name__, "option")
        given = LayerOptions() if options is None else options
        own = {name: getattr(given, name) for name in self.option_names}
        self.options = options = LayerOptions(**{**own, **changes})
        self.in_channels, self.out_channels = in_channels, out_channels
        self.edge_channels = edge_channels
        self.capturable = out_channels <= WIDEST
        # The set map stays whole if towers do not divide its input.
        towers = options.towers if in_channels % options.towers == 0 else 1
        first_map = set_map_type(self.first_map, options.set_terms, options.own_terms)
        self.set_map = first_map(in_channels, out_channels, towers, options.set_scale)
        self.add_maps(options)

    def add_maps(self, options: LayerOptions) -> None:
        """Add the maps after the set map; called by the constructor."""
        raise NotImplementedError

    def reset_parameters(self) -> None:
        for module in self.children():
            module.reset_parameters()  # type: ignore[operator]

    def prepare(self, context: LocalContext, index: ContextIndex) -> LocalContext:
        prepared: LocalContext = self.set_map(context)
        return prepared
