"""Trained models as files that run without smpgnn: AOTInductor packages (.pt2) and ONNX."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from smpgnn.config.models import CONTEXTS
from smpgnn.errors import InputError
from smpgnn.files import replacing
from smpgnn.inference.export_formats import (
    Run,
    quiet,
    require_onnx,
    run_onnx,
    run_package,
    write_onnx,
    write_package,
)
from smpgnn.inference.graph_tensors import (
    EDGES,
    GRAPHS,
    NODES,
    columns_of,
    input_shapes,
    metadata,
)
from smpgnn.layers import SMPLayer
from smpgnn.training.member_plan import MEMBERS
from smpgnn.training.tasks.base import OneLevelTask, Task, parts_of, quantities

if TYPE_CHECKING:
    from smpgnn.inference.predict import Model

#: Largest difference from the network, relative to 1 + |prediction|, that an export may have.
TOLERANCE = 1e-4
#: Sizes of the graphs for tracing, and of batches of graphs to check the result with.
_EXAMPLE = (4, 6, 5)
_CHECKED = ((3, 7, 2, 9), (1,), (12,))


class ExportedNetwork(nn.Module):
    """A trained network from graph tensors to predictions in the units of `smpgnn predict`.

    The only result is a tensor [B, columns], or [N, columns] if targets belong to nodes.
    """

    def __init__(self, network: nn.Module, task: Task) -> None:
        super().__init__()
        self.network, self.task = network, task

    def forward(
        self,
        *,
        x: Tensor | None = None,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor,
        u: Tensor | None = None,
    ) -> Tensor:
        more: dict[str, Any] = {} if u is None else {"u": u, "batch_size": u.size(0)}
        output = self.network(x, edge_index, edge_attr, batch, num_nodes=batch.size(0), **more)
        values, columns = quantities(self.task, output), []
        for part in parts_of(self.task):
            columns += [part.shown(values[:, column]) for column in part.columns]
        return torch.stack(columns, dim=1).float()


@dataclass(frozen=True)
class Exported:
    """A written file: its inputs and their shapes, its columns, and how exact it is.

    `difference` is the largest one from the network, relative to 1 + |prediction|.
    """

    path: Path
    inputs: Mapping[str, tuple[int | str, ...]]
    columns: tuple[str, ...]
    difference: float


def export_model(
    model: Model, path: str | Path, progress: Callable[[str], None] = lambda text: None
) -> Exported:
    """Write a model as an AOTInductor package (.pt2) or an ONNX file (.onnx).

    A package runs on the type of device on which the model is.
    """
    path = Path(path)
    if path.suffix not in (".pt2", ".onnx"):
        raise InputError(f"{path}: the name must end in .pt2 (AOTInductor) or .onnx (ONNX).")
    refuse(model)
    package = path.suffix == ".pt2"
    if not package:
        require_onnx()
    network = ExportedNetwork(model.network, model.task).eval()
    with replacing(path) as beside, tempfile.TemporaryDirectory() as folder, quiet():
        made = Path(folder) / f"model{path.suffix}"
        progress("tracing the network")
        program = traced_program(network, model)
        progress("compiling, which takes a minute or more" if package else "converting to ONNX")
        about = json.dumps(metadata(model))
        (write_package if package else write_onnx)(program, made, about)
        progress("comparing the result with the network")
        difference = _difference(network, (run_package if package else run_onnx)(made), model)
        shutil.copyfile(made, beside)
    return Exported(path, input_shapes(model), tuple(columns_of(model.task)), difference)


def refuse(model: Model) -> None:
    """Raise an error for a model that cannot be exported."""
    if model.members() != [model]:
        run = Path(model.path or "RUN")
        member = sorted((run / MEMBERS).glob("*/"))
        raise InputError(
            f"export: {model.path} has members and calibrations, which cannot be exported: export "
            f"one of them, such as {member[0] if member else run / MEMBERS}."
        )
    if not isinstance(model.task, OneLevelTask):
        raise InputError("export: networks for nodes and graphs together cannot be exported.")
    spec, name = model.saved.spec, model.saved.spec.options.model
    reason = ""
    structures = [m for m in model.network.modules() if isinstance(m, SMPLayer) and m.structure]
    if name in ("gin-random", "rp"):
        reason = "it draws random numbers"
    elif structures:
        reason = "its layers need structures that are computed graph by graph"
    elif name in CONTEXTS and spec.options.identifiers == "coloring":
        reason = "--identifiers coloring colours nodes one after another"
    elif "block-product" in spec.options.layer.terms:
        reason = "--terms block-product searches for the blocks of each graph"
    if reason:
        raise InputError(f"export: this '{name}' cannot be exported, because {reason}.")


def traced_program(network: nn.Module, model: Model) -> ExportedProgram:
    """The network as a program of torch.export, for any number of nodes, edges and graphs."""
    dynamic = {
        name: {place: Dim.DYNAMIC for place, size in enumerate(shape) if isinstance(size, str)}
        for name, shape in input_shapes(model).items()
    }
    example = example_inputs(model, _EXAMPLE)
    try:
        with torch.no_grad():
            return torch.export.export(network, (), example, dynamic_shapes=dynamic, strict=False)
    except InputError:
        raise
    except Exception as error:  # torch raises many kinds
        reason = str(error).strip().partition("\n")[0][:200].rstrip(".")
        name = model.saved.spec.options.model
        raise InputError(f"export: torch.export cannot trace this '{name}': {reason}.") from error


def example_inputs(model: Model, sizes: tuple[int, ...]) -> dict[str, Tensor]:
    """Inputs for paths and cycles of these sizes, with random features."""
    edges: list[tuple[int, int]] = []
    start = 0
    for number, size in enumerate(sizes):
        pairs = [(start + k, start + k + 1) for k in range(size - 1)]
        pairs += [(start, start + size - 1)] if number % 2 and size > 2 else []
        edges += [edge for a, b in pairs for edge in ((a, b), (b, a))]
        start += size
    generator = torch.Generator().manual_seed(0)
    counts = {NODES: start, EDGES: len(edges), GRAPHS: len(sizes)}
    found = {
        name: torch.rand(
            [counts[n] if isinstance(n, str) else n for n in shape], generator=generator
        )
        for name, shape in input_shapes(model).items()
        if name not in ("edge_index", "batch")
    }
    found["edge_index"] = torch.tensor(edges, dtype=torch.long).view(-1, 2).t().contiguous()
    found["batch"] = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return {name: found[name].to(model.device) for name in input_shapes(model)}


def _difference(network: nn.Module, run: Run, model: Model) -> float:
    """The largest difference between an export and its network on graphs of several sizes."""
    largest = 0.0
    for sizes in _CHECKED:
        inputs = example_inputs(model, sizes)
        with torch.no_grad():
            expected = network(**inputs).cpu()
        gap = (run(inputs).cpu() - expected).abs() / (1 + expected.abs())
        largest = max(largest, float(gap.max()))
    if not largest <= TOLERANCE:
        raise RuntimeError(f"the exported model differs from the network by {largest}")
    return largest
