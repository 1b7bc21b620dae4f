"""The memory of a training step, measured on a little of the data."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from smpgnn.config.models import CONTEXTS
from smpgnn.contexts.first_rows import FirstRows
from smpgnn.data.store import GraphStore
from smpgnn.models.registry import NetworkSpec
from smpgnn.training.network import run_network
from smpgnn.training.row_counts import count_rows, near_nodes

#: Values that an optimiser keeps per weight.
STATES = {"adamw": 2, "adam": 2, "sgd": 1}
#: Maximum graphs of a probe, and nodes of a piece of a large graph.
_GRAPHS, _NODES = 64, 512
#: Values in a tensor of its rows; buffers of GPU kernels stop growing only at larger sizes.
_VALUES = {"cpu": 1 << 16, "cuda": 1 << 20}


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


def count_parameters(spec: NetworkSpec) -> int:
    """The number of weights of a network, without allocating them."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in spec.build().parameters())


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


def widest(spec: NetworkSpec) -> int:
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
    most = max(64, values // widest(spec))
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
