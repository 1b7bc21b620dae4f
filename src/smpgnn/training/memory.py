"""Memory: whether a training step will fit, by a probe on little data, and the peak of a run."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from smpgnn.config.models import CONTEXTS
from smpgnn.contexts.first_rows import FirstRows
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.models.registry import NetworkSpec
from smpgnn.training.network import run_network
from smpgnn.training.row_counts import context_rows, count_rows, near_nodes

#: Values that an optimiser keeps per weight.
STATES = {"adamw": 2, "adam": 2, "sgd": 1}
#: Maximum graphs of a probe, and nodes of a piece of a large graph.
_GRAPHS, _NODES = 64, 512
#: Values in a tensor of its rows; buffers of GPU kernels stop growing only at larger sizes.
_VALUES = {"cpu": 1 << 16, "cuda": 1 << 20}
#: Tensors as wide as the rows: more than any layer keeps, and those of inference.
_AMPLE, _TEMPORARY = 64, 8
#: Bytes that are always free.
_LITTLE = 1 << 29


@dataclass(frozen=True)
class StepMemory:
    """Bytes of a training step: per row, per message between rows, and per batch."""

    per_row: float
    per_message: float
    fixed: float

    def of(self, counts: Tensor) -> Tensor:
        """Bytes of graphs from their rows and messages (`count_rows`). Shapes: [G, 2] to [G]."""
        return self.per_row * counts[:, 0] + self.per_message * counts[:, 1]

    def of_batch(self, counts: Tensor, batch_size: int, limited: Tensor, batch_rows: int) -> int:
        """Bytes of the largest possible batch: the graphs that need most, together.

        `batch_rows` limits the sum of `limited`, [G], as in training (0: no limit); every batch has
        at least one graph.
        """
        most = torch.topk(self.of(counts), min(batch_size, len(counts)))
        limited = limited.cpu()[most.indices]
        share = max(batch_rows, int(limited[0])) / max(1, int(limited.sum()))
        return int(self.fixed + float(most.values.sum()) * (min(1.0, share) if batch_rows else 1.0))


def available_bytes(device: torch.device) -> int:
    """Free memory of the device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    there = 1024 * _kib("/proc/meminfo", "MemAvailable:")
    if there == 0:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    group = Path("/sys/fs/cgroup")  # the limit of a container, if there is one
    with contextlib.suppress(OSError, ValueError):
        limit = int((group / "memory.max").read_text())
        there = min(there, limit - int((group / "memory.current").read_text()))
    return there


def room(device: torch.device) -> float:
    """Bytes that a step may take: most of the free memory."""
    return 0.9 * available_bytes(device)


def reset_peak(device: torch.device) -> None:
    """Start measuring `peak_mib` anew."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with contextlib.suppress(OSError):  # "5" resets the peak and nothing else
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_mib(device: torch.device) -> float:
    """Peak memory since `reset_peak`: of tensors on a GPU, else of the whole process.

    0 if the system does not report it.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return _kib("/proc/self/status", "VmHWM:") / 2**10


def _kib(path: str, name: str) -> int:
    """An entry of a file in /proc; 0 if there is none."""
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(name):
                return int(line.split()[1])
    return 0


def count_parameters(spec: NetworkSpec) -> int:
    """The number of weights of a network, without allocating them."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in spec.build().parameters())


def check_memory(
    store: GraphStore,
    spec: NetworkSpec,
    batch_size: int,
    batch_rows: int,
    device: torch.device,
    *,
    optimizer: str = "adamw",
    precision: str = "float32",
) -> None:
    """Refuse a batch size whose contexts will not fit, before training starts.

    If memory is ample, or far too small for the contexts of a graph, their size alone decides;
    otherwise a probe does.
    """
    counts, limited = count_rows(store, spec), context_rows(store.num_nodes, spec)
    there = available_bytes(device)
    weights = 4.0 * count_parameters(spec) * (2 + STATES[optimizer])
    ample = 4.0 * _width(spec) * _AMPLE * (spec.options.num_layers + 1)
    if StepMemory(ample, ample, weights).of_batch(counts, batch_size, limited, batch_rows) < there:
        return
    number = 2.0 if precision == "bfloat16" else 4.0
    need = StepMemory(number * spec.options.hidden_channels * spec.options.num_layers, 0.0, weights)
    if need.of_batch(counts, 1, limited, 0) <= there:
        need = probe(store, spec, device, counts, optimizer=optimizer, precision=precision)
    one, batch = (need.of_batch(counts, k, limited, batch_rows) for k in (1, batch_size))
    free = f"but {there / 2**30:.1f} GiB are free on {device.type}"
    smaller = "use --checkpoint, --identifiers neighborhood or a smaller network"
    if one > there:
        largest = int(store.num_nodes[need.of(counts).argmax()])
        raise InputError(
            f"the contexts of the largest graph, of {largest} nodes, need about "
            f"{one / 2**30:.1f} GiB in training, {free}: leave it out, or {smaller}."
        )
    if batch > there:
        raise InputError(
            f"the contexts of a batch may need {batch / 2**30:.1f} GiB, {free}: lower "
            f"--batch-size (now {batch_size}), lower or set --batch-rows, or {smaller}."
        )


def fitting_rows(
    store: GraphStore, spec: NetworkSpec, device: torch.device, *, precision: str = "float32"
) -> int:
    """The `batch_rows` with which a step takes about half of the free memory."""
    units, counts = context_rows(store.num_nodes, spec), count_rows(store, spec)
    half = 0.5 * available_bytes(device)
    need = probe(store, spec, device, counts, precision=precision)
    each = float(need.of(counts).sum()) / max(1, int(units.sum()))
    return max(int(units.max()), int((half - need.fixed) / max(each, 1.0)))


def inference_bytes(store: GraphStore, spec: NetworkSpec, *, gradients: bool = False) -> float:
    """Approximate bytes of a prediction for all graphs together; 0 if they are surely few.

    With `gradients`, the values of all layers are kept.
    """
    square = store.num_nodes.double().square()
    tensor = 4.0 * max(spec.options.hidden_channels, spec.in_channels, spec.edge_channels)
    if square.sum().item() * tensor * (spec.options.num_layers + 20) < _LITTLE:
        return 0.0
    tensors = _TEMPORARY * (1 + spec.options.num_layers * gradients)
    need = StepMemory(64 + tensors * tensor, 64, 0)  # 64: indices of a row, and of a message
    dense = 64 * square.max().item() if spec.options.model == "dgn" else 0.0
    return float(need.of(count_rows(store, spec)).sum()) + dense


def probe(
    store: GraphStore,
    spec: NetworkSpec,
    device: torch.device,
    counts: Tensor,
    *,
    optimizer: str = "adamw",
    precision: str = "float32",
) -> StepMemory:
    """Measure training steps of a new network on a few of the largest graphs.

    The batch has the graphs twice, four times, and twice with every edge doubled. This separates
    the bytes of rows, of messages, and of what does not grow. The caller's random state is kept.

    Args:
        store: the training graphs.
        counts: their rows and messages, [G, 2], as `count_rows` gives them.
    """
    sample = _sample(store, spec, counts, _VALUES[device.type])
    rows, messages = count_rows(sample, spec).sum(0).tolist()
    on_gpu = device.type == "cuda"

    def peak(copies: int, edges: int) -> int:
        return step_bytes(_repeated(sample, copies, edges), spec, device, precision)

    with torch.random.fork_rng(devices=[device] if on_gpu else []), torch.enable_grad():
        if on_gpu:  # the first step also allocates workspaces of libraries
            peak(2, 1)
        two, four, doubled = peak(2, 1), peak(4, 1), peak(2, 2)
    if on_gpu:
        torch.cuda.empty_cache()
    per_message = max(0.0, (doubled - two) / max(1.0, 2 * messages))
    per_row = max(0.0, ((four - two) / 2 - per_message * messages) / max(1.0, rows))
    fixed = max(0.0, two - 2 * (per_row * rows + per_message * messages))
    states = 4.0 * count_parameters(spec) * STATES[optimizer]
    return StepMemory(per_row, per_message, fixed + states)


def step_bytes(
    store: GraphStore, spec: NetworkSpec, device: torch.device, precision: str = "float32"
) -> int:
    """The peak of one step on all graphs of a store, without optimiser states."""
    with live_bytes(device) as peak:
        network = spec.build().to(device)
        batch = store.batch().to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            outputs = tree_leaves(run_network(network, batch))
            torch.autograd.backward([output.float().square().mean() for output in outputs])
    return peak[0]


@contextlib.contextmanager
def live_bytes(device: torch.device) -> Iterator[list[int]]:
    """Measure the peak of the tensors made inside, in bytes: the only entry of the list."""
    peak = [0]
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield peak
        peak[0] = torch.cuda.max_memory_allocated(device) - before
    else:
        with _Tracker(peak):
            yield peak


class _Tracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tracks the storage of all tensors that operations return, until it is freed."""

    def __init__(self, peak: list[int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak, self.live = peak, 0
        self.known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, Tensor):
                self._follow(value.untyped_storage())
        return result

    def _follow(self, storage: torch.UntypedStorage) -> None:
        if storage._cdata in self.known:
            return
        self.known.add(storage._cdata)
        self.live += storage.nbytes()
        self.peak[0] = max(self.peak[0], self.live)
        weakref.finalize(storage, self._free, storage._cdata, storage.nbytes())

    def _free(self, address: int, size: int) -> None:
        self.known.discard(address)
        self.live -= size


def _first_channels(spec: NetworkSpec) -> int:
    """The width of the initial rows."""
    if spec.options.model not in CONTEXTS:
        return 1 + spec.in_channels
    marks = 2 if spec.options.identifiers == "pairs" else 1
    return FirstRows.of(spec.options).channels(spec.in_channels, spec.edge_channels, marks)


def _width(spec: NetworkSpec) -> int:
    """Maximum number of values per row, node or edge in any layer."""
    return max(
        spec.options.hidden_channels,
        _first_channels(spec),
        spec.edge_channels,
        spec.options.extractor_channels or 4 * spec.options.hidden_channels,
        spec.max_nodes if spec.options.model == "rp" else 0,  # one-hot identifiers
    )


def _sample(store: GraphStore, spec: NetworkSpec, counts: Tensor, values: int) -> GraphStore:
    """The largest graphs, as few as make a quick probe, or a piece of the largest one."""
    most = max(64, values // _width(spec))
    top = torch.topk(counts.sum(1), min(_GRAPHS, len(counts)))
    few = top.indices[: max(1, int((top.values.cumsum(0) <= 4 * most).sum()))]
    sample = store.select(few.to(store.device))
    if float(top.values[0]) <= 4 * most:
        return sample
    nodes = int(sample.node_ptr[-1])
    context = float(counts[few[0], 0]) / nodes
    return _piece(sample, min(nodes, _NODES, int(max(most**0.5, most / context))))


def _piece(store: GraphStore, count: int) -> GraphStore:
    """`count` nodes of a single graph, close to a few of them, and the edges between them."""
    chosen = near_nodes(store.edge_index, int(store.node_ptr[-1]), count)
    inside = chosen[store.edge_index].all(0)
    number = chosen.cumsum(0) - 1
    return GraphStore(
        store.node_ptr.new_tensor([0, count]),
        store.edge_ptr.new_tensor([0, int(inside.sum())]),
        number[store.edge_index[:, inside]],
        x=None if store.x is None else store.x[chosen],
        edge_attr=None if store.edge_attr is None else store.edge_attr[inside],
        u=store.u,
    )


def _repeated(store: GraphStore, copies: int, edges: int) -> GraphStore:
    """Every graph `copies` times, with each edge `edges` times."""
    graphs = store.select(torch.arange(len(store), device=store.device).repeat(copies))
    attributes = graphs.edge_attr
    return replace(
        graphs,
        edge_ptr=edges * graphs.edge_ptr,
        edge_index=graphs.edge_index.repeat_interleave(edges, dim=1),
        edge_attr=None if attributes is None else attributes.repeat_interleave(edges, dim=0),
    )
