"""The most memory that a run has needed."""

from __future__ import annotations

import contextlib
from pathlib import Path

import torch

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory:
    """Peak memory of a run in MiB, over all its parts.

    On a GPU it is that of the tensors; else the resident memory of the whole process, Python and
    libraries included. It is 0 where the system does not tell.
    """

    def __init__(self) -> None:
        self.mib = 0.0

    def start(self, device: torch.device) -> None:
        """Forget what was before in this process."""
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        else:
            with contextlib.suppress(OSError):
                _CLEAR.write_text("5", encoding="ascii")  # resets the peak, nothing else

    def update(self, device: torch.device) -> None:
        """Take note of the peak so far."""
        if device.type == "cuda":
            here = torch.cuda.max_memory_allocated(device) / 2**20
        else:
            here = _resident_peak()
        self.mib = max(self.mib, here)


def memory_of(device: torch.device) -> str:
    """What the peak is measured of."""
    return "tensors on the GPU" if device.type == "cuda" else "whole process"


def _resident_peak() -> float:
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0
