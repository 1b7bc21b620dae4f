"""Saved models: weights in safetensors, all else as JSON in its header; no code can run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from smpgnn.checksums import safetensors_fits, seal_safetensors, sealed_metadata
from smpgnn.config.options import DEVICES, MoleculesOptions
from smpgnn.data.categories import Categories
from smpgnn.data.descriptors import Descriptors
from smpgnn.data.graph_schema import GraphSchema
from smpgnn.errors import InputError
from smpgnn.files import replacing
from smpgnn.models.registry import NetworkSpec
from smpgnn.pretrained import NAMES, model_path
from smpgnn.training.tasks import Task, task_from_dict

FORMAT = "smpgnn 2"
OLD_FORMAT = "smpgnn 1"  # without a checksum
SOURCES = ("graphs", "molecules", "zinc")


@dataclass(frozen=True)
class SavedModel:
    """A trained network and the meaning of its inputs and outputs.

    `source` describes how raw input becomes graphs (kind of data, features, vocabularies), in plain
    values.
    """

    network: nn.Module
    spec: NetworkSpec
    task: Task
    source: dict[str, Any]


def save_model(path: str | Path, saved: SavedModel) -> None:
    """Write the model to a file, atomically."""
    from safetensors.torch import save

    content = {"spec": saved.spec.to_dict(), "task": saved.task.to_dict(), "source": saved.source}
    header = sealed_metadata({"format": FORMAT, "content": json.dumps(content)})
    weights = {
        name: value.detach().contiguous()
        for name, value in to_cpu(saved.network.state_dict()).items()
    }
    with replacing(path) as beside:
        beside.write_bytes(seal_safetensors(save(weights, metadata=header)))


def to_cpu(values: Any) -> Any:
    """Nested values with their tensors on the CPU.

    Those of a GPU are copied together: one by one, each copy would wait for the GPU.
    """
    leaves, structure = tree_flatten(values)
    away = [
        number
        for number, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor) and leaf.device.type != "cpu"
    ]
    if not away:
        return values
    for number, copy in zip(away, copied([leaves[number] for number in away]), strict=True):
        leaves[number] = copy
    return tree_unflatten(leaves, structure)


def copied(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies on the CPU, by one transfer for each dtype."""
    found: list[Tensor] = [torch.empty(0)] * len(tensors)
    with torch.no_grad():
        for dtype in {tensor.dtype for tensor in tensors}:
            own = [number for number, tensor in enumerate(tensors) if tensor.dtype == dtype]
            whole = torch.cat([tensors[number].reshape(-1) for number in own]).cpu()
            parts = torch.split(whole, [tensors[number].numel() for number in own])
            for number, part in zip(own, parts, strict=True):
                found[number] = part.view(tensors[number].shape).clone()
    return found


def load_model(path: str | Path) -> SavedModel:
    """Read a model: a file of `save_model`, a run folder, or the name of a pretrained model."""
    from safetensors import SafetensorError, safe_open

    path = model_path(path)
    if path.is_dir():
        path = path / "model.safetensors"
        if not path.exists() and (path.parent / "members").is_dir():
            raise InputError(
                f"{path.parent}: has several members: name the run folder of one of them, in "
                f"{path.parent / 'members'}."
            )
        if not path.exists():
            raise InputError(
                f"{path.parent}: contains no model.safetensors: name a run with a finished epoch."
            )
    if not path.exists():
        raise InputError(
            f"{path}: no such file or folder: name a run folder, a model file, or one of "
            f"{', '.join(NAMES)}."
        )
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") not in (FORMAT, OLD_FORMAT):
                raise InputError(
                    f"{path}: is a safetensors file, but not a model of smpgnn: train one."
                )
            fits = safetensors_fits(path.read_bytes())
            if fits is False or (fits is None and metadata["format"] == FORMAT):
                raise InputError(
                    f"{path}: was changed or damaged (wrong checksum): train it or copy it again."
                )
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except InputError:
        raise
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(
            f"{path}: is incomplete or not a model of smpgnn: train it or copy it again."
        ) from error
    try:
        return _from_content(json.loads(metadata["content"]), weights)
    except (
        KeyError, TypeError, ValueError, RuntimeError, AttributeError, RecursionError
    ) as error:  # fmt: skip
        detail = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path}: the model does not fit this version of smpgnn: {detail.rstrip('.')}."
        ) from error


def _from_content(content: Any, weights: dict[str, torch.Tensor]) -> SavedModel:
    """Build the model that the header describes, unless it is larger than the file."""
    spec = NetworkSpec.from_dict(content["spec"])
    task = task_from_dict(content["task"])
    if (task.node_outputs, task.graph_outputs) != (spec.node_outputs, spec.graph_outputs):
        raise InputError("task and network have different outputs")
    source: dict[str, Any] = dict(content["source"])
    if source["kind"] not in SOURCES:
        raise InputError(f"unknown data type {source['kind']!r}")
    if not isinstance(source.get("smiles_column", ""), str):
        raise InputError("source.smiles_column is not text")
    if not isinstance(source.get("standardize", False), bool):
        raise InputError("source.standardize is not true or false")
    if len(Descriptors.of_source(source)) != spec.global_channels:
        raise InputError("descriptors and network differ in number")
    if "schema" in source:
        _check_schema(GraphSchema.from_dict(source["schema"]), spec)
    if "categories" in source:
        Categories.from_dict(source["categories"]).check(spec.in_channels, spec.edge_channels)
    if spec.options.num_layers > len(weights):  # each layer has several
        raise InputError(f"{spec.options.num_layers} layers cannot have {len(weights)} tensors")
    with torch.device("meta"):  # shapes only
        wanted = {name: value.shape for name, value in spec.build().state_dict().items()}
    there = {name: value.shape for name, value in weights.items()}
    if wanted != there:
        name = next(n for n in (*wanted, *there) if wanted.get(n) != there.get(n))
        raise InputError(
            f"the weights '{name}' have shape {_shape(there.get(name))}, but the network needs "
            f"{_shape(wanted.get(name))}"
        )
    network = spec.build()
    network.load_state_dict(weights)
    return SavedModel(network.eval(), spec, task, source)


def _check_schema(schema: GraphSchema, spec: NetworkSpec) -> None:
    """Refuse attributes and targets that are inconsistent or do not fit the network."""
    for attribute in (*schema.node_attributes, *schema.edge_attributes):
        width = {"number": 1, "category": len(attribute.categories)}.get(attribute.kind)
        if attribute.width != (attribute.width if width is None else width):
            raise InputError(
                f"the attribute '{attribute.name}' has the wrong width {attribute.width}"
            )
    if schema.node_channels != spec.in_channels:
        raise InputError(
            f"the node attributes have {schema.node_channels} channels, but the network takes "
            f"{spec.in_channels}"
        )
    targets = schema.targets
    labels = 0 if targets is None or targets.task == "regression" else len(targets.names)
    if targets is not None and len(targets.classes) != labels:
        raise InputError("targets and classes differ in number")


def _shape(size: torch.Size | None) -> str:
    return "none" if size is None else str(list(size))


def pick_device(name: str) -> torch.device:
    """The device of this name; auto: cuda, else mps if our operations work there, else cpu."""
    if name not in DEVICES:
        raise InputError(f"--device must be one of {', '.join(DEVICES)}, not {name!r}.")
    if name == "auto":
        gpu = "mps" if trains_on("mps") else "cpu"
        return torch.device("cuda" if torch.cuda.is_available() else gpu)
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: this machine has no usable GPU: use cpu or auto.")
    if name == "mps" and not torch.backends.mps.is_available():
        raise InputError("--device mps: torch finds no Apple GPU on this machine: use cpu or auto.")
    return torch.device(name)


@cache
def trains_on(device: str) -> bool:
    """Whether the network of molecules computes gradients there; torch lacks operations on mps."""
    from smpgnn.models import SMP

    options = MoleculesOptions().network.changed(hidden_channels=4, num_layers=1)
    try:
        edges = torch.tensor([[0, 1], [1, 0]], device=device)
        network = SMP(1, 1, options=options).to(device)
        network(torch.ones(2, 1, device=device), edges).sum().backward()
        grads = [p.grad for p in network.parameters() if p.grad is not None]
        return all(bool(grad.isfinite().all()) for grad in grads)
    except (RuntimeError, NotImplementedError, TypeError, AssertionError):
        return False
