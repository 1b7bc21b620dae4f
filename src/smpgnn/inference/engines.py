"""Run a job on many partitions: in processes of this machine, or by Ray on many machines."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from smpgnn.errors import InputError
from smpgnn.files import remove_unfinished
from smpgnn.inference.partitions import Job, Outcome, Partition, Worker
from smpgnn.inference.processes import in_processes, suitable_processes
from smpgnn.threads import processors

ENGINES = ("local", "ray")
#: How often a partition is begun again after its worker was killed.
_RETRIES = 3
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
    A worker that is killed is started again and repeats its partition.

    Args:
        job: all machines need its files, and those of the partitions, at the same paths.
        partitions: what to predict for.
        processes: maximum number of workers; 0: as many as fit.
    """
    with _cluster(processes) as ray:
        there = ray.cluster_resources()
        gpus, cores = int(there.get("GPU", 0)), int(there.get("CPU", 1))
        if job.device == "cuda" and not gpus:
            raise InputError("--device cuda: Ray finds no GPU: use cpu or auto.")
        device = ("cuda" if gpus else "cpu") if job.device == "auto" else job.device
        count = gpus if device == "cuda" else cores
        count = max(1, min(count, processes or count, len(partitions)))
        # With GPUs, their cores featurise.
        each = max(1, cores // gpus) if device == "cuda" else 1
        actor = ray.remote(_Actor).options(
            num_cpus=each,
            num_gpus=int(device == "cuda"),
            max_restarts=-1,
            max_task_retries=_RETRIES,
        )
        actors = [actor.remote(replace(job, device=device), each) for _ in range(count)]
        try:
            yield from _shared(ray, actors, partitions)
        finally:
            for one in actors:
                ray.kill(one)
            _clean(partitions)


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


def _shared(ray: Any, actors: list[Any], partitions: Sequence[Partition]) -> Iterator[Outcome]:
    """The outcomes as they come; each actor gets its next partition when it has finished one."""
    free, left = deque(actors), deque(partitions)
    running: dict[Any, tuple[Any, Partition]] = {}
    while left or running:
        while left and free:
            one, partition = free.popleft(), left.popleft()
            running[one.run.remote(partition)] = one, partition
        (done, *_), _ = ray.wait(list(running), num_returns=1)
        one, partition = running.pop(done)
        free.append(one)
        try:
            yield ray.get(done)
        except ray.exceptions.RayError as error:
            if isinstance(error, ray.exceptions.RayTaskError):
                raise
            yield Outcome(
                partition,
                reason=f"{partition.source}: its worker was killed {_RETRIES + 1} times, probably "
                "for lack of memory: use fewer workers (--processes), or split the file.",
            )


@contextlib.contextmanager
def _cluster(processes: int) -> Iterator[Any]:
    """Ray, connected to a cluster: that of RAY_ADDRESS or of this machine, else a new one."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    before = signal.getsignal(signal.SIGTERM)
    try:
        try:
            ray.init(address="auto", **quiet)
        except ConnectionError as error:
            if address := os.environ.get("RAY_ADDRESS"):
                raise InputError(
                    f"RAY_ADDRESS={address}: no cluster of Ray answers there: correct or unset it."
                ) from error
            cores = processes or processors()
            ray.init(
                address="local",
                num_cpus=cores,
                object_store_memory=_STORE,
                include_dashboard=False,
                **quiet,
            )
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray sets its own
        yield ray
    finally:
        ray.shutdown()


def _clean(partitions: Sequence[Partition]) -> None:
    """Remove the unfinished files of workers that were killed."""
    for folder in {partition.target.parent for partition in partitions}:
        remove_unfinished(folder)
