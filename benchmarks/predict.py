"""Time predictions for molecules on one processor: smpgnn and chemprop, both as commands.

    python benchmarks/predict.py --chemprop chemprop-env/bin/chemprop [--output predict-cpu.json]

chemprop has an environment of its own (`pip install torch chemprop==2.3.1`), with the package
`cuik_molmaker_pin` for its fast featuriser. Both tools train for one epoch with their defaults, and
smpgnn also with `--preset small`, on the lipophilicity of 4,200 molecules
(`molecules/lipophilicity.csv` in the folder `SMPGNN_DATA`), and predict for the same table. The
commands alternate. The time is that of the processor, for all processes of a command, because it
depends less on what else the machine does; the time to start is that of a table of 20 rows, and is
left out of the rate.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from smpgnn.files import write_text

#: Rows of the table that measures the time to start.
_FEW = 20
TARGET = "lipo"


@dataclass(frozen=True)
class Row:
    """One tool: seconds of processor time to start, to train an epoch, and rows per second."""

    tool: str
    start_s: float
    rows_per_s: float
    epoch_s: float | None = None


def processor_seconds(words: Sequence[str | Path]) -> float:
    """Run a command on one thread; the processor time of all its processes."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            [str(word) for word in words], stdout=printed, stderr=printed, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            printed.seek(0)
            raise SystemExit(f"{' '.join(map(str, words))}: {printed.read().decode()[-2000:]}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--chemprop", type=Path, required=True, help="its command")
    parser.add_argument("--data", type=Path, help="table with 'smiles' and 'lipo'")
    parser.add_argument("--repeat", type=int, default=3, help="timed predictions of each tool")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    data = options.data or Path(os.environ["SMPGNN_DATA"]) / "molecules/lipophilicity.csv"
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options.chemprop, data.resolve(), Path(folder), options.repeat)
    print(f"{'tool':<34}{'start s':>9}{'epoch s':>9}{'rows/s':>9}")
    for row in rows:
        epoch = "" if row.epoch_s is None else f"{row.epoch_s:.1f}"
        print(f"{row.tool:<34}{row.start_s:>9.1f}{epoch:>9}{row.rows_per_s:>9.0f}")
    if options.output:
        record = {
            "device": processor(),
            "molecules": len(pd.read_csv(data)),
            "chemprop": version(options.chemprop),
            "rows": [asdict(row) for row in rows],
        }
        write_text(options.output, json.dumps(record, indent=1) + "\n")


def measure(chemprop: Path, data: Path, folder: Path, repeat: int) -> list[Row]:
    table = pd.read_csv(data)
    few = folder / "few.csv"
    table[:_FEW].to_csv(few, index=False)
    ours: list[str | Path] = [sys.executable, "-m", "smpgnn"]
    our_train = [*ours, "train", "molecules", data, "--targets", TARGET, "--device", "cpu"]
    train: dict[str, list[str | Path]] = {
        "smpgnn": [*our_train, "--output"],
        "smpgnn, small": [*our_train, "--preset", "small", "--output"],
        "chemprop": [
            chemprop, "train", "--data-path", data, "-s", "smiles", "--target-columns", TARGET,
            "-t", "regression", "--accelerator", "cpu", "--warmup-epochs", "0", "-o",
        ],
    }  # fmt: skip
    # an epoch: the difference of two runs; predictions are those of the first
    epochs, runs = {}, {}
    for name, words in train.items():
        folders = {count: folder / f"{name.replace(', ', '-')}{count}" for count in (1, 3)}
        seconds = [
            processor_seconds([*words, place, "--epochs", str(count)])
            for count, place in folders.items()
        ]
        epochs[name], runs[name] = (seconds[1] - seconds[0]) / 2, folders[1]
    theirs: list[str | Path] = [
        chemprop, "predict", "-s", "smiles", "--accelerator", "cpu",
        "--model-paths", runs["chemprop"] / "model_0/best.pt", "--preds-path", folder / "c.csv",
    ]  # fmt: skip

    def our_words(name: str, path: Path) -> list[str | Path]:
        return [
            *ours, "predict", runs[name], path, "-o", folder / "o.csv", "--device", "cpu",
            "--processes", "1",
        ]  # fmt: skip

    tools: dict[str, Callable[[Path], list[str | Path]]] = {
        "smpgnn": lambda path: our_words("smpgnn", path),
        "smpgnn, small": lambda path: our_words("smpgnn, small", path),
        "chemprop": lambda path: [*theirs, "--test-path", path],
        "chemprop, fast featuriser": lambda path: [
            *theirs, "--test-path", path, "--use-cuikmolmaker-featurization",
        ],
    }  # fmt: skip
    times: dict[str, dict[Path, list[float]]] = {name: {few: [], data: []} for name in tools}
    for _ in range(repeat):
        for path in (few, data):
            for name, command in tools.items():
                times[name][path].append(processor_seconds(command(path)))
    found = []
    for name, of in times.items():
        start, whole = (statistics.median(of[path]) for path in (few, data))
        found.append(Row(name, start, (len(table) - _FEW) / (whole - start), epochs.get(name)))
    return found


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)


def version(chemprop: Path) -> str:
    python = chemprop.resolve().parent / "python"
    code = "from importlib.metadata import version; print(version('chemprop'))"
    return subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    main()
