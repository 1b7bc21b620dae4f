"""How a function becomes an operator of torch."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from torch import Tensor


def operator(name: str, mutates: tuple[str, ...] = ()) -> Any:
    """Register a function as an operator; it runs on the GPU of its first tensor."""

    def register(function: Any) -> Any:
        @wraps(function)
        def on_its_device(*arguments: Any) -> Any:
            with torch.cuda.device_of(next(a for a in arguments if isinstance(a, Tensor))):
                return function(*arguments)

        return torch.library.custom_op(f"smpgnn::{name}", on_its_device, mutates_args=mutates)

    return register
