"""How many processors to use, and the behaviour of threads and memory of a run on a CPU.

Threads of one operation wait for each other. If the processors are busy with other work, one that
has to wait for its turn stops all others: on two processors with two other processes, two threads
are many times slower than one. So small work takes one thread, and other work as many as there are
idle processors.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

#: Values of rows (rows times width) in a step for which a thread is worth its overhead.
_SHARE = 1 << 18
#: Where the limits of a container are.
GROUP = Path("/sys/fs/cgroup")
#: Options of glibc's `mallopt`, and their values while steps run.
_TRIM, _MMAPS = -1, -4
_NEVER_TRIM, _USUAL_TRIM, _USUAL_MMAPS = 2**31 - 1, 1 << 17, 1 << 16


def short_waits() -> None:
    """Let threads wait actively for microseconds only; call before torch is imported.

    Usually they wait for milliseconds, during which no other process can use the processor.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")


def processors() -> int:
    """The number of processors that this process may use."""
    if not hasattr(os, "sched_getaffinity"):  # macOS, Windows
        return os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0))
    return min(allowed, _quota(GROUP) or allowed)


def idle_processors() -> int:
    """The number of processors that no other process has used in the last minute, at least 1."""
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    everywhere = os.cpu_count() or 1
    return max(1, min(processors(), round(everywhere - busy)))


@contextlib.contextmanager
def suitable_threads(values: float) -> Iterator[None]:
    """Run torch with as many threads as suit steps on `values` numbers, and keep freed memory.

    `OMP_NUM_THREADS` and `torch.set_num_threads` set the maximum; the former is never changed.
    """
    import torch

    before = torch.get_num_threads()
    chosen = before
    if not os.environ.get("OMP_NUM_THREADS"):
        chosen = max(1, min(before, idle_processors(), int(values // _SHARE)))
    if chosen != before:
        torch.set_num_threads(chosen)
    try:
        with kept_memory():
            yield
    finally:
        if chosen != before:
            torch.set_num_threads(before)


@contextlib.contextmanager
def kept_memory() -> Iterator[None]:
    """Keep freed memory for the next tensors instead of returning it to the system (glibc only).

    Every step needs the same memory again; asking the system for it takes up to a fifth of a step.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library
        yield
        return
    mallopt(_MMAPS, 0)
    mallopt(_TRIM, _NEVER_TRIM)
    try:
        yield
    finally:
        mallopt(_MMAPS, _USUAL_MMAPS)
        mallopt(_TRIM, _USUAL_TRIM)
        ctypes.CDLL(None).malloc_trim(0)


def _quota(group: Path) -> int:
    """The processors that a container may use on average; 0: no limit."""
    found = 0.0
    with contextlib.suppress(OSError, ValueError):
        old = [group / f"cpu/cpu.cfs_{name}_us" for name in ("quota", "period")]
        files = old if old[0].exists() else [group / "cpu.max"]
        limit, period = " ".join(file.read_text(encoding="ascii") for file in files).split()
        found = float(limit) / max(1.0, float(period))
    return max(1, round(found)) if found > 0 else 0
