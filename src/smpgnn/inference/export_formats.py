"""Writing and running programs of torch.export: AOTInductor packages and ONNX files."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from smpgnn.errors import InputError

#: The key of the metadata in both formats; its value is JSON.
METADATA = "smpgnn"
#: Steps of the binary search in ONNX, which finds places among up to 2^_STEPS numbers.
_STEPS = 32

Run = Callable[[dict[str, Tensor]], Tensor]


def write_package(program: ExportedProgram, path: Path, metadata: str) -> None:
    """Compile a package that torch alone can run."""
    from torch._inductor import aoti_compile_and_package
    from torch._inductor.exc import InvalidCxxCompiler

    configs = {"aot_inductor.metadata": {METADATA: metadata}}
    try:
        aoti_compile_and_package(program, package_path=str(path), inductor_configs=configs)
    except Exception as error:
        if isinstance(error, InvalidCxxCompiler) or "No working C++ compiler" in str(error):
            raise InputError(
                "export: a .pt2 package needs a C++ compiler: install g++ or clang, or write .onnx."
            ) from error
        raise


def run_package(path: Path) -> Run:
    """A package as a function of its inputs."""
    from torch._inductor import aoti_load_package

    loaded = aoti_load_package(str(path))

    def run(inputs: dict[str, Tensor]) -> Tensor:
        with torch.no_grad():
            result: Tensor = loaded(**inputs)
        return result

    return run


def require_onnx() -> None:
    """Raise an error if a package for ONNX is missing."""
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise InputError(f"export: ONNX needs {', '.join(missing)}: pip install 'smpgnn[export]'.")


def write_onnx(program: ExportedProgram, path: Path, metadata: str) -> None:
    """Convert a program to ONNX with torch's exporter."""
    aten = torch.ops.aten
    exported: Any = torch.onnx.export(
        program,
        dynamo=True,
        verbose=False,
        output_names=["prediction"],
        custom_translation_table={
            aten.repeat_interleave.Tensor: _repeat_interleave,
            aten.searchsorted.Tensor: _searchsorted,
            aten.sort.stable: _sort,
        },
    )
    exported.model.metadata_props[METADATA] = metadata
    exported.save(str(path), external_data=False)


def run_onnx(path: Path) -> Run:
    """An ONNX file as a function of its inputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(inputs: dict[str, Tensor]) -> Tensor:
        arrays = {name: value.cpu().numpy() for name, value in inputs.items()}
        return torch.from_numpy(session.run(None, arrays)[0])

    return run


def _repeat_interleave(repeats: Any, output_size: Any = None) -> Any:
    """The segment of each entry, for segments of these sizes.

    The translation of torch compares every entry with every segment, which takes far more memory.
    """
    from onnxscript import opset18 as op

    zero, one = (op.Constant(value_ints=[value]) for value in (0, 1))
    ends = op.CumSum(repeats, zero)
    total = op.ReduceSum(repeats, zero, keepdims=1)
    ended = op.ScatterElements(
        op.Expand(zero, op.Add(total, one)),
        ends,
        op.Expand(one, op.Shape(ends)),
        axis=0,
        reduction="add",
    )
    return op.Slice(op.CumSum(ended, zero), zero, total)


def _searchsorted(keys: Any, values: Any, **unused: Any) -> Any:
    """The first place whose key is at least the value, which ONNX lacks: a binary search."""
    from onnxscript import opset18 as op

    zero, one, two = (op.Constant(value_ints=[value]) for value in (0, 1, 2))
    size = op.Shape(keys)
    low, high = (op.Expand(bound, op.Shape(values)) for bound in (zero, size))
    last = op.Sub(size, one)
    for _ in range(_STEPS):
        middle = op.Div(op.Add(low, high), two)
        below = op.Less(op.Gather(keys, op.Min(middle, last)), values)
        searching = op.Less(low, high)
        low = op.Where(op.And(searching, below), op.Add(middle, one), low)
        high = op.Where(op.And(searching, op.Not(below)), middle, high)
    return low


def _sort(values: Any, stable: bool = True, dim: int = -1, descending: bool = False) -> Any:
    """Sorted values and their order; of equal ones, TopK takes the first before the others."""
    from onnxscript import opset18 as op

    size = op.Gather(op.Shape(values), op.Constant(value_ints=[dim]))
    return op.TopK(values, size, axis=dim, largest=int(descending), sorted=1)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the notes that the compilers print about themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = logging.root.manager.disable
        logging.disable(logging.ERROR)
        try:
            yield
        finally:
            logging.disable(before)
