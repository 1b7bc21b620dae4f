"""What docs/fill.py writes about results/benchmarks: speed.md, and pages with one measurement."""

from __future__ import annotations

import sys
from statistics import fmean
from typing import Any

from blocks import ROOT, read, table

from smpgnn.config.options import read_config


def _steps(file: str, machine: str, ours: str) -> str:
    """Eager steps; `ours` is the field of the record that has our time."""
    record = read(f"benchmarks/{file}")
    rows = [
        [
            row["case"],
            f"{row[ours]:.0f} ms",
            f"{row['naive_ms']:.0f} ms ({row['naive_ms'] / row[ours]:.1f}×)",
            f"{row['ppgn_ms']:.0f} ms" if row["ppgn_ms"] else "",
            f"{row['gin_ms']:.0f} ms",
            f"{row['ours_mib']:.0f} MiB",
            f"{row['naive_mib']:.0f} MiB ({row['naive_mib'] / row['ours_mib']:.1f}×)",
        ]
        for row in record["rows"]
    ]
    heads = [machine, "ours", "naive", "PPGN", "GIN", "ours, peak", "naive, peak"]
    return table(heads, rows, f"{record['device']}, torch {record['torch']}.")


def step() -> str:
    return _steps("step-cpu.json", "CPU", "ours_ms")


def step_one_thread() -> str:
    return _steps("step-cpu-1.json", "CPU", "ours_ms")


def step_gpu() -> str:
    return _steps("step-h200.json", "GPU, eager", "eager_ms")


def baselines() -> str:
    """Captured steps of the baselines, and those of the version in which they had kernels."""
    record = read("benchmarks/baselines-h200.json")
    before = {row["model"]: f"{row['captured_ms']:.2f} ms" for row in record["before"]}
    rows = [
        [row["model"], f"{row['captured_ms']:.2f} ms", before.get(row["model"], "")]
        for row in record["after"]
    ]
    about = (
        "128 graphs of ZINC's size; 'several': node and graph targets together, 16 graphs. "
        f"{record['device']}, torch {record['torch']}."
    )
    return table(["captured step", "plain torch", "with kernels of their own"], rows, about)


def captured() -> str:
    """Loops with captured steps, and predictions, on a GPU."""
    record = read("benchmarks/captured-h200.json")
    rows = [[loop, f"{ms:.1f} ms"] for loop, ms in record["step_ms"].items()]
    about = (
        f"Default network of `zinc`, {record['graphs']} molecules, another batch in each step; "
        f"{record['device']}, torch {record['torch']}."
    )
    rate = (
        f"`Model.predict_store` predicts {record['molecules_per_s'] / 1000:,.0f} thousand "
        f"molecules per second ({record['predicted']:,} molecules of ZINC's size in memory, the "
        "model that ships)."
    )
    return f"{table(['loop', 'step'], rows, about)}\n\n{rate}"


def small_molecules() -> str:
    """Smaller networks for molecules: their accuracy, and the time of a training step."""
    record = read("benchmarks/small-molecules.json")
    rows = [
        [
            row["network"],
            f"{row['parameters']:,}",
            f"{row['step_ms']:.0f} ms",
            " and ".join(f"{error:.3f}" for error in row["validation_rmse"]),
        ]
        for row in record["rows"]
    ]
    about = (
        f"{record['table']}, {record['epochs']} epochs, seed 0, with two numbers seeds 0 and 1. "
        "Step: processor time of one thread for 64 molecules of lipophilicity, "
        f"{record['device']}; `python benchmarks/small.py`."
    )
    heads = ["network of `molecules`", "parameters", "training step", "validation RMSE"]
    return table(heads, rows, about)


def starts() -> str:
    """Runs on molecules from scratch and from the model `general`, and whether it is a default."""
    sys.path.append(str(ROOT / "benchmarks"))
    from pretrained import compared

    groups: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in compared():
        groups.setdefault((row["table"], row["rows"]), {})[row["start"]] = row
    titles = {"esol": "ESOL", "lipophilicity": "lipophilicity", "bace": "BACE"}

    def cells(row: dict[str, Any]) -> list[str]:
        wins = [row[f"wins ({part})"] for part in ("validation", "test")]
        values = f"{row['validation']:.3f} / {row['test']:.3f}"
        return [values, " / ".join(wins)] if row["start"] != "scratch" else [values]

    rows, reached = [], {}
    for (name, size), found in groups.items():
        metric = found["scratch"]["metric"].upper()
        values = [cell for row in found.values() for cell in cells(row)]
        rows.append([f"{titles[name]}, {size} rows, {metric}", *values])
        if size == "200":
            reached[titles[name]] = found["pretrained"]["wins (validation)"]
    enough = all(int(wins.split()[0]) >= 4 for wins in reached.values())
    about = (
        "Validation / test: the mean metric over random splits, and in how many of them the run is "
        "better than the one from scratch. 200 rows: 200 training and 50 validation rows. RMSE: "
        "smaller is better, AUC: larger. `results/pretrained`, `python benchmarks/pretrained.py`."
    )
    heads = ["", "from scratch", "`--from general`", "better in", "with `--freeze`", "better in"]
    verdict = (
        "To be the default start, the model had to be better on the validation rows in at least 4 "
        "of 5 splits of each table with 200 rows. It is in "
        + ", ".join(f"{wins} ({name})" for name, wins in reached.items())
        + (": it meets this bar." if enough else ": it misses this bar and is not the default.")
    )
    return f"{table(heads, rows, about)}\n\n{verdict}"


def family() -> str:
    """The members of the family beside SMP and PPGN."""
    record = read("benchmarks/family-cpu.json")
    rows = [
        [
            row["member"],
            f"{row['parameters']:,}",
            f"{row['rows']:,}",
            f"{row['ms']:.0f} ms",
            f"{row['ratio']:.2f}",
            f"{row['mib']:.0f} MiB",
        ]
        for row in record["rows"]
    ]
    about = (
        f"CPU, {record['device']}, torch {record['torch']}: {record['graphs']} graphs, "
        f"{record['layers']} layers of width {record['width']}; local contexts of "
        f"{record['radius']} hops, or all rows."
    )
    return table(["member", "parameters", "rows", "step", "× SMP", "peak"], rows, about)


def compiled() -> str:
    """Eager beside compiled calls of the default network of molecules."""
    record = read("benchmarks/compile-cpu.json")
    rows = [
        [
            row["pass"],
            row["index"],
            f"{row['eager_ms']:.0f} ms",
            f"{row['compiled_ms']:.0f} ms",
            f"{row['speedup']:.2f}",
            f"{row['compiling_s']:.0f} s",
        ]
        for row in record["rows"]
    ]
    about = (
        f"The default network of `molecules` with {record['layers']} layers on {record['graphs']} "
        f"graphs of ZINC's size: processor time, {record['device']}, torch {record['torch']}; "
        "`python benchmarks/compile.py`."
    )
    speed = {(row["index"], row["pass"]): f"{row['speedup']:.2f}" for row in record["rows"]}
    words = (
        "On this processor, compiled calls that build the index are "
        f"{speed['inside', 'inference']} times as fast as eager ones in inference and "
        f"{speed['inside', 'training']} times in training. With a given index the factors are "
        f"{speed['given', 'inference']} and "
        f"{speed['given', 'training']}: eager calls keep the lists that they compute from it."
    )
    heads = ["call", "index", "eager", "compiled", "eager / compiled", "compiling"]
    return f"{table(heads, rows, about)}\n\n{words}"


def plain() -> str:
    """Whole steps of a loop around the plain call, beside networks of PyTorch Geometric."""
    record = read("benchmarks/plain-h200.json")
    names = {
        "zinc-paper": "SMP, the paper's network for ZINC",
        "zinc-default": "SMP, default of `zinc`",
        "gine": "GINE",
        "gps": "GPS",
    }
    gine = next(row["step_ms"] for row in record["rows"] if row["network"] == "gine")
    rows = [
        [
            names[row["network"]],
            f"{row['parameters']:,}",
            f"{row['step_ms']:.1f} ms",
            f"{row['step_ms'] / gine:.2f}",
            f"{row['forward_ms']:.1f} ms",
        ]
        for row in record["rows"]
    ]
    about = (
        f"{record['graphs']} molecules of ZINC's size, another batch in each step; GINE and GPS of "
        "PyTorch Geometric with as many layers and channels as the paper's network; "
        f"{record['device']}, torch {record['torch']}."
    )
    return table(["loop of your own", "parameters", "step", "/ GINE", "forward"], rows, about)


def prediction() -> str:
    """Predictions for a table of molecules beside chemprop, in processor time."""
    record = read("benchmarks/predict-cpu.json")
    rows = [
        [
            row["tool"],
            f"{row['start_s']:.1f} s",
            f"{row['rows_per_s']:,.0f}",
            f"{row['epoch_s']:.1f} s" if row["epoch_s"] else "",
        ]
        for row in record["rows"]
    ]
    about = (
        f"Processor time; lipophilicity, {record['molecules']:,} molecules; defaults of both, and "
        f"`--preset small`; chemprop {record['chemprop']}; {record['device']}."
    )
    heads = ["one processor core", "to start", "rows per second", "an epoch of training"]
    return table(heads, rows, about)


def epoch() -> str:
    """The time of an epoch of ZINC, without the first one, which captures the steps."""
    run = read("benchmarks/zinc-h200/run.json")
    config = read_config(ROOT / "results/benchmarks/zinc-h200/config.yaml")
    lines = (ROOT / "results/benchmarks/zinc-h200/metrics.csv").read_text(encoding="utf-8")
    times = [float(line.split(",")[1]) for line in lines.split()[1:]]
    mean = (times[-1] - times[0]) / (len(times) - 1)
    return (
        f"One epoch of ZINC takes {mean:.2f} s on an {run['device']}, validation and checkpoint "
        f"included; the first epoch takes {times[0]:.1f} s. The network has "
        f"{config['num_layers']} layers of {config['hidden_channels']} channels, one-hot "
        f"contexts and {run['parameters']:,} parameters; batches have {config['batch_size']} "
        f"molecules (`results/benchmarks/zinc-h200`)."
    )


def gpu() -> str:
    record = read("benchmarks/gpu-h200.json")
    rows = [
        [
            row["case"],
            f"{row['tf32_ms']:.2f} ms",
            f"{row['tf32_alone_ms']:.2f} ms",
            f"{row['bfloat16_ms']:.2f} ms",
            f"{row['launches']:,}",
            f"{row['floor_ms']:.2f} ms",
            f"{row['over_floor']:.1f}×",
        ]
        for row in record["rows"]
    ]
    bandwidth = record["bandwidth_bytes_s"] / 1e12
    heads = [record["device"], "TF32", "TF32, synchronised", "bfloat16", "kernels", "lower bound",
             "TF32 / bound"]  # fmt: skip
    about = f"Measured copy bandwidth: {bandwidth:.2f} TB/s; torch {record['torch']}."
    return table(heads, rows, about)


def scale() -> str:
    """The largest graphs of each machine."""
    rows = []
    for file in ("scale-cpu.json", "scale-h200.json"):
        record = read(f"benchmarks/{file}")
        most = max(point["nodes"] for point in record["points"])
        rows += [
            [
                f"{point['graph']}, {record['device']}",
                point["layer"],
                f"{point['nodes']:,}",
                f"{point['step_s']:.2f} s",
                f"{point['index_s']:.2f} s",
                f"{point['peak_mib'] / 1024:.1f} GiB",
                f"{point['dense_mib'] / 1024:,.0f} GiB",
            ]
            for point in record["points"]
            if point["nodes"] >= 0.9 * most
        ]
    return table(["graph", "layer", "nodes", "step", "index", "peak", "one dense layer"], rows)


def precision() -> str:
    folder, rows = "benchmarks/zinc-precision", []
    for name in ("tf32", "bfloat16"):
        runs, shown = _two_seeds(folder, name)
        peak = max(run["peak_memory_mib"] for run in runs)
        rows.append([name, *shown, f"{peak:,.0f} MiB"])
    return table(["ZINC", "validation MAE", "test MAE", "peak"], rows, _about(folder, runs[0]))


def few_molecules() -> str:
    folder, rows = "benchmarks/few-molecules", []
    for name, title in (("own-terms", "`--own-terms` (default)"), ("without", "`--no-own-terms`")):
        runs, shown = _two_seeds(folder, name)
        rows.append([title, f"{runs[0]['parameters']:,}", *shown])
    return table(["", "parameters", "validation MAE", "test MAE"], rows, _about(folder, runs[0]))


def _two_seeds(folder: str, name: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Two runs of a benchmark, and their validation and test errors."""
    runs = [read(f"{folder}/{name}-seed{seed}/run.json") for seed in (0, 1)]
    parts = ("validation", "test")
    return runs, [" and ".join(f"{run[part]['mae']:.3f}" for run in runs) for part in parts]


def _about(folder: str, run: dict[str, Any]) -> str:
    return f"Seeds 0 and 1, {run['epochs']} epochs, {run['device']}; `results/{folder}`."


def partitions() -> str:
    """What predictions for very large sets cost, from the rate of one core."""
    found = read("benchmarks/partitions-cpu.json")
    rate, rows = found["rows_per_s"], []
    for count, name in ((10**6, "1 million"), (10**8, "100 million"), (10**9, "1 billion")):
        hours = count / rate / 3600
        shown = f"{hours:,.2g}" if hours < 1 else f"{hours:,.0f}"
        rows.append([name, shown, *(_duration(hours / cores) for cores in (64, 1000))])
    about = (
        f"Measured: {rate:,.0f} molecules per second of processor time on one core of "
        f"{found['device']}, with the default network of `smpgnn train molecules`, "
        f"{found['atoms']:.0f} heavy atoms per molecule on average, features and files included; "
        f"{found['start_s']:.1f} s to start. The larger counts are products of this rate: they "
        "assume that cores do not slow each other down and that the files are as fast as those of "
        "one machine. A run with N members takes about N times as long."
    )
    return table(["molecules", "core hours", "on 64 cores", "on 1,000 cores"], rows, about)


def _duration(hours: float) -> str:
    """Hours in a suitable unit."""
    if hours < 1 / 60:
        return f"{3600 * hours:,.0f} s"
    return f"{60 * hours:,.0f} min" if hours < 1 else f"{hours:,.1f} h"


def intervals() -> str:
    """Coverage and width of prediction intervals, and what an ensemble gains."""
    record = read("benchmarks/intervals.json")
    rows = []
    for name, of_table in record["tables"].items():
        for split in ("random", "scaffold"):
            one = of_table[split]
            widths = (one[k]["width"] for k in ("chosen", "constant", "normalised",
                                                "single_members"))  # fmt: skip
            rows.append(
                [
                    f"{name}, {split}",
                    f"{one['rows']['calibration']} + {one['rows']['test']}",
                    f"{100 * one['chosen']['coverage']:.1f} %",
                    *(f"{width:.2f}" for width in widths),
                    f"{one['rmse_ensemble']:.3f}",
                    f"{fmean(one['rmse_members']):.3f}",
                ]
            )
    folds = record["tables"]["esol"]["folds"]
    epochs = {name: of_table["epochs"] for name, of_table in record["tables"].items()}
    about = (
        f"{record['members']} members, 90 % intervals, means over {one['divisions']:,} random "
        "divisions of the rows (of a scaffold split: of the scaffolds); with the spread: floor of "
        "one mean spread; small networks trained for "
        + " and ".join(f"{count} epochs ({name})" for name, count in epochs.items())
        + f", {record['device']}. With {record['members']} folds of ESOL, the intervals contain "
        f"{100 * folds['coverage']:.1f} % (standard error {100 * folds['standard_error']:.1f}) of "
        f"{folds['rows']['test']} rows that no member saw, at width {folds['width']:.2f}. "
        "`results/benchmarks/intervals.json`."
    )
    heads = ["table, split", "calibration and test rows", "coverage", "width", "constant",
             "with the spread", "single member", "RMSE", "single member"]  # fmt: skip
    return table(heads, rows, about)


def complexity() -> str:
    rows = [
        [
            row["method"],
            row["memory"],
            f"n^{row['measured_memory_exponent']:.2f}",
            row["time"],
            f"n^{row['measured_time_exponent']:.2f}",
        ]
        for row in read("benchmarks/complexity.json")["results"]
    ]
    return table(["layer", "memory", "measured", "time", "measured"], rows)


def ring_gnn() -> str:
    """Walk counts, and fresh networks by how the operations of Ring-GNN start."""
    record = read("benchmarks/ring-gnn.json")
    before, now = "Ring-GNN, alike", "Ring-GNN"
    share = {(row["network"], row["k"], row["n"]): row["products"][-1] for row in record["start"]}
    apart = {(row["network"], row["k"], row["n"]): row["difference"] for row in record["twins"]}
    rows = [
        [
            f"k={k}, n={n}",
            f"{row['accuracy']:.1f}",
            *(f"{100 * share[name, k, n]:.0f}%" for name in (before, now)),
            *(f"{apart[name, k, n]:.1e}" for name in (before, now, "PPGN")),
        ]
        for row in record["walks"]
        for k, n in [(row["k"], row["n"])]
    ]
    losses = {row["network"]: row["loss"][-1] for row in record["training"]}
    run = record["training"][0]
    about = (
        "Walk counts: test accuracy (%) of a logistic regression on them. Own part: the share of "
        "the variance of the products in the last layer of a fresh network that is not a value of "
        "i plus a value of j. Twins: the difference between the outputs of a fresh network for "
        "twins, relative to their spread over graphs. Loss at the end of "
        f"{run['steps']:,} steps for k={run['k']}, n={run['n']}: {losses[before]:.3f} if all start "
        f"alike, {losses[now]:.3f} now. `python benchmarks/ring_gnn.py`."
    )
    heads = ["", "walk counts", "own part: all alike", "now", "twins: all alike", "now", "PPGN"]
    return table(heads, rows, about)
