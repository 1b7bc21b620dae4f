"""Processes that train together."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

from smpgnn.errors import InputError, quoted

#: What Lightning, torchrun and Slurm tell a process, each a whole number, and the least it can be.
_TOLD = {
    "WORLD_SIZE": 1,
    "RANK": 0,
    "LOCAL_RANK": 0,
    "LOCAL_WORLD_SIZE": 1,
    "NODE_RANK": 0,
    "GROUP_RANK": 0,
    "MASTER_PORT": 1,
    "OMP_NUM_THREADS": 1,
    "SLURM_NTASKS": 1,
    "SLURM_STEP_NUM_TASKS": 1,
    "SLURM_NTASKS_PER_NODE": 1,
    "SLURM_NNODES": 1,
    "SLURM_PROCID": 0,
    "SLURM_LOCALID": 0,
    "SLURM_NODEID": 0,
}


def check_environment() -> None:
    """Refuse what the environment says of several processes where it makes no sense."""
    for name, least in _TOLD.items():
        text = os.environ.get(name)
        if text is None:
            continue
        most = 65535 if name == "MASTER_PORT" else 10**6
        # OMP_NUM_THREADS may be a list, of levels within each other
        parts = text.split(",") if name == "OMP_NUM_THREADS" else [text]
        if not all(_is_whole(part) and least <= int(part) <= most for part in parts):
            raise InputError(
                f"the environment variable {name} is {quoted(text)}, but must be a whole number "
                f"from {least} to {most}: unset it, or start the processes with torchrun or srun."
            )


def _is_whole(text: str) -> bool:
    return text.strip().isascii() and text.strip().isdigit() and len(text.strip()) < 10


def started_processes() -> int:
    """How many processes torchrun or srun have started, as `check_environment` has checked it."""
    for name in ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS"):
        if name in os.environ:
            return int(os.environ[name])
    return 1


def first_process() -> bool:
    """Whether this process is the one that writes, of those that train together.

    It is known before they meet: from what Lightning, torchrun or Slurm tell each of them.
    """
    names = ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
    return all(os.environ.get(name, "0") == "0" for name in names)


#: Seconds between two looks at the other processes.
_PAUSE = 0.1
#: By this variable a process that Lightning starts knows which one has started it.
_PARENT = "SMPGNN_PARENT"


@contextlib.contextmanager
def watching(trainer: Any, sentence: str) -> Iterator[None]:
    """End this process with a sentence where another one of the training has ended before time.

    Collectives would wait for it for half an hour, or fail with what the network says.
    """
    if trainer.world_size == 1:
        yield
        return
    done = threading.Event()
    told = os.environ.pop(_PARENT, "")
    parent = int(told) if _is_whole(told) else os.getppid()
    os.environ[_PARENT] = str(os.getpid())  # for the processes that Lightning starts
    watch = threading.Thread(target=_watch, args=(trainer, parent, sentence, done), daemon=True)
    watch.start()
    try:
        yield
    except RuntimeError as error:
        import torch

        if not isinstance(error, torch.distributed.DistError) and "gloo" not in str(error):
            raise
        with contextlib.suppress(RuntimeError):
            torch.distributed.destroy_process_group()
        raise InputError(sentence) from error
    finally:
        done.set()
        os.environ.pop(_PARENT, None)


def _watch(trainer: Any, parent: int, sentence: str, done: threading.Event) -> None:
    started_here = int(os.environ.get("LOCAL_RANK", "0")) > 0
    looks = 0
    while not done.wait(_PAUSE):
        launcher = trainer.strategy.launcher
        children = getattr(launcher, "procs", [])
        looks += len(children) == trainer.strategy.num_processes - 1
        if looks == 10:
            # Lightning watches this list, too, every five seconds, and would kill this process
            # without a word; for an empty one it stops to do so.
            launcher.procs = list(children)
            children.clear()
            children = launcher.procs
        status = next((child.returncode for child in children if child.poll()), 0)
        orphaned = started_here and os.getppid() != parent
        if trainer.interrupted:  # it ends already, and says why
            return
        if status in (2, 130):  # this one has the same reason to end, or the other has said why
            if not done.wait(2) and not trainer.interrupted:
                os._exit(status)
            return
        if status or orphaned:
            os.write(2, f"smpgnn: {sentence}\n".encode(errors="backslashreplace"))
            os._exit(2)


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
