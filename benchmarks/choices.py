"""Compare settings of `smpgnn train molecules` on validation rows, to choose its defaults.

    python benchmarks/choices.py train --jobs 12 [--variants default huber]
    python benchmarks/choices.py table

The tables and splits are those of benchmarks/accuracy.py, but the test rows are left out: no run
sees them, so they stay unseen until the choice is made. `train` skips what has a record in
results/choices, so it can be stopped and started again. `table` shows the mean best validation
metric of each variant, and on how many splits it is better than the defaults.
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

import pandas as pd
from molecule_runs import DATASETS, RESULTS, SPLITS, add_arguments, our_run, run_all, split_table

from smpgnn.files import write_text

RECORDS = RESULTS / "choices"
#: The variants and their options; the first one has the defaults.
VARIANTS: dict[str, tuple[str, ...]] = {
    "default": (),
    "mse": ("--loss", "mse"),
    "huber": ("--loss", "huber"),
    "mae+huber": ("--loss", "mae+huber"),
    "rate 1e-3": ("--lr", "1e-3"),
    "rate 5e-4": ("--lr", "5e-4"),
    "dropout": ("--dropout", "0.2"),
    "weight decay": ("--weight-decay", "0.01"),
    "dropout, weight decay": ("--dropout", "0.2", "--weight-decay", "0.01"),
    "radius 2": ("--context-radius", "2"),
    "small": ("--preset", "small"),
    "descriptors": ("--descriptors", "rdkit"),
    "inside": ("--terms", "inside"),
    "distance and bond": ("--first-rows", "distance", "bond"),
}
#: What a record takes from run.json.
KEPT = ("validation", "epochs", "best_epoch", "parameters", "device", "wall_time_s", "versions",
        "commit")  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One run."""

    data: str
    split: str
    variant: str

    def __str__(self) -> str:
        return f"{self.data} {self.split} {self.variant}"

    @property
    def record(self) -> Path:
        name = self.variant.replace(", ", "-").replace(" ", "-")
        return RECORDS / self.data / self.split / f"{name}.json"

    @property
    def applies(self) -> bool:
        """Whether the variant differs from the defaults on this table."""
        return "--loss" not in VARIANTS[self.variant] or DATASETS[self.data].metric == "rmse"


def jobs(variants: Sequence[str], data: Sequence[str], splits: Sequence[str]) -> Iterator[Job]:
    """All runs, split by split, so that every comparison begins early."""
    for split, name, variant in product(splits, data, variants):
        job = Job(name, split, variant)
        if job.applies:
            yield job


def run(job: Job, more: Sequence[str]) -> str:
    """Train one network and write its record; its validation metric as text."""
    about, frame = DATASETS[job.data], split_table(job.data, job.split)
    options = [*VARIANTS[job.variant], *more]
    with our_run(frame[frame["split"] != "test"], about, 0, *options) as folder:
        found = folder.read_record()
    content = {**vars(job), "metric": about.metric, "options": options}
    job.record.parent.mkdir(parents=True, exist_ok=True)
    content |= {name: found[name] for name in KEPT}
    write_text(job.record, json.dumps(content, indent=1) + "\n")
    return f"{found['validation'][about.metric]:.4f}"


def compared() -> list[dict[str, Any]]:
    """One row per table, kind of split and variant, over the splits that the defaults have, too."""
    first, rows = next(iter(VARIANTS)), []
    for name, kind, variant in product(DATASETS, ("random", "scaffold"), VARIANTS):
        about, pairs = DATASETS[name], []
        for split in (split for split in SPLITS if split.startswith(kind)):
            paths = [Job(name, split, which).record for which in (first, variant)]
            if all(path.exists() for path in paths):
                pair = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
                pairs.append([record["validation"][about.metric] for record in pair])
        if pairs:
            better = sum((b > a) == about.larger_is_better and a != b for a, b in pairs)
            rows.append(
                {
                    "table": name, "splits": f"{len(pairs)} {kind}", "metric": about.metric,
                    "variant": variant, "validation": statistics.fmean(b for _, b in pairs),
                    "defaults": statistics.fmean(a for a, _ in pairs),
                    "better in": "" if variant == first else f"{better} of {len(pairs)}",
                }
            )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("verb", choices=("train", "table"))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--data", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=SPLITS)
    parser.add_argument("--more", nargs="+", default=[], help="as in --more=--device=cpu")
    add_arguments(parser)
    options = parser.parse_args()
    if options.verb == "table":
        print(pd.DataFrame(compared()).round(4).to_string(index=False))
        return
    wanted = [
        job
        for job in jobs(options.variants, options.data, options.splits)
        if not job.record.exists()
    ]
    run_all(wanted, lambda job: run(job, options.more), options.jobs, options.minutes)


if __name__ == "__main__":
    main()
