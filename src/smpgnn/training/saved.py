"""Saved models: weights in safetensors, everything else as JSON in its header. Nothing can run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from smpgnn.errors import InputError
from smpgnn.files import replacing
from smpgnn.models.registry import NetworkSpec
from smpgnn.pretrained import model_path
from smpgnn.training.tasks import Task, task_from_dict

FORMAT = "smpgnn 1"
SOURCES = ("graphs", "molecules", "zinc")


@dataclass(frozen=True)
class SavedModel:
    """A trained network and what its inputs and outputs mean.

    `source` describes how raw input becomes graphs (kind of data, features, vocabularies), in plain
    values.
    """

    network: nn.Module
    spec: NetworkSpec
    task: Task
    source: dict[str, Any]


def save_model(path: str | Path, saved: SavedModel) -> None:
    """Write the model to one file, whole or not at all."""
    from safetensors.torch import save

    header = {
        "format": FORMAT,
        "content": json.dumps(
            {
                "spec": saved.spec.to_dict(),
                "task": saved.task.to_dict(),
                "source": saved.source,
            }
        ),
    }
    weights = {
        name: value.detach().cpu().contiguous()
        for name, value in saved.network.state_dict().items()
    }
    with replacing(path) as beside:
        beside.write_bytes(save(weights, metadata=header))


def load_model(path: str | Path) -> SavedModel:
    """Read a model that `save_model` wrote: a file, the folder of a run, or one that ships."""
    from safetensors import SafetensorError, safe_open

    path = model_path(path)
    if path.is_dir():
        path = path / "model.safetensors"
        if not path.exists():
            raise InputError(
                f"{path.parent}: holds no model.safetensors: is it a run that finished an epoch?"
            )
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(
            f"{path}: not a model of smpgnn, or cut off: train it again or copy it anew."
        ) from error
    if metadata.get("format") != FORMAT:
        raise InputError(f"{path}: a safetensors file, but not a model saved by smpgnn.")
    try:
        content = json.loads(metadata["content"])
        spec = NetworkSpec(**content["spec"])
        task = task_from_dict(content["task"])
        source: dict[str, Any] = dict(content["source"])
        if source["kind"] not in SOURCES:
            raise InputError(f"unknown kind of data {source['kind']!r}")
        network = spec.build()
        network.load_state_dict(weights)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        detail = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path}: the model does not fit this version of smpgnn: {detail}"
        ) from error
    return SavedModel(network.eval(), spec, task, source)


def pick_device(name: str) -> torch.device:
    """The device called 'auto', 'cpu' or 'cuda'."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: this machine has no usable GPU; take cpu or auto.")
    if name not in ("cpu", "cuda"):
        raise InputError(f"--device must be auto, cpu or cuda, not {name!r}.")
    return torch.device(name)
