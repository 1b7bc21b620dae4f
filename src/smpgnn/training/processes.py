"""Several processes that train together, started by Lightning, torchrun or Slurm."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from smpgnn.config.options import TrainOptions
from smpgnn.errors import InputError, quoted

if TYPE_CHECKING:  # loaded late: the command line asks for the first process before it needs torch
    import torch

#: Variables by which Lightning, torchrun and Slurm tell a process how many there are (from 1), and
#: its place among them (from 0).
_COUNTS = (
    "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT", "OMP_NUM_THREADS", "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS_PER_NODE", "SLURM_NNODES",
)  # fmt: skip
_PLACES = (
    "RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "SLURM_PROCID", "SLURM_LOCALID",
    "SLURM_NODEID",
)  # fmt: skip


def check_environment() -> None:
    """Refuse nonsense in the environment variables for several processes."""
    for name in (*_COUNTS, *_PLACES):
        text, least = os.environ.get(name), int(name in _COUNTS)
        if text is None:
            continue
        most = 65535 if name == "MASTER_PORT" else 10**6
        # OMP_NUM_THREADS may be a list, one number per nesting level
        parts = text.split(",") if name == "OMP_NUM_THREADS" else [text]
        if not all(_is_whole(part) and least <= int(part) <= most for part in parts):
            raise InputError(
                f"the environment variable {name} is {quoted(text)}, but must be a whole number "
                f"from {least} to {most}: unset it, or start the processes with torchrun or srun."
            )


def _is_whole(text: str) -> bool:
    return text.strip().isascii() and text.strip().isdigit() and len(text.strip()) < 10


def started_processes() -> int:
    """How many processes torchrun or srun have started; call `check_environment` first."""
    for name in ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS"):
        if name in os.environ:
            return int(os.environ[name])
    return 1


def check_devices(options: TrainOptions, device: torch.device) -> None:
    """Refuse options that do not fit the started processes or the machine."""
    import torch

    started = started_processes()
    if started not in (1, options.devices * options.nodes):
        raise InputError(
            f"--devices {options.devices} --nodes {options.nodes}: {started} processes were "
            "started: use the same numbers as for torchrun or srun."
        )
    if options.auto_batch and options.devices * options.nodes > 1:
        raise InputError(  # each would see different free memory and make different batches
            "--auto-batch: works with one process only: set --batch-rows instead."
        )
    on_gpu = device.type == "cuda"
    there = torch.cuda.device_count() if on_gpu else max(8, os.cpu_count() or 1)
    if options.devices > there:
        what = f"{there} GPU" if on_gpu else f"{os.cpu_count()} processors"
        raise InputError(f"--devices {options.devices}: this machine has only {what}.")


def first_process() -> bool:
    """Whether this process is the one that writes, according to its environment variables."""
    names = ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
    return all(os.environ.get(name, "0") == "0" for name in names)


#: Seconds between two checks of the other processes.
_PAUSE = 0.1
#: Tells a process that Lightning starts the id of its parent.
_PARENT = "SMPGNN_PARENT"


#: Errors of broken process groups. They are never freed: their frames hold the group, and its
#: destructor would wait, with the GIL, for a thread that may be waiting for the GIL.
_kept: list[BaseException] = []


@contextlib.contextmanager
def watching(trainer: Any, sentence: str) -> Iterator[None]:
    """End this process with a sentence if another process of the training ends early.

    Collectives would wait half an hour for it, or fail with a network error.
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
        _kept.append(error)
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
            # Lightning checks this list every five seconds and would kill this process without a
            # message; an empty list makes it stop.
            launcher.procs = list(children)
            children.clear()
            children = launcher.procs
        status = next((child.returncode for child in children if child.poll()), 0)
        orphaned = started_here and os.getppid() != parent
        if trainer.interrupted:  # it is ending already, and says why
            return
        if status in (2, 130):  # this one ends for the same reason, or the other has said why
            if not done.wait(2) and not trainer.interrupted:
                os._exit(status)
            return
        if status or orphaned:
            os.write(2, f"smpgnn: {sentence}\n".encode(errors="backslashreplace"))
            os._exit(2)


def in_group() -> bool:
    """Whether this process has joined the others."""
    import torch

    return torch.distributed.is_available() and torch.distributed.is_initialized()


def leave_group() -> None:
    """Destroy the process group once all processes are here.

    The threads of a group on the CPU would outlive Python and could abort a process as it exits.
    """
    import torch

    torch.distributed.barrier()  # no process still waits for this one
    gc.collect()  # remains of Lightning's wrapper keep the group alive
    torch.distributed.destroy_process_group()
