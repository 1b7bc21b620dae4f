"""Compare the estimated memory of whole trainings on a GPU with the peaks of their records.

    python benchmarks/training_memory.py [--results results] [--output FILE]

Needs no GPU: the peaks stand in the records. Only SMP and its ablation are counted tensor by
tensor; trainings of rivals and those on a CPU are left out. Where a batch was larger than the room
of the recorded step, it had a step of its own: no more tensors at a time, for what is recorded
counts as free between its steps, but cuBLAS takes room for itself once more.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from smpgnn.capture.memory import LIBRARIES_BESIDE, recorded_memory
from smpgnn.config.catalogue import OWN_LAYERS
from smpgnn.config.options import TrainOptions, from_config
from smpgnn.files import write_text
from smpgnn.paper.experiments.records import read_records
from smpgnn.paper.experiments.tables import TABLES
from smpgnn.training.prepare import prepare
from smpgnn.training.run_folder import RunFolder


@dataclass(frozen=True)
class Row:
    """A training; sizes in MiB."""

    run: str
    estimate: float
    measured: float

    @property
    def with_larger(self) -> float:
        """The estimate where a batch was larger than the room."""
        return self.estimate + LIBRARIES_BESIDE / 2**20

    @property
    def larger_batch(self) -> bool:
        """Whether such a batch seems to have come up."""
        return abs(self.with_larger - self.measured) < abs(self.estimate - self.measured)

    @property
    def ratio(self) -> float:
        return (self.with_larger if self.larger_batch else self.estimate) / self.measured


def trainings(results: Path) -> Iterator[tuple[str, str, TrainOptions, float]]:
    """Name, device, settings and peak of every training on a GPU that is recorded step by step."""
    seen = set()
    for record in read_records(results):
        task = TABLES[record.table].task
        training = record.table, record.row, json.dumps(record.config)  # may answer several cells
        if record.memory_of == "tensors on the GPU" and training not in seen:
            seen.add(training)
            name = f"{record.table}, {record.row}, {record.cell_name}, seed {record.seed}"
            settings = from_config({**record.config, "task_type": task}, name)
            yield name, record.device, settings, record.peak_memory_mib
    for file in sorted((results / "benchmarks").rglob("run.json")):
        folder = RunFolder(file.parent)
        run = folder.read_record()
        if run["memory_of"] == "tensors on the GPU":
            name = str(folder.path.relative_to(results))
            yield name, run["device"], folder.read_options(), run["peak_memory_mib"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'training':<64}{'estimate':>9}{'measured':>9}{'ratio':>6}")
    rows, devices = [], set()
    for name, device, settings, peak in trainings(options.results):
        if settings.model not in OWN_LAYERS:
            continue
        prepared = prepare(settings)
        need = recorded_memory(
            prepared.splits,
            prepared.spec,
            settings.batch_size,
            optimizer=settings.optimizer,
            precision=settings.precision,
        )
        row = Row(name, round(need.total / 2**20, 1), peak)
        rows.append(row)
        devices.add(device)
        mark = "  larger batch" if row.larger_batch else ""
        print(
            f"{name:<64}{row.estimate:>9.1f}{peak:>9.1f}{row.ratio:>6.2f}{mark}",
            flush=True,
        )
    if options.output:
        found = [{**asdict(r), "ratio": r.ratio, "larger_batch": r.larger_batch} for r in rows]
        record = {"device": ", ".join(sorted(devices)), "rows": found}
        write_text(options.output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
