"""What smaller networks for molecules cost in accuracy, and how long their epochs take on a CPU.

    python benchmarks/small.py FOLDER --chemprop chemprop-env/bin/chemprop [--output FILE]

Trains the default network of `molecules` and smaller ones on tables of the folder `molecules` in
SMPGNN_DATA; FOLDER keeps the runs, and finished ones are not repeated. Networks are compared on
validation rows. Then epochs on lipophilicity are timed: the default, `--preset small` and chemprop
in turn, in processor time of one thread, each as the difference of runs of 1 and 3 epochs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from predict import processor, processor_seconds, version

from smpgnn.files import write_text

OURS = [sys.executable, "-m", "smpgnn", "train", "molecules"]
#: Targets of the tables, and the epochs of a trial.
TABLES = {"esol": ("logp", 40), "lipophilicity": ("lipo", 8)}
#: Options of the networks.
NETWORKS = {
    "default": "",
    "48 channels, 4 layers": "--num-layers 4",
    "32 channels, 6 layers": "--hidden-channels 32",
    "32 channels, 6 layers, radius 2": "--hidden-channels 32 --context-radius 2",
    "32 channels, 4 layers": "--hidden-channels 32 --num-layers 4",
    "32 channels, 4 layers, radius 2": "--hidden-channels 32 --num-layers 4 --context-radius 2",
}
#: The networks and seeds of each table.
TRIALS = {
    "esol": {
        name: (0, 1) if name in ("default", list(NETWORKS)[-1]) else (0,) for name in NETWORKS
    },
    "lipophilicity": {"default": (0,), list(NETWORKS)[-1]: (0,)},
}


def trial(folder: Path, data: Path, name: str, seed: int) -> dict[str, Any]:
    """The record of a run, which is trained unless it is finished."""
    target, epochs = TABLES[data.stem]
    run = folder / f"{data.stem}-{name.replace(', ', '-').replace(' ', '-')}-seed{seed}"
    if not (run / "run.json").exists():
        words = [
            *OURS, data, "--targets", target, "--epochs", str(epochs), "--seed", str(seed),
            "--device", "cpu", "--no-baseline", "--no-report", "--output", run,
            *NETWORKS[name].split(),
        ]  # fmt: skip
        subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL)
    content: dict[str, Any] = json.loads((run / "run.json").read_text(encoding="utf-8"))
    return content


def epoch_seconds(data: Path, chemprop: Path, repeat: int) -> dict[str, float]:
    """Processor seconds of an epoch, by network."""
    common = [data, "--targets", TABLES[data.stem][0], "--device", "cpu", "--no-baseline"]
    commands: dict[str, list[str | Path]] = {
        "default": [*OURS, *common],
        "small": [*OURS, *common, "--preset", "small"],
        "chemprop": [
            chemprop, "train", "--data-path", data, "-s", "smiles", "--target-columns",
            TABLES[data.stem][0], "-t", "regression", "--accelerator", "cpu",
            "--warmup-epochs", "0",
        ],
    }  # fmt: skip
    found: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(repeat):
            for name, words in commands.items():
                flag = "-o" if name == "chemprop" else "--output"
                seconds = [
                    processor_seconds(
                        [*words, "--epochs", str(n), flag, Path(folder, f"{name}-{turn}-{n}")]
                    )
                    for n in (1, 3)
                ]
                found[name].append((seconds[1] - seconds[0]) / 2)
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="folder of the runs")
    parser.add_argument("--chemprop", type=Path, required=True, help="its command")
    parser.add_argument("--repeat", type=int, default=1, help="timed epochs of each network")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    tables = Path(os.environ["SMPGNN_DATA"]).resolve() / "molecules"
    rows = []
    for table, networks in TRIALS.items():
        for name, seeds in networks.items():
            runs = [trial(options.folder, tables / f"{table}.csv", name, seed) for seed in seeds]
            row = {
                "table": table,
                "network": name,
                "parameters": runs[0]["parameters"],
                "epochs": TABLES[table][1],
                "validation_rmse": [run["validation"]["rmse"] for run in runs],
            }
            print(row, flush=True)
            rows.append(row)
    epochs = epoch_seconds(tables / "lipophilicity.csv", options.chemprop, options.repeat)
    print(epochs)
    if options.output:
        record = {
            "device": processor(),
            "chemprop": version(options.chemprop),
            "trials": rows,
            "epoch_s": epochs,
        }
        write_text(options.output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
