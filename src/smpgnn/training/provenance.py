"""What a result may depend on besides its settings: versions, commit and device."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch


def origin(device: torch.device) -> dict[str, Any]:
    """These for run.json, and which memory is measured there."""
    return {
        "device": device_name(device),
        "memory_of": "tensors on the GPU" if device.type == "cuda" else "whole process",
        "versions": versions(),
        "commit": commit(),
    }


def versions() -> dict[str, str]:
    """Versions of Python and the libraries that compute."""
    import torch_geometric

    import smpgnn

    return {
        "smpgnn": smpgnn.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
        "pytorch_lightning": version("pytorch-lightning"),
    }


def commit() -> str | None:
    """The commit of the source, with '+' if it has changes; None outside of a checkout.

    For a copy of the source without its history, SMPGNN_COMMIT names it.
    """
    if named := os.environ.get("SMPGNN_COMMIT"):
        return named
    file = Path(__file__).resolve()

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(file.parent), *words], capture_output=True, text=True, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("ls-files", "--error-unmatch", file.name) is None:
        return None  # installed somewhere inside another repository
    head = git("rev-parse", "--short=12", "HEAD")
    if head is None:
        return None
    return head + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def device_name(device: torch.device) -> str:
    """The GPU, or the processor and the number of threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    threads = torch.get_num_threads()
    return f"{model}, {threads} thread{'s' if threads > 1 else ''}"
