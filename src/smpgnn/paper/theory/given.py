"""The user's input to `expressivity`: pairs of graphs in files, and a network of their own."""

from __future__ import annotations

import importlib
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import torch
from torch import Tensor, nn

from smpgnn.contexts.topology import Topology
from smpgnn.data.brec import read_pairs
from smpgnn.errors import InputError, shown
from smpgnn.paper.theory.families import FAMILIES, Family, of_pairs


def given_families(paths: Sequence[str]) -> dict[str, Family]:
    """The pairs of graph6 files and of tables like BREC's, by category."""
    found = defaultdict[str, list[tuple[nx.Graph, nx.Graph]]](list)
    for path in paths:
        for pair in read_pairs(path):
            if pair.category in FAMILIES:
                raise InputError(
                    f"{path}: '{pair.category}' is the name of a family of smpgnn: rename the "
                    "file or the category."
                )
            found[pair.category].append((pair.first, pair.second))
    return {name: of_pairs("given pairs", pairs) for name, pairs in found.items()}


class OwnNetwork:
    """A network of the user, made by `module:function` and called on graphs without features.

    `function()` returns fresh weights: something to call as `network(x, edge_index, batch=batch)`
    like the networks of PyTorch Geometric, with x = 1 for every node. Modules run in float64 and
    eval mode.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.network = self._checked(_function(name))
        if isinstance(self.network, nn.Module):
            self.network = self.network.double().eval()
        if not callable(self.network):
            raise InputError(f"model '{name}': returns nothing that can be called: return it.")

    def __call__(self, batch: Topology) -> Tensor:
        """One row per graph, [G, C]."""
        x = torch.ones(batch.num_nodes, 1, dtype=torch.float64)
        found = self._checked(self.network, x, batch.edge_index, batch=batch.batch)
        rows = batch.num_graphs
        if not isinstance(found, Tensor) or found.dim() != 2 or found.size(0) != rows:
            shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(
                f"model '{self.name}': must return one row per graph, [{rows}, C], not {shape}."
            )
        return found.double()

    def _checked(self, function: Callable[..., Any], *values: Any, **more: Any) -> Any:
        try:
            return function(*values, **more)
        except Exception as error:
            raise InputError(
                f"model '{self.name}': fails with {shown(f'{type(error).__name__}: {error}', 200)}"
            ) from error


def _function(name: str) -> Callable[[], Any]:
    """The function that `module:function` names; the current folder is searched first."""
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found: Callable[[], Any] = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise InputError(
            f"model '{name}': cannot be imported ({type(error).__name__}: {shown(error, 120)}): "
            "give module:function, of the current folder or installed."
        ) from error
    finally:
        sys.path.remove(here)
    return found
