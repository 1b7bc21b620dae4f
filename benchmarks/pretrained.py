"""Compare runs that start from a pretrained model with runs from scratch.

    python benchmarks/pretrained.py train MODEL.safetensors --jobs 12
    python benchmarks/pretrained.py table

Each table of benchmarks/accuracy.py, with 200 training rows or all, has five random splits. On each
a network is trained from scratch, from the model, and from the model with only its head trained,
with the same rows and seed; the epoch with the best validation metric is kept. `train` skips what
has a record in results/pretrained, so it can be stopped and started again. Decide by the validation
columns of `table`; the test columns are for the report.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from molecule_runs import DATASETS, RESULTS, add_arguments, our_run, run_all, split_table

from smpgnn.checksums import file_digest
from smpgnn.errors import InputError
from smpgnn.files import write_text
from smpgnn.inference.predict import load

RECORDS = RESULTS / "pretrained"
SEEDS = range(5)
#: Training and validation rows of a small table; None: all.
SIZES: dict[str, tuple[int, int] | None] = {"200": (200, 50), "all": None}
#: How runs start, and their options; MODEL stands for the file.
STARTS = {
    "scratch": (), "pretrained": ("--from", "MODEL"), "frozen": ("--from", "MODEL", "--freeze")
}  # fmt: skip
#: What a record takes from run.json.
KEPT = ("validation", "test", "epochs", "best_epoch", "parameters", "device", "wall_time_s",
        "versions", "commit")  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One run."""

    data: str
    size: str
    seed: int
    start: str

    def __str__(self) -> str:
        return f"{self.data} {self.size} {self.start} {self.seed}"

    @property
    def record(self) -> Path:
        return RECORDS / f"{self.data}-{self.size}-{self.start}-{self.seed}.json"

    def rows(self) -> pd.DataFrame:
        """The table with the column 'split'; all test rows stay."""
        frame = split_table(self.data, f"random-{self.seed}")
        size = SIZES[self.size]
        if size is None:
            return frame
        random = np.random.default_rng(self.seed)
        test = np.flatnonzero(frame["split"] == "test")
        few = [
            random.permutation(np.flatnonzero(frame["split"] == part))[:count]
            for part, count in zip(("train", "val"), size, strict=True)
        ]
        return frame.iloc[np.sort(np.concatenate([*few, test]))]


def jobs(data: Sequence[str], sizes: Sequence[str], seeds: Sequence[int]) -> Iterator[Job]:
    """All runs, first seeds first, so that every comparison begins early."""
    for seed, size, name, start in product(seeds, sizes, data, STARTS):
        yield Job(name, size, seed, start)


def origin(job: Job, model: Path, more: Sequence[str]) -> dict[str, Any]:
    """What else determines a run: the content of the model, and further options."""
    return {"model": file_digest(model) if STARTS[job.start] else "", "options": list(more)}


def run(job: Job, model: Path, more: Sequence[str]) -> str:
    """Train one network and write its record; its validation metric as text."""
    about, frame = DATASETS[job.data], job.rows()
    start = [model if word == "MODEL" else word for word in STARTS[job.start]]
    with our_run(frame, about, job.seed, *start, *more) as folder:
        found = folder.read_record()
    counts = frame["split"].value_counts().to_dict()
    record = {**vars(job), "metric": about.metric, "rows": counts, **origin(job, model, more)}
    RECORDS.mkdir(parents=True, exist_ok=True)
    content = {**record, **{name: found[name] for name in KEPT}}
    write_text(job.record, json.dumps(content, indent=1) + "\n")
    return f"validation {found['validation'][about.metric]:.4f}"


def missing(wanted: Sequence[Job], model: Path, more: Sequence[str]) -> list[Job]:
    """The runs without a record; a record of another model or other options is refused."""
    left = []
    for job in wanted:
        if not job.record.exists():
            left.append(job)
            continue
        content = json.loads(job.record.read_text(encoding="utf-8"))
        for name, value in origin(job, model, more).items():
            if content[name] != value:
                raise InputError(
                    f"{job.record}: was made with other {name}: move {RECORDS} away, or give the "
                    "same."
                )
    return left


def compared() -> list[dict[str, Any]]:
    """One row per table, size and start: means over the seeds that all starts have, and wins."""
    rows = []
    for name, size in product(DATASETS, SIZES):
        paths = [[Job(name, size, seed, start).record for start in STARTS] for seed in SEEDS]
        full = [
            [json.loads(path.read_text(encoding="utf-8")) for path in line]
            for line in paths
            if all(path.exists() for path in line)
        ]
        about = DATASETS[name]
        metric = about.metric
        for number, start in enumerate(STARTS) if full else ():
            row: dict[str, Any] = {"table": name, "rows": size, "metric": metric, "start": start}
            for part in ("validation", "test"):
                values = [[r[part][metric] for r in records] for records in full]
                row[part] = statistics.fmean(line[number] for line in values)
                sign = 1 if about.larger_is_better else -1
                wins = sum(sign * line[number] > sign * line[0] for line in values)
                row[f"wins ({part})"] = f"{wins} of {len(full)}" if number else ""
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("table", help="print the comparison")
    trains = verbs.add_parser("train", help="train what has no record")
    trains.add_argument("model", metavar="MODEL", type=Path, help="file of the pretrained model")
    trains.add_argument("--data", nargs="+", choices=DATASETS, default=list(DATASETS))
    trains.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    trains.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=list(SEEDS))
    add_arguments(trains)
    trains.add_argument(
        "--more", nargs="+", default=[], help="options of all runs, as in --more=--epochs=30"
    )
    options = parser.parse_args()
    if options.verb == "table":
        rows = compared()
        if not rows:
            parser.error(f"{RECORDS} has no seed with all {len(STARTS)} starts: train first.")
        print(pd.DataFrame(rows).round(4).to_string(index=False))
        return
    wanted = list(jobs(options.data, options.sizes, options.seeds))
    try:
        load(options.model, "cpu")  # raises if the file is no model
        left = missing(wanted, options.model, options.more)
    except InputError as error:
        raise SystemExit(str(error)) from error
    run_all(left, lambda job: run(job, options.model, options.more), options.jobs, options.minutes)


if __name__ == "__main__":
    main()
