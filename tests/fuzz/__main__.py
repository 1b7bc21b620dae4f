"""Run the fuzzer: python -m fuzz [--format NAME ...] [--minutes M] [--seed S] [--case N]."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fuzz.driver import Driver, Failure
from fuzz.formats import FORMATS
from fuzz.models import make_models

_FAILURES = 10  # exit status of a process that has found failures


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    add = parser.add_argument
    add("--format", nargs="+", choices=FORMATS, default=list(FORMATS), help="default: all")
    add("--minutes", type=float, default=1.0, help="for each format (default: 1)")
    add("--seed", type=int, default=None, help="default: from the clock")
    add("--case", type=int, help="the number of one case to try alone")
    add("--failures", type=Path, default=Path("fuzz-failures"), help="folder of reproductions")
    add("--models", type=Path, help=argparse.SUPPRESS)  # of a process for one format
    add("--scratch", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = time.time_ns() // 10**9 % 10**6
    if arguments.models is not None:
        return _one(arguments)
    print(f"seed {arguments.seed}, {arguments.minutes:g} minutes a format", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        make_models(Path(folder))
        statuses = [_in_process(arguments, name, Path(folder)) for name in arguments.format]
    return max(statuses)


def _in_process(arguments: argparse.Namespace, name: str, models: Path) -> int:
    """Fuzz one format in a separate process: after a crash, keep the case that caused it."""
    memory = Path("/dev/shm")  # many small files: not on a disk
    parent = str(memory) if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=parent) as scratch:
        words = [sys.executable, "-m", "fuzz", "--format", name, "--models", str(models)]
        words += ["--scratch", scratch, "--minutes", str(arguments.minutes)]
        words += ["--seed", str(arguments.seed), "--failures", str(arguments.failures)]
        words += [] if arguments.case is None else ["--case", str(arguments.case)]
        status = subprocess.run(words).returncode
        if status in (0, _FAILURES):
            return int(status == _FAILURES)
        kept = arguments.failures / f"{name}-{arguments.seed}-crash"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(scratch, kept, symlinks=True)
        print(f"{name}: the process ended with status {status}: {kept}", flush=True)
        return 1


def _one(arguments: argparse.Namespace) -> int:
    import torch

    torch.set_num_threads(1)
    name = arguments.format[0]
    driver = Driver(arguments.models, arguments.failures, arguments.scratch)
    report = driver.run(
        name,
        FORMATS[name](arguments.models),
        seconds=60 * arguments.minutes,
        seed=arguments.seed,
        first=arguments.case or 0,
        most=None if arguments.case is None else 1,
    )
    print(report.line())
    for failure in report.failures.values():
        print(described(failure), flush=True)
    return _FAILURES if report.failures else 0


def described(failure: Failure) -> str:
    """Summarise a failure in two lines."""
    text = (failure.outcome.error or failure.outcome.err).strip().splitlines()
    last = text[-1][:200] if text else ""
    times = f" ({failure.times} times)" if failure.times > 1 else ""
    return f"  case {failure.number}{times}: {failure.what}: {last}\n    {failure.folder}"


if __name__ == "__main__":
    sys.exit(main())
