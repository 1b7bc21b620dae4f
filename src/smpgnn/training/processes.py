"""Processes that train together."""

from __future__ import annotations

import gc
import os


def first_process() -> bool:
    """Whether this process is the one that writes, of those that train together.

    It is known before they meet: from what Lightning, torchrun or Slurm tell each of them.
    """
    names = ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
    return all(os.environ.get(name, "0") == "0" for name in names)


def in_group() -> bool:
    """Whether this process has met the others."""
    import torch  # loaded late: the command line asks for the first process before it needs torch

    return torch.distributed.is_available() and torch.distributed.is_initialized()


def leave_group() -> None:
    """End the group of processes, once all of them are here.

    The threads of a group on the CPU would outlive Python, and could abort a process as it ends.
    """
    import torch

    torch.distributed.barrier()  # nobody still waits for a word of this process
    gc.collect()  # what is left of Lightning's wrapper holds the group
    torch.distributed.destroy_process_group()
