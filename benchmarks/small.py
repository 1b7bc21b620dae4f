"""What smaller networks for molecules cost in accuracy, and what they save on a CPU.

    python benchmarks/small.py FOLDER [--output small-molecules.json]

Trains the default network of `molecules` and smaller ones on ESOL (in the folder `molecules` of
SMPGNN_DATA) and compares them on its validation rows. FOLDER keeps the runs; finished ones are not
repeated. The time is that of the processor for a training step on 64 molecules of lipophilicity, on
one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from predict import processor
from step import make_step, time_ms
from workloads import Workload

from smpgnn.config.options import MoleculesOptions
from smpgnn.config.presets import SMALL
from smpgnn.data.molecules import MoleculeFeaturizer
from smpgnn.files import write_text
from smpgnn.models import SMP

EPOCHS = 40
_BATCH = 64
#: Settings of the networks that differ from the default.
NETWORKS: dict[str, dict[str, int]] = {
    "default": {},
    "48 channels, 4 layers": {"num_layers": 4},
    "32 channels, 6 layers": {"hidden_channels": 32},
    "32 channels, 6 layers, radius 2": {"hidden_channels": 32, "context_radius": 2},
    "32 channels, 4 layers": {"hidden_channels": 32, "num_layers": 4},
    "32 channels, 4 layers, radius 2": SMALL["molecules"],
}
#: Networks with two seeds; the others have one.
_TWICE = ("default", "32 channels, 4 layers, radius 2")


def trial(folder: Path, data: Path, name: str, seed: int) -> dict[str, Any]:
    """The record of a run, which is trained unless it is finished."""
    run = folder / f"esol-{name.replace(', ', '-').replace(' ', '-')}-seed{seed}"
    if not (run / "run.json").exists():
        words = [
            sys.executable, "-m", "smpgnn", "train", "molecules", data, "--targets", "logp",
            "--epochs", EPOCHS, "--seed", seed, "--device", "cpu", "--no-baseline", "--no-report",
            "--output", run,
        ]  # fmt: skip
        for option, value in NETWORKS[name].items():
            words += ["--" + option.replace("_", "-"), value]
        subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL)
    content: dict[str, Any] = json.loads((run / "run.json").read_text(encoding="utf-8"))
    return content


def step_ms(data: Path, repeat: int) -> dict[str, float]:
    """Processor time of a training step on 64 molecules, by network; the steps alternate."""
    table = pd.read_csv(data).sample(_BATCH, random_state=0)
    batch = MoleculeFeaturizer().featurize(table.smiles).store.batch(torch.arange(_BATCH))
    assert batch.x is not None
    assert batch.edge_attr is not None
    x, edge_attr = batch.x.float(), batch.edge_attr.float()

    def build(**changes: int) -> SMP:
        options = MoleculesOptions().network.changed(**changes)
        return SMP(x.size(1), 1, edge_channels=edge_attr.size(1), options=options)

    work = Workload("molecules", build, x, batch.edge_index, edge_attr, batch.batch, _BATCH)
    steps = {name: make_step(build(**changes), work) for name, changes in NETWORKS.items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(repeat + 1):
        for name, step in steps.items():
            taken = time_ms(step, "cpu")
            if turn:  # the first step warms up
                times[name].append(taken)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="folder of the runs")
    parser.add_argument("--repeat", type=int, default=7, help="timed steps of each network")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tables = Path(os.environ["SMPGNN_DATA"]).resolve() / "molecules"
    times = step_ms(tables / "lipophilicity.csv", options.repeat)
    rows = []
    for name in NETWORKS:
        seeds = (0, 1) if name in _TWICE else (0,)
        runs = [trial(options.folder, tables / "esol.csv", name, seed) for seed in seeds]
        errors = [run["validation"]["rmse"] for run in runs]
        rows.append(
            {
                "network": name,
                "parameters": runs[0]["parameters"],
                "step_ms": times[name],
                "validation_rmse": errors,
            }
        )
        print(f"{name:<34}{times[name]:>8.0f} ms  " + " ".join(f"{error:.3f}" for error in errors))
    if options.output:
        record = {"device": processor(), "table": "ESOL", "epochs": EPOCHS, "rows": rows}
        write_text(options.output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
