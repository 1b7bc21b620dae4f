"""One captured step: CUDA graphs of its index and of the step itself.

Before the capture its results on a padded batch are compared with those on the batch itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._pytree import tree_leaves, tree_map_only

from smpgnn.capture.graphs import capture, restore_buffers, uninitialised_memory
from smpgnn.capture.pause import eager_calls, padded_calls
from smpgnn.capture.sources import Source
from smpgnn.errors import InputError

#: Relative difference of results on the padded batch from which a step counts as dependent on it.
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-2, torch.bfloat16: 0.2, torch.float16: 0.2}


class StepGraph:
    """A step captured in one mode, with one source of batches.

    Args:
        step: a function of a `PaddedBatch`.
        modules: what it trains.
        source: makes the padded batches.
        batch: the first of them.
        real: the same without padding, which shows the right results.
    """

    def __init__(
        self,
        step: Callable[[Any], Any],
        modules: nn.ModuleList,
        source: Source,
        batch: Any,
        real: Any,
    ) -> None:
        self.step, self.modules, self.source, self.result = step, modules, source, None
        #: Gradients of the parameters before and after the step, in memory that stays in place.
        self.grads: list[tuple[nn.Parameter, Tensor]] = []
        self.device = device = next(modules.parameters()).device
        parameters = [p for p in modules.parameters() if p.requires_grad]
        before = [(p, p.grad) for p in parameters]
        random = torch.cuda.get_rng_state(device)
        try:
            with eager_calls(), uninitialised_memory(), _no_cast_cache(), _no_optimiser():
                used = self._compare(batch, real, parameters)
                self.grads = [(p, torch.zeros_like(p)) for p in used]
                self._set_grads()
                source.fill(batch)
                self.cuda_graphs = capture([source.build, self._run], modules)
                # a step that itself sets gradients to None leaves others in their place
                self.sets = any(p.grad is not grad for p, grad in self.grads)
                self.grads = [(p, p.grad) for p, _ in self.grads if p.grad is not None]
        except InputError:
            raise
        except RuntimeError as error:
            reason = " ".join(str(error).split("\n")[0].split()).rstrip(".")
            raise InputError(f"the step cannot be captured: {reason}.") from error
        finally:
            for parameter, grad in before:
                parameter.grad = grad
            torch.cuda.set_rng_state(random, device)

    def take(self, batch: Any) -> bool:
        """Copy a batch and compute its index; False if it does not fit."""
        if not self.source.fits(batch):
            return False
        self.source.fill(batch)
        self.cuda_graphs[0].replay()
        return self.source.valid()

    def replay(self) -> Any:
        """The result for the batch taken before."""
        if not self.sets:
            other = [(own, p.grad) for p, own in self.grads if p.grad is not own]
            fresh = [own for own, given in other if given is None]
            there = [(own, given) for own, given in other if given is not None]
            with torch.no_grad():
                if fresh:
                    torch._foreach_zero_(fresh)
                if there:
                    torch._foreach_copy_([own for own, _ in there], [given for _, given in there])
        self._set_grads()
        self.cuda_graphs[1].replay()
        return tree_map_only(Tensor, Tensor.clone, self.result)

    def _set_grads(self) -> None:
        for parameter, grad in self.grads:
            parameter.grad = grad

    def _run(self) -> None:
        visible = self.source.visible
        with padded_calls(visible.edge_index, self.source.run):
            self.result = detached(self.step(visible))

    def _compare(self, batch: Any, real: Any, parameters: list[nn.Parameter]) -> list[nn.Parameter]:
        """Refuse a step whose results depend on padding; the parameters that get gradients.

        Dropout is turned off for the comparison. A step that draws other random numbers cannot be
        compared.
        """
        modules, device = self.modules, self.device
        dropouts = [m for m in modules.modules() if isinstance(m, nn.modules.dropout._DropoutNd)]
        rates = [m.p for m in dropouts]
        buffers = [buffer.clone() for buffer in modules.buffers()]
        found: list[tuple[list[Tensor], list[Tensor | None]]] = []
        try:
            for module in dropouts:
                module.p = 0.0
            state = torch.cuda.get_rng_state(device)
            for padded in (False, True):
                for parameter in parameters:
                    parameter.grad = None
                if padded:
                    self.source.fill(batch)
                    self.source.build()
                    self._run()
                else:
                    self.result = detached(self.step(real))
                found.append((_tensors(self.result), [p.grad for p in parameters]))
                restore_buffers(modules, buffers)
            drawn = not torch.equal(torch.cuda.get_rng_state(device), state)
        finally:
            for module, rate in zip(dropouts, rates, strict=True):
                module.p = rate
            for parameter in parameters:
                parameter.grad = None
        (results, grads), (padded_results, padded_grads) = found
        if not drawn:
            for one, other in zip(results, padded_results, strict=True):
                _same([one], [other], "result")
            _same(grads, padded_grads, "gradient")
        return [p for p, grad in zip(parameters, padded_grads, strict=True) if grad is not None]


@contextmanager
def _no_optimiser() -> Iterator[None]:
    """Refuse steps of optimisers: a captured one would keep its learning rate."""

    def refuse(*_: Any) -> None:
        raise InputError(
            "the step calls optimizer.step(), whose learning rate a capture would keep: call it "
            "after the captured step."
        )

    handle = register_optimizer_step_pre_hook(refuse)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _no_cast_cache() -> Iterator[None]:
    """No cache of casts under autocast: they would not follow the weights."""
    before = torch.is_autocast_cache_enabled()
    torch.clear_autocast_cache()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def detached(result: Any) -> Any:
    return tree_map_only(Tensor, Tensor.detach, result)


def _tensors(result: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]


def _same(expected: Sequence[Tensor | None], actual: Sequence[Tensor | None], what: str) -> None:
    """Raise an error if values differ by more than rounding, all of them together."""
    pairs = [(a, b) for a, b in zip(expected, actual, strict=True) if a is not None]
    equal = all(b is not None and a.shape == b.shape for a, b in pairs)
    if equal and pairs:
        one, other = (
            torch.cat([v.detach().flatten().double() for v in values])
            for values in zip(*pairs, strict=True)
        )
        tolerance = max(_TOLERANCE.get(a.dtype, 0.0) for a, _ in pairs)
        error, size = ((one - other).norm(), one.norm())
        equal = bool(error <= tolerance * size + 1e-9) and not bool(other.isnan().any())
    if not equal:
        raise InputError(
            f"the step cannot be captured: its {what} depends on padding nodes (a norm or pooling "
            "of your own over nodes, or a loss of nodes?): use batch.node_mask, or call the step "
            "itself."
        )
