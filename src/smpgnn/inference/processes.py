"""Predict for the pieces of a table in several processes, in order and in little memory."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import chain
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import torch
from torch import nn

from smpgnn.errors import InputError
from smpgnn.signals import without_interrupts
from smpgnn.threads import idle_processors
from smpgnn.training.memory import available_bytes

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.inference.predict import Model

Item = TypeVar("Item")
#: SMILES, and the columns of descriptors.
_Given: TypeAlias = "tuple[list[Any], pd.DataFrame | None]"
#: Rows of a piece: about two seconds of work.
PIECE_ROWS = 2_000
#: Tables with fewer rows are predicted in one process, because others take seconds to start.
_FEW_ROWS = 20_000
#: Memory that a process may need.
_BYTES = 1 << 30
#: What a process imports before it gets its first piece.
_MODULES = ["torch", "pandas", "rdkit.Chem", "smpgnn.inference.predict"]

#: The work of this process, if it was started by `in_processes`.
_work: Callable[..., Any]


def predicted(
    model: Model, frames: Iterable[pd.DataFrame], columns: list[str], processes: int
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Pieces of a table and their predictions, in order.

    On a GPU, the processes featurise and this one predicts; without one they do both. Each piece is
    predicted by itself, so the results do not depend on the number of processes.

    Args:
        frames: pieces of at most `PIECE_ROWS` rows.
        columns: of the SMILES, then those of descriptors.
        processes: number of processes; 0: as many as there are idle processors, for long tables.
    """
    frames = iter(frames)
    first: list[pd.DataFrame] = []
    if not processes:
        while sum(map(len, first)) < _FEW_ROWS and (frame := next(frames, None)) is not None:
            first.append(frame)
        processes = suitable_processes() if sum(map(len, first)) >= _FEW_ROWS else 1
    pieces = ((frame, _given(frame, columns)) for frame in chain(first, frames))
    if processes == 1:
        for frame, given in pieces:
            yield frame, model.predict_smiles(*given)
    elif model.device.type == "cpu":
        for frame, found in in_processes(model.predict_smiles, pieces, processes):
            yield frame, found
    else:
        for frame, found in in_processes(_without_network(model).featurize, pieces, processes):
            yield frame, model.predict_molecules(found, len(frame))


def _given(frame: pd.DataFrame, columns: list[str]) -> _Given:
    """The SMILES, and the table of descriptors if there are any."""
    smiles, *descriptors = columns
    return frame[smiles].tolist(), frame[descriptors] if descriptors else None


def suitable_processes() -> int:
    """As many processes as there are idle processors and memory."""
    room = int(available_bytes(torch.device("cpu")) // (2 * _BYTES))
    return max(1, min(idle_processors(), room))


def _without_network(model: Model) -> Model:
    """A model that can featurise, for another process."""
    light = copy.copy(model)
    light.network = nn.Identity()
    light.saved = replace(model.saved, network=light.network)
    return light


def in_processes(
    work: Callable[..., Any], pieces: Iterable[tuple[Item, tuple[Any, ...]]], processes: int
) -> Iterator[tuple[Item, Any]]:
    """Items and the results of `work` for what comes with them, in order; few are under way."""
    others = set(multiprocessing.active_children())
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload(_MODULES)
    pool = ProcessPoolExecutor(processes, context, _start, (pickle.dumps(work),))
    waiting: deque[tuple[Item, Future[bytes]]] = deque()
    try:
        for item, given in pieces:
            with without_interrupts():  # the processes inherit this
                waiting.append((item, pool.submit(_run, given)))
            if len(waiting) > 2 * processes:
                yield _next(waiting)
        while waiting:
            yield _next(waiting)
    except BrokenProcessPool as error:
        raise InputError(
            f"one of the {processes} processes was killed, probably for lack of memory: use fewer "
            "(--processes 1)."
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        started = set(multiprocessing.active_children()) - others
        for process in started:
            process.terminate()
        for process in started:
            process.join(5)


def _next(waiting: deque[tuple[Item, Future[bytes]]]) -> tuple[Item, Any]:
    item, future = waiting.popleft()
    return item, pickle.loads(future.result())


def _start(work: bytes) -> None:
    """Prepare a process: it has one thread, and ends with the process that started it."""
    global _work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    _work = pickle.loads(work)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _run(given: tuple[Any, ...]) -> bytes:
    """The result as bytes: tensors would be shared by open files, of which there may be few."""
    return pickle.dumps(_work(*given))
