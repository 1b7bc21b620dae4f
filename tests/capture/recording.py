"""What a captured step must not do, for tests without a GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class NothingFromPython(TorchDispatchMode):
    """Refuse tensors made of numbers of Python: on a GPU, copies that a recording cannot repeat."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.ops.aten.lift_fresh.default:
            raise RuntimeError("a tensor is made of numbers of Python.")
        return func(*args, **(kwargs or {}))
