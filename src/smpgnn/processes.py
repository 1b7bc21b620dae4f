"""Work on the pieces of a long table in several processes, in order and in little memory."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Any, TypeVar

import torch

from smpgnn.errors import InputError
from smpgnn.signals import no_script, without_interrupts
from smpgnn.threads import idle_processors

Item = TypeVar("Item")
Found = TypeVar("Found")
#: Rows of a piece: about two seconds of predictions.
PIECE_ROWS = 2_000
#: Tables with fewer rows take one process, because others take seconds to start.
FEW_ROWS = 20_000
#: Memory that a process may need.
_BYTES = 1 << 30
#: What a process imports before it gets its first piece.
_MODULES = ["torch", "pandas", "rdkit.Chem", "smpgnn.inference.predict"]

#: The work of this process, if it was started by `in_processes`.
_work: Callable[..., Any]


def in_pieces(
    work: Callable[[Any], Found], rows: Sequence[Any], processes: int = 0
) -> Iterator[tuple[int, Found]]:
    """Where each piece of the rows starts, and the result of `work` for it, in order.

    Args:
        work: takes a list of rows; it must be importable by name from other processes.
        rows: of a table.
        processes: number of processes; 0: as many as there are idle processors, for long tables.
    """
    processes = processes or (suitable_processes() if len(rows) >= FEW_ROWS else 1)
    pieces = (
        (start, (list(rows[start : start + PIECE_ROWS]),))
        for start in range(0, len(rows), PIECE_ROWS)
    )
    if processes == 1:
        for start, given in pieces:
            yield start, work(*given)
    else:
        yield from in_processes(work, pieces, processes, "free some memory.")


def suitable_processes() -> int:
    """As many processes as there are idle processors and memory."""
    from smpgnn.training.memory import available_bytes

    room = int(available_bytes(torch.device("cpu")) // (2 * _BYTES))
    return max(1, min(idle_processors(), room))


def in_processes(
    work: Callable[..., Any],
    pieces: Iterable[tuple[Item, tuple[Any, ...]]],
    processes: int,
    remedy: str = "use fewer (--processes 1).",
) -> Iterator[tuple[Item, Any]]:
    """Items and the results of `work` for what comes with them, in order; few are under way.

    `remedy` says what to do if the memory runs out.
    """
    others = set(multiprocessing.active_children())
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload(_MODULES)
    pool = ProcessPoolExecutor(processes, context, _start, (pickle.dumps(work),))
    waiting: deque[tuple[Item, Future[bytes]]] = deque()
    try:
        for item, given in pieces:
            with without_interrupts(), no_script():  # the processes inherit this
                waiting.append((item, pool.submit(_run, given)))
            if len(waiting) > 2 * processes:
                yield _next(waiting)
        while waiting:
            yield _next(waiting)
    except BrokenProcessPool as error:
        raise InputError(
            f"one of the {processes} processes was killed, probably for lack of memory: {remedy}"
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
