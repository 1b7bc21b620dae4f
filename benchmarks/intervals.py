"""Coverage and width of prediction intervals, over many divisions into calibration and test rows.

python benchmarks/intervals.py --work-dir runs/intervals      # about 10 minutes of one core

For each table and kind of split, an ensemble is trained once; a run that exists is continued. Its
test rows, which no member was trained or chosen on, are then divided 1,000 times at random into
rows for calibration and rows for test; with a scaffold split by scaffold, so that (but for one)
those of the test rows are new to the calibration. A cross-validation (`--folds`) is measured on
the same test rows. Networks are small and trained for a few epochs only, which is enough to compare
intervals, but not accuracy.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import smpgnn
from smpgnn.checksums import to_json
from smpgnn.config.options import TableOptions
from smpgnn.data.molecule_splits import scaffold_groups
from smpgnn.data.splits import Rows
from smpgnn.files import write_text
from smpgnn.training.calibration import Calibration
from smpgnn.training.intervals import Intervals, fit_intervals, narrowest
from smpgnn.training.member_results import load_members
from smpgnn.training.prepare import prepare
from smpgnn.training.provenance import commit, device_name, versions
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.saved import pick_device
from smpgnn.training.tasks.base import numbers
from smpgnn.training.unseen import Predictions, predict_unseen

Values = NDArray[np.float64]

LEVEL, DIVISIONS = 0.9, 1000
FRACTIONS = (0.6, 0.1, 0.3)


@dataclass(frozen=True)
class Table:
    """A table of the folder SMPGNN_DATA/molecules, and for how long to train on it."""

    name: str
    target: str
    epochs: int
    network: dict[str, Any] = field(
        default_factory=lambda: {"hidden_channels": 16, "num_layers": 2, "extractor_channels": 16}
    )


TABLES = (Table("esol", "logp", epochs=25), Table("lipophilicity", "lipo", epochs=3))


def train(table: Table, data: Path, folder: Path, **options: Any) -> None:
    """Train a run, or continue it."""
    begun = RunFolder(folder).config.exists()
    if begun and RunFolder(folder).read_record():
        return
    settings: dict[str, Any] = {"output": str(folder)}
    if not begun:
        settings |= {
            "path": str(data), "targets": [table.target], "epochs": table.epochs,
            "device": "cpu", "seed": 0, **table.network, **options,
        }  # fmt: skip
    smpgnn.train("molecules", resume=begun, **settings)


def unseen(folder: Path) -> Predictions:
    """What the members of a run predict for its test rows."""
    run = RunFolder(folder)
    options, saved = run.read_options(), run.read_data()
    assert isinstance(options, TableOptions)
    prepared = prepare(options, saved)
    return predict_unseen(load_members(folder, options), options, prepared, pick_device("cpu"))


def of_ensemble(found: Predictions, group: Rows) -> dict[str, Any]:
    """Coverage and widths over the divisions of the test rows, whose groups [R] stay together."""
    rows = found.held_out(found.position, Calibration())
    (part,) = numbers(found.task)
    residual, spread = rows.number(part, 0)
    floor = narrowest(*found.held_out(found.validation, Calibration()).number(part, 0))
    single = rows.target[:, 0].double().numpy() - found.values[:, found.position, 0].numpy()
    floors = {"constant": None, "normalised": float(spread.mean()), "chosen": floor}
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in floors}
    measured["single_members"] = []
    random, count = np.random.default_rng(0), len(residual)
    for _ in range(DIVISIONS):
        order = np.argsort(random.permutation(group.max() + 1)[group], kind="stable")
        some, rest = order[: count // 2], order[count // 2 :]
        for name, used in floors.items():
            fitted = fit_intervals("y", residual[some], spread[some], used)
            measured[name].append(_measured(fitted, residual[rest], spread[rest]))
        each = [_measured(fit_intervals("y", own[some]), own[rest], spread[rest]) for own in single]
        coverage, width = np.mean(each, axis=0).tolist()
        measured["single_members"].append((coverage, width))
    return {
        "rows": {"calibration": count // 2, "test": count - count // 2},
        "divisions": DIVISIONS,
        "chosen_by_validation_rows": "constant" if floor is None else "normalised",
        "floor_in_mean_spreads": None if floor is None else floor / float(spread.mean()),
        "rmse_ensemble": _rmse(residual),
        "rmse_members": [_rmse(own) for own in single],
        **{
            name: {
                "coverage": float(np.mean([c for c, _ in values])),
                "coverage_sd": float(np.std([c for c, _ in values], ddof=1)),
                "width": float(np.mean([w for _, w in values])),
            }
            for name, values in measured.items()
        },
    }


def _measured(fitted: Intervals, residual: Values, spread: Values) -> tuple[float, float]:
    half = fitted.half_width(LEVEL, spread)
    return float(np.mean(np.abs(residual) <= half)), float(2 * half.mean())


def _rmse(residual: Values) -> float:
    return float(np.sqrt(np.mean(residual**2)))


def of_folds(folder: Path, test: pd.DataFrame, target: str) -> dict[str, Any]:
    """Coverage and width of the intervals of a cross-validation on rows that it never saw."""
    model = smpgnn.load(folder, "cpu")
    found = model.predict(test, interval=LEVEL)
    low, high = found[f"low_{target}"], found[f"high_{target}"]
    inside = (low <= test[target].to_numpy()) & (test[target].to_numpy() <= high)
    residual = (found[f"predicted_{target}"] - test[target].to_numpy()).to_numpy()
    about = RunFolder(folder).read_record()
    return {
        "rows": {"calibration": about["calibration"]["targets"][target]["rows"], "test": len(test)},
        "intervals": about["calibration"]["targets"][target]["intervals"],
        "coverage": float(inside.mean()),
        "standard_error": float(np.sqrt(LEVEL * (1 - LEVEL) / len(test))),
        "width": float((high - low).mean()),
        "rmse_ensemble": _rmse(residual),
        "rmse_held_out_folds": about["test"]["rmse"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--work-dir", default="runs/intervals")
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--output", default="results/benchmarks/intervals.json")
    arguments = parser.parse_args()
    data = Path(os.environ["SMPGNN_DATA"]) / "molecules"
    work = Path(arguments.work_dir)
    results: dict[str, Any] = {}
    for table in TABLES:
        path = data / f"{table.name}.csv"
        results[table.name] = {"epochs": table.epochs, "network": table.network}
        for split in ("random", "scaffold"):
            folder = work / f"{table.name}-{split}"
            train(
                table, path, folder, ensemble=arguments.members, split=split,
                split_fractions=FRACTIONS,
            )  # fmt: skip
            found = unseen(folder)
            smiles = pd.read_csv(path)["smiles"].iloc[found.table.row.numpy()].tolist()
            group = scaffold_groups(smiles) if split == "scaffold" else np.arange(len(smiles))
            results[table.name][split] = of_ensemble(found, group)
            print(table.name, split, results[table.name][split], flush=True)
        if table is TABLES[0]:
            frame = pd.read_csv(path)
            splits = pd.read_csv(work / f"{table.name}-random" / "splits.csv")
            number = splits.loc[splits["split"] == "test", "row"].to_numpy() - 1
            rest = work / f"{table.name}-rest.csv"
            frame[~frame.index.isin(number)].to_csv(rest, index=False)
            folder = work / f"{table.name}-folds"
            train(table, rest, folder, folds=arguments.members)
            results[table.name]["folds"] = of_folds(folder, frame.loc[number], table.target)
            print(table.name, "folds", results[table.name]["folds"], flush=True)
    record = {
        "level": LEVEL,
        "members": arguments.members,
        "split_fractions": FRACTIONS,
        "tables": results,
        "device": device_name(pick_device("cpu")),
        "versions": versions(),
        "commit": commit(),
    }
    write_text(arguments.output, to_json(record))


if __name__ == "__main__":
    main()
