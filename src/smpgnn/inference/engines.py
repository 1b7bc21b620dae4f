"""Run a job on many partitions: in processes of this machine, or by Ray on many machines."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from smpgnn.errors import InputError
from smpgnn.files import remove_unfinished
from smpgnn.inference.partitions import Job, Outcome, Partition, Worker
from smpgnn.processes import in_processes, suitable_processes
from smpgnn.threads import processors

ENGINES = ("local", "ray")
#: How many workers may be killed at a partition.
_ATTEMPTS = 3
#: Seconds to wait for the end of workers.
_PATIENCE = 5.0
#: Bytes of Ray's store of objects, which predictions do not use: about its minimum.
_STORE = 80 << 20


def run_local(
    worker: Worker,
    partitions: Sequence[Partition],
    processes: int = 0,
    progress: Callable[[int], None] = lambda rows: None,
) -> Iterator[Outcome]:
    """Each process predicts for one partition; fewer partitions than processes are shared.

    `processes=0`: as many as there are idle processors. `progress` gets the rows of the partition
    that this process predicts for.
    """
    wanted = processes or suitable_processes()
    if worker.model.device.type != "cpu" or not 1 < wanted <= len(partitions):
        for partition in partitions:
            yield worker(partition, processes, progress)
        return
    try:
        pieces = ((partition, (partition,)) for partition in partitions)
        for _, outcome in in_processes(worker, pieces, wanted):
            yield outcome
    finally:
        _clean(partitions)


def run_ray(job: Job, partitions: Sequence[Partition], processes: int = 0) -> Iterator[Outcome]:
    """Predict by Ray: one worker per GPU, or per core where there is none.

    Uses the cluster of RAY_ADDRESS or of this machine, and otherwise starts one on this machine.
    If a worker is killed, another one repeats its partition.

    Args:
        job: all machines need its files, and those of the partitions, at the same paths.
        partitions: what to predict for.
        processes: maximum number of workers; 0: as many as fit.
    """
    ray = _cluster(processes)
    there = ray.cluster_resources()
    gpus, cores = int(there.get("GPU", 0)), int(there.get("CPU", 1))
    if job.device == "cuda" and not gpus:
        raise InputError("--device cuda: Ray finds no GPU: use cpu or auto.")
    device = ("cuda" if gpus else "cpu") if job.device == "auto" else job.device
    count = gpus if device == "cuda" else cores
    count = max(1, min(count, processes or count, len(partitions)))
    each = max(1, cores // gpus) if device == "cuda" else 1  # cores that featurise for a GPU
    kind = ray.remote(_Actor).options(num_cpus=each, num_gpus=int(device == "cuda"))
    job = replace(job, device=device)
    with contextlib.redirect_stdout(sys.stderr):  # Ray prints there that it lost a worker
        yield from _shared(ray, lambda: kind.remote(job, each), count, partitions)


def check_ray() -> None:
    """Refuse Ray where it is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise InputError("--engine ray: needs Ray: pip install 'smpgnn[ray]'.")


class _Actor:
    """A worker in a process of Ray; it loads the model when it gets its first partition."""

    def __init__(self, job: Job, processes: int) -> None:
        self._job, self._processes = job, processes

    @functools.cached_property
    def _worker(self) -> Worker:
        return Worker(self._job)

    def run(self, partition: Partition) -> Outcome:
        """Predict for a partition; several processes featurise if this one has a GPU."""
        try:
            return self._worker(partition, self._processes)
        except InputError as error:
            return Outcome(partition, reason=str(error))


def _shared(
    ray: Any, start: Callable[[], Any], workers: int, partitions: Sequence[Partition]
) -> Iterator[Outcome]:
    """The outcomes as they come; each worker gets its next partition when it has finished one."""
    free, left = deque(start() for _ in range(workers)), deque(partitions)
    running: dict[Any, tuple[Any, Partition]] = {}
    killed = Counter[Partition]()
    try:
        while left or running:
            while left and free:
                one, partition = free.popleft(), left.popleft()
                running[one.run.remote(partition)] = one, partition
            (done, *_), _ = ray.wait(list(running), num_returns=1)
            one, partition = running.pop(done)
            try:
                outcome = ray.get(done)
            except ray.exceptions.RayTaskError:  # an error of ours
                raise
            except ray.exceptions.RayError:
                one, outcome = start(), None
            free.append(one)
            if outcome is not None:
                yield outcome
                continue
            killed[partition] += 1
            if killed[partition] < _ATTEMPTS:
                left.append(partition)
                continue
            yield Outcome(
                partition,
                reason=f"{partition.source}: {_ATTEMPTS} workers were killed by it, probably for "
                "lack of memory: use fewer (--processes), or split the file.",
            )
    finally:
        for one in (*free, *(one for one, _ in running.values())):
            ray.kill(one)
        _clean(partitions)


def _cluster(processes: int) -> Any:
    """Ray, connected to a cluster: that of RAY_ADDRESS or of this machine, else a new one.

    It ends with this process.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    if ray.is_initialized():
        return ray
    _check_address(os.environ.get("RAY_ADDRESS", ""))
    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address="auto", **quiet)
    except ConnectionError:
        ray.init(
            address="local",
            num_cpus=processes or processors(),
            object_store_memory=_STORE,
            include_dashboard=False,
            **quiet,
        )
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)  # Ray sets its own
    return ray


def _check_address(address: str) -> None:
    """Refuse a cluster that cannot be reached, for which Ray would wait many minutes."""
    found = urlsplit(address if "://" in address else f"//{address}")
    try:
        if found.hostname and found.port:
            socket.create_connection((found.hostname, found.port), timeout=20).close()
    except (OSError, ValueError) as error:
        raise InputError(
            f"RAY_ADDRESS={address}: no cluster of Ray answers there: correct or unset it."
        ) from error


def _clean(partitions: Sequence[Partition]) -> None:
    """Remove the unfinished files of workers that were killed, and may take a moment to end."""
    folders = {partition.target.parent for partition in partitions}
    end = time.monotonic() + _PATIENCE
    while sum(map(remove_unfinished, folders)) and time.monotonic() < end:
        time.sleep(0.1)
