"""Time predictions for a folder of Parquet files, on one processor.

    python benchmarks/partitions.py [--output partitions-cpu.json]

The model is the default network of `smpgnn train molecules`, trained for an epoch: predictions of
any weights take as long. The molecules are those of `molecules/lipophilicity.csv` in the folder
`SMPGNN_DATA`, which are of the size of drugs. The time is that of the processor; the time to start
is that of two files of a few rows, and is left out of the rate.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import pandas as pd
from predict import TARGET, processor, processor_seconds

from smpgnn.files import write_text

#: Files of the folder, and rows of each file of the folder that measures the time to start.
_FILES, _FEW = 2, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, help="table with 'smiles' and 'lipo'")
    parser.add_argument("--repeat", type=int, default=3, help="timed calls")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    data = options.data or Path(os.environ["SMPGNN_DATA"]) / "molecules/lipophilicity.csv"
    table = pd.read_csv(data)
    with tempfile.TemporaryDirectory() as name:
        record = measure(table, data.resolve(), Path(name), options.repeat)
    print(json.dumps(record, indent=1))
    if options.output:
        write_text(options.output, json.dumps(record, indent=1) + "\n")


def measure(table: pd.DataFrame, data: Path, folder: Path, repeat: int) -> dict[str, object]:
    """The record: rows per second of a core, and seconds to start and to skip finished files."""
    ours: list[str | Path] = [sys.executable, "-m", "smpgnn"]
    train: list[str | Path] = [
        "train",
        "molecules",
        data,
        "--targets",
        TARGET,
        "--epochs",
        "1",
        "--no-baseline",
    ]
    processor_seconds([*ours, *train, "--device", "cpu", "--output", folder / "run"])
    for name, rows in (("few", _FILES * _FEW), ("all", len(table))):
        (folder / name).mkdir()
        for number in range(_FILES):
            part = table[number:rows:_FILES]
            part.to_parquet(folder / name / f"{number}.parquet", index=False)
    times: dict[str, list[float]] = {"few": [], "all": [], "again": []}
    for turn in range(repeat):
        for kind, found in times.items():
            name = kind if kind != "again" else "all"
            words: list[str | Path] = [
                "predict",
                folder / "run",
                folder / name,
                "-o",
                folder / f"{name}-{turn}",
            ]
            found.append(processor_seconds([*ours, *words, "--device", "cpu", "--processes", "1"]))
    start, whole, again = (statistics.median(found) for found in times.values())
    rate = (len(table) - _FILES * _FEW) / (whole - start)
    return {
        "device": processor(),
        "molecules": len(table),
        "atoms": round(heavy_atoms(table["smiles"]), 1),
        "start_s": round(start, 2),
        "skip_s": round(again, 2),
        "rows_per_s": round(rate, 1),
    }


def heavy_atoms(smiles: pd.Series[str]) -> float:
    """The mean number of heavy atoms."""
    from rdkit import Chem

    return statistics.fmean(Chem.MolFromSmiles(one).GetNumHeavyAtoms() for one in smiles)


if __name__ == "__main__":
    main()
