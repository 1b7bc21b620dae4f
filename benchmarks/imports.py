"""Time until imports and commands are ready: what a user waits for before any work begins.

    python benchmarks/imports.py [--output imports-cpu.json]

Each call runs in a process of its own, on one thread, until it ends or prints its first line. The
time is that of the processor, of which the least of several calls counts: it depends little on what
else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from smpgnn.files import write_text

#: Statements, as one word, and command lines.
CALLS: dict[str, Sequence[str]] = {
    "import torch": ("import torch",),
    "import torch, pandas, rdkit": ("import torch, pandas, rdkit.Chem",),
    "import smpgnn": ("import smpgnn",),
    "from smpgnn import SMP": ("from smpgnn import SMP",),
    "smpgnn.load": ("import smpgnn; smpgnn.load",),
    **{
        f"smpgnn {verb} --help": (*verb.split(), "--help")
        for verb in (
            "", "train", "train molecules", "tune", "evaluate", "predict", "explain", "embed",
            "info", "paper",
        )
    },
    "smpgnn info zinc": ("info", "zinc"),
    "smpgnn predict": ("predict", "zinc", "data.csv", "-o", "out.csv", "--device", "cpu"),
    "smpgnn explain": ("explain", "zinc", "data.csv", "-o", "out.csv", "--device", "cpu"),
    "smpgnn embed": ("embed", "zinc", "data.csv", "-o", "out.csv", "--device", "cpu"),
    "smpgnn train": ("train", "molecules", "data.csv", "--targets", "y", "--device", "cpu"),
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """Seconds of processor time of a call."""

    call: str
    seconds: float


def ready_s(words: Sequence[str], folder: str) -> float:
    """Processor time of a call until its first line, or its end."""
    code = ["-c", *words] if len(words) == 1 and " " in words[0] else ["-m", "smpgnn", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, *code],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=folder,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)  # it may have ended already, but not been waited for
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode > 0:
        raise SystemExit(f"{' '.join(words)}: {line.decode()}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--repeat", type=int, default=5, help="calls of each")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        lines = [f"{'C' * (1 + n % 9)}{'NO'[n % 2]},{n % 9}" for n in range(60)]
        Path(folder, "data.csv").write_text("\n".join(["smiles,y", *lines, ""]))
        for name, words in CALLS.items():
            words = [word for word in words if word]
            rows.append(Row(name, min(ready_s(words, folder) for _ in range(options.repeat))))
            print(f"{name:<34}{rows[-1].seconds:>7.2f} s")
    if options.output:
        record = {"python": sys.version.split()[0], "rows": [asdict(row) for row in rows]}
        write_text(options.output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
