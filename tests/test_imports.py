"""What imports leave out: packages that take long and are not always needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = {"torch._dynamo", "torchmetrics", "pytorch_lightning", "torch_geometric", "scipy", "sklearn",
        "matplotlib", "networkx", "optuna", "ray"}  # fmt: skip


@pytest.mark.parametrize(
    ("code", "more"),
    [
        ("import smpgnn; from smpgnn.cli.main import build_parser; build_parser()", {"torch"}),
        ("from smpgnn import SMP; import smpgnn.inference.predict", set()),
    ],
)
def test_slow_packages_are_imported_late(code: str, more: set[str]) -> None:
    code += f"; import sys; print(sorted({SLOW | more!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
