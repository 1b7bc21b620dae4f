"""Compare the accuracy of smpgnn and chemprop on tables of molecules, both with their defaults.

    python benchmarks/accuracy.py train --chemprop chemprop-env/bin/chemprop --jobs 12
    python benchmarks/accuracy.py table

Each model is a command of its own: same rows, same splits, five members that differ by their seed.
The tables are those of the folder `molecules` in SMPGNN_DATA, each with random splits (molecules
that stand in several rows stay together) and scaffold splits. chemprop has its default number of
epochs, or 150. `train` skips finished models, so it can be stopped and started again; each leaves
a record in results/accuracy with its test predictions, which the ensembles of `table` average.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from smpgnn.data.molecule_splits import molecule_groups, molecule_split
from smpgnn.data.splits import PARTS, random_split
from smpgnn.files import write_text
from smpgnn.inference.predict import load
from smpgnn.training.run_folder import RunFolder

RECORDS = Path(__file__).resolve().parents[1] / "results" / "accuracy"
MEMBERS = 5
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Dataset:
    """A table: its columns, and the metric that compares models."""

    smiles: str
    target: str
    metric: str

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
#: Epochs of chemprop; None: its default.
TOOLS: dict[str, int | None] = {"smpgnn": None, "chemprop": None, "chemprop-150": 150}


@dataclass(frozen=True)
class Job:
    """One model."""

    data: str
    split: str
    tool: str
    member: int

    @property
    def record(self) -> Path:
        return RECORDS / self.data / self.split / f"{self.tool}-{self.member}.json"


def jobs(tools: list[str], data: list[str], splits: list[str]) -> Iterator[Job]:
    """All models, first members first, so that every comparison begins early."""
    for member, split, name, tool in product(range(MEMBERS), splits, data, tools):
        yield Job(name, split, tool, member)


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


def run(job: Job, chemprop: str) -> None:
    """Train one model and write its record."""
    about, start = DATASETS[job.data], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        frame = split_table(job.data, job.split)
        frame.to_csv(place / "data.csv", index=False)
        if job.tool == "smpgnn":
            words = [
                sys.executable, "-m", "smpgnn", "train", "molecules", place / "data.csv",
                "--smiles-column", about.smiles, "--targets", about.target, "--seed", job.member,
                "--split-column", "split", "--no-baseline", "--output", place / "run",
            ]  # fmt: skip
        else:
            epochs = TOOLS[job.tool]
            words = [
                chemprop, "train", "--data-path", place / "data.csv", "-s", about.smiles,
                "--target-columns", about.target, "--splits-column", "split",
                "-t", "classification" if about.metric == "auc" else "regression",
                "--pytorch-seed", job.member, "-o", place / "run",
                *(["--epochs", epochs] if epochs else []),
            ]  # fmt: skip
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [str(word) for word in words], env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"{job}: {done.stderr[-2000:]}")
        test = frame[frame["split"] == "test"]
        predicted = (ours if job.tool == "smpgnn" else theirs)(place / "run", about)
    real = test[about.target].to_numpy(np.float64)
    record = {
        "tool": job.tool,
        "metric": about.metric,
        "test": about.score(real, predicted),
        "wall_time_s": round(time.monotonic() - start, 1),
        "predictions": [float(f"{value:.5g}") for value in predicted],
    }
    job.record.parent.mkdir(parents=True, exist_ok=True)
    write_text(job.record, json.dumps(record) + "\n")


def ours(folder: Path, about: Dataset) -> Values:
    """Predictions for the test rows, in the order of the table; of classes that of class 1."""
    frame = pd.read_csv(RunFolder(folder).predictions).sort_values("row")
    names = load(folder, "cpu").task.columns()
    name = next(n for n in names if n.startswith("probability_") and n.endswith("_1")) if (
        about.metric == "auc"
    ) else names[0]  # fmt: skip
    return frame[name].to_numpy(np.float64)


def theirs(folder: Path, about: Dataset) -> Values:
    frame = pd.read_csv(folder / "model_0" / "test_predictions.csv")
    return frame[about.target].to_numpy(np.float64)


def compared(tools: list[str]) -> list[dict[str, Any]]:
    """One row per comparison: the mean over splits of ours and of theirs, and the paired test."""
    from scipy.stats import ttest_rel

    rows = []
    for name, kind, other, ensemble in product(
        DATASETS, ("random", "scaffold"), tools, (False, True)
    ):
        pairs = []
        for split in (one for one in SPLITS if one.startswith(kind)):
            pair = [scored(name, split, tool, ensemble) for tool in ("smpgnn", other)]
            if None not in pair:
                pairs.append(pair)
        if not pairs:
            continue
        values = np.asarray(pairs, dtype=np.float64)
        larger = DATASETS[name].metric == "auc"
        ahead = (values[:, 0] > values[:, 1]) == larger
        p = ttest_rel(*values.T).pvalue if len(pairs) > 1 else float("nan")
        rows.append(
            {
                "table": name, "splits": f"{len(pairs)} {kind}", "metric": DATASETS[name].metric,
                "models": "ensemble" if ensemble else "single", "against": other,
                "ours": statistics.fmean(values[:, 0]), "theirs": statistics.fmean(values[:, 1]),
                "ahead in": int(ahead.sum()), "p": float(p),
            }
        )  # fmt: skip
    return rows


def scored(name: str, split: str, tool: str, ensemble: bool) -> float | None:
    """The score of a split: of the ensemble of all members, or the mean over single models."""
    found = [Job(name, split, tool, member).record for member in range(MEMBERS)]
    records = [json.loads(path.read_text(encoding="utf-8")) for path in found if path.exists()]
    if not records or (ensemble and len(records) < MEMBERS):
        return None
    if not ensemble:
        return statistics.fmean(record["test"] for record in records)
    frame = split_table(name, split)
    real = frame[frame["split"] == "test"][DATASETS[name].target].to_numpy(np.float64)
    mean = np.mean([record["predictions"] for record in records], axis=0)
    return DATASETS[name].score(real, mean)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("verb", choices=("train", "table"))
    parser.add_argument("--chemprop", default="chemprop", help="its command")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--data", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=SPLITS)
    parser.add_argument("--jobs", type=int, default=1, help="models trained at a time")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no model after this time")
    parser.add_argument(
        "--ours", nargs="+", default=[], help="options of ours, as in --ours=--lr=1"
    )
    options = parser.parse_args()
    if options.verb == "table":
        frame = pd.DataFrame(compared([tool for tool in options.tools if tool != "smpgnn"]))
        print(frame.round(4).to_string(index=False))
        return
    wanted = [
        job for job in jobs(options.tools, options.data, options.splits) if not job.record.exists()
    ]
    start, done = time.monotonic(), 0

    def work(job: Job) -> str:
        if time.monotonic() - start > 60 * options.minutes:
            return "not started"
        run(job, options.chemprop)
        return f"{json.loads(job.record.read_text(encoding='utf-8'))['test']:.4f}"

    with ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(work, job): job for job in wanted}
        for future in as_completed(running):
            done += 1
            job = running[future]
            what = f"{job.data} {job.split} {job.tool} {job.member}"
            print(f"{done}/{len(wanted)} {what}: {future.result()}", flush=True)


if __name__ == "__main__":
    main()
