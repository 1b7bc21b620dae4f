"""What the comparisons on tables of molecules share: tables with splits, runs, many at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from smpgnn.data.molecule_splits import molecule_groups, molecule_split
from smpgnn.data.splits import PARTS, random_split
from smpgnn.errors import InputError
from smpgnn.training.run_folder import RunFolder

RESULTS = Path(__file__).resolve().parents[1] / "results"
Values = NDArray[np.float64]
J = TypeVar("J")


@dataclass(frozen=True)
class Dataset:
    """A table: its columns, and the metric that compares models."""

    smiles: str
    target: str
    metric: str

    @property
    def larger_is_better(self) -> bool:
        return self.metric == "auc"

    def score(self, real: Values, predicted: Values) -> float:
        if self.metric == "auc":
            return float(roc_auc_score(real, predicted))
        return float(np.sqrt(np.mean((real - predicted) ** 2)))


DATASETS = {
    "esol": Dataset("smiles", "logp", "rmse"),
    "lipophilicity": Dataset("smiles", "lipo", "rmse"),
    "bace": Dataset("mol", "Class", "auc"),
}
SPLITS = [f"{kind}-{seed}" for kind, seed in product(("random", "scaffold"), range(5))]


def split_table(name: str, split: str) -> pd.DataFrame:
    """A table with the column 'split': train, val or test."""
    about = DATASETS[name]
    frame = pd.read_csv(Path(os.environ["SMPGNN_DATA"]) / "molecules" / f"{name}.csv")
    smiles, (kind, seed) = frame[about.smiles].tolist(), split.split("-")
    if kind == "random":
        parts = random_split(len(frame), seed=int(seed), groups=molecule_groups(smiles)[0])
    else:
        parts = molecule_split("scaffold", smiles, seed=int(seed))
    for part, rows in zip(PARTS, parts, strict=True):
        frame.loc[rows.numpy(), "split"] = part
    return frame[[about.smiles, about.target, "split"]]


def command(words: Sequence[object]) -> None:
    """Run a command on one thread; if it fails, raise the end of what it printed."""
    done = subprocess.run(
        [str(word) for word in words],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise InputError(f"{' '.join(map(str, words))}: {done.stderr.strip()[-2000:]}")


@contextmanager
def our_run(frame: pd.DataFrame, about: Dataset, seed: int, *words: object) -> Iterator[RunFolder]:
    """The run of `smpgnn train` with a split table and more options; it is deleted afterwards."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        frame.to_csv(place / "data.csv", index=False)
        command(
            [
                sys.executable, "-m", "smpgnn", "train", "molecules", place / "data.csv",
                "--smiles-column", about.smiles, "--targets", about.target, "--seed", seed,
                "--split-column", "split", "--no-baseline", "--no-report",
                "--output", place / "run", *words,
            ]
        )  # fmt: skip
        yield RunFolder(place / "run")


def add_arguments(parser: ArgumentParser) -> None:
    """The options of `run_all`."""
    parser.add_argument("--jobs", type=int, default=1, help="models trained at a time")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no model after this time")


def run_all(jobs: Sequence[J], work: Callable[[J], str], at_a_time: int, minutes: float) -> None:
    """Do the work of each job and print what it returns; after an error start no more."""
    end = time.monotonic() + 60 * minutes

    def start(job: J) -> str:
        return work(job) if time.monotonic() < end else "not started"

    with ThreadPoolExecutor(at_a_time) as pool:
        running = {pool.submit(start, job): job for job in jobs}
        try:
            for number, future in enumerate(as_completed(running), 1):
                print(f"{number}/{len(jobs)} {running[future]}: {future.result()}", flush=True)
        except InputError as error:
            pool.shutdown(cancel_futures=True)
            raise SystemExit(str(error)) from error
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
