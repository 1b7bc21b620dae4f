"""Write the numbers of the records in results/ into the documents, between their markers.

python docs/fill.py           # rewrite
python docs/fill.py --check   # exit 1 if a document would change
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from blocks import ROOT, fill_documents, write_document
from headline import headline

from smpgnn.config.options import read_config
from smpgnn.pages.charts import svg_file
from smpgnn.paper.report.collect import Summary, TableReport, collect
from smpgnn.paper.report.curves import figures
from smpgnn.paper.report.render import FIGURES, markdown
from smpgnn.paper.report.words import missing_text, number, seeds_text

REPORT = collect(ROOT / "results")


def read(path: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / "results" / path).read_text(encoding="utf-8"))
    return content


def demo() -> str:
    lines = ["| | parameters | test accuracy | training time |", "|---|---|---|---|"]
    for model, name in (("fast-smp", "Fast SMP"), ("gin", "GIN, same frame")):
        run = read(f"demo/{model}/run.json")
        lines.append(
            f"| {name} | {run['parameters']:,} | {100 * run['test']['accuracy']:.2f}% "
            f"| {run['wall_time_s']:.0f} s |"
        )
    run = read("demo/fast-smp/run.json")
    lines.append("")
    lines.append(f"({run['device']}; seed {run['seed']}; records in `results/demo`.)")
    return "\n".join(lines)


def cycles() -> str:
    """Summary of Table 1: 1a by row, and SMP at the largest sizes of 1b and in 1c."""
    tables = {table.table.name: table for table in REPORT.tables}
    detection = tables["cycle_detection"]
    lines = [
        f"| Table 1a, {len(detection.cells)} cells | lowest | lowest, paper | mean | mean, paper |",
        "|---|---|---|---|---|",
    ]
    partly = []
    for row in detection.rows:
        summaries = [detection.summary(row.name, cell.name) for cell in detection.cells]
        ours = [one.mean for one in summaries if one.mean is not None]
        printed = [one.paper for one in summaries if one.paper is not None]
        if len(ours) < len(summaries):
            partly.append(f"{row.name} {len(ours)}")
            continue
        given = "" if len(printed) == len(ours) else f" (of {len(printed)})"
        lines.append(
            f"| {row.name} | {min(ours):.1f} | {min(printed):.1f}{given} "
            f"| {fmean(ours):.1f} | {fmean(printed):.1f}{given} |"
        )
    lines += ["", *_smp(tables["cycle_generalization"], tables["cycle_less_data"]), ""]
    devices = sorted({record.device for record in detection.records})
    about = f"Test accuracy (%); {seeds_text(detection)}; {', '.join(devices)}."
    if partly:
        about += f" Incomplete rows (cells trained): {', '.join(partly)}."
    return "\n".join([*lines, f"({about} {_left()})"])


def _left() -> str:
    """The number of cells of the paper's tables that are not trained."""
    left = []
    for table in REPORT.of_the_paper:
        found = [table.summary(row.name, c.name) for row in table.table.rows for c in table.cells]
        count = sum(one.paper is not None and one.mean is None for one in found)
        if count:
            left.append(f"{table.table.title.partition(':')[0]} {count}")
    if left:
        return f"Cells of the paper not trained yet: {', '.join(left)}."
    return "All cells of the paper's Tables 1 to 3 are trained."


def properties() -> str:
    """Summary of Table 2: the average over the six properties."""
    table = _report("graph_properties")
    lines = ["| average of six properties | ours | paper |", "|---|---|---|"]
    for row in table.rows:
        found = table.summary(row.name, "average")
        lines.append(_table_line([row.name, _spread(found, 2), _value(found.paper, 2)]))
    return "\n".join([*lines, "", _about("Log10 test MSE", table)])


def zinc() -> str:
    """Table 3 and the best rows beyond it, one row per method."""
    table = _report("zinc")
    lines = ["| test MAE | parameters |", "|---|---|"]
    for cell in table.cells:
        lines[0] += f" {cell.label} | paper |"
        lines[1] += "---|---|"
    methods = [(table, row.name, row.name) for row in table.rows]
    methods.append((_report("zinc_batches"), "MPNN-JT", "MPNN-JT, more steps"))
    for name, shown in (
        ("zinc_batches", "SMP, deeper, more steps"),
        ("zinc_beyond", "SMP, local contexts"),
        ("zinc_500k", "SMP, local contexts, larger"),
    ):
        report = _report(name)
        methods.append((report, report.table.ours, shown))
    for report, row, shown in methods:
        found = [report.summary(row, cell.name) for cell in table.cells]
        entries = [entry for one in found for entry in (_spread(one, 3), _value(one.paper, 3))]
        lines.append(_table_line([shown, f"{_parameters(found):,}", *entries]))
    return "\n".join([*lines, "", _about("Mean ± standard deviation over the seeds", table)])


def zinc_validation() -> str:
    """Validation beside test values of the rows beyond Table 3."""
    lines = ["| | validation MAE | test MAE | last training loss |", "|---|---|---|---|"]
    for name in ("zinc_batches", "zinc_beyond", "zinc_500k"):
        report = _report(name)
        for row in report.rows:
            found = report.summary(row.name, "with edge features")
            means = [
                fmean(record.validation for record in found.records),
                found.mean,
                fmean(record.curves.train_loss[-1] for record in found.records),
            ]
            shown = f"`{name}`: {row.name}"
            lines.append(_table_line([shown, *(_value(mean, 3) for mean in means)]))
    about = "Means over the seeds; the loss is in units of the target's standard deviation."
    return "\n".join([*lines, "", f"({about})"])


def _parameters(found: list[Summary]) -> int:
    """The most parameters among some cells: the columns of ZINC differ in edge features."""
    return max(record.parameters for one in found for record in one.records)


def _report(name: str) -> TableReport:
    return next(table for table in REPORT.tables if table.table.name == name)


def _spread(summary: Summary, digits: int) -> str:
    """Mean ± standard deviation over the seeds."""
    if summary.spread is not None:
        return f"{_value(summary.mean, digits)} ± {summary.spread:.{digits}f}"
    return _value(summary.mean, digits) + (" (1 seed)" if summary.records else "")


def _about(what: str, table: TableReport) -> str:
    """In brackets: what the numbers are, the number of seeds, the devices, what is missing."""
    devices = sorted({record.device for record in table.records})
    about = f"{what}; {seeds_text(table)}; {', '.join(devices)}."
    return f"({' '.join(word for word in (about, missing_text(table)) if word)})"


def _smp(sizes: TableReport, less: TableReport) -> list[str]:
    """SMP on larger graphs than in training (1b), and trained on few graphs (1c)."""
    out = [cell for cell in sizes.cells if cell.name.startswith("out ")]
    found = [sizes.summary("SMP", cell.name) for cell in out]
    found += [less.summary("SMP", cell.name) for cell in less.cells]
    heads = [f"1b {cell.label}" for cell in out] + [f"1c {cell.label}" for cell in less.cells]
    return [
        _table_line(["SMP", *heads]),
        "|---" * (1 + len(heads)) + "|",
        _table_line(["ours", *(_value(one.mean, 1) for one in found)]),
        _table_line(["paper", *(_value(one.paper, 1) for one in found)]),
    ]


def _table_line(entries: Sequence[str]) -> str:
    return f"| {' | '.join(entries)} |"


def _value(value: float | None, digits: int) -> str:
    return "—" if value is None else number(value, digits)


def _steps(file: str, machine: str, ours: str) -> str:
    """Eager steps; `ours` is the field of the record that has our time."""
    record = read(f"benchmarks/{file}")
    lines = [
        f"| {machine} | ours | naive | PPGN | GIN | ours, peak | naive, peak |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        ppgn = f"{row['ppgn_ms']:.0f} ms" if row["ppgn_ms"] else ""
        lines.append(
            f"| {row['case']} | {row[ours]:.0f} ms | {row['naive_ms']:.0f} ms "
            f"({row['naive_ms'] / row[ours]:.1f}×) | {ppgn} | {row['gin_ms']:.0f} ms "
            f"| {row['ours_mib']:.0f} MiB | {row['naive_mib']:.0f} MiB "
            f"({row['naive_mib'] / row['ours_mib']:.1f}×) |"
        )
    lines += ["", f"({record['device']}, torch {record['torch']}.)"]
    return "\n".join(lines)


def family() -> str:
    """The members of the family beside SMP and PPGN."""
    record = read("benchmarks/family-cpu.json")
    lines = ["| member | parameters | rows | step | × SMP | peak |", "|---|---|---|---|---|---|"]
    for row in record["rows"]:
        lines.append(
            f"| {row['member']} | {row['parameters']:,} | {row['rows']:,} | {row['ms']:.0f} ms "
            f"| {row['ratio']:.2f} | {row['mib']:.0f} MiB |"
        )
    about = f"{record['graphs']} graphs, {record['layers']} layers of width {record['width']}"
    lines += ["", f"(CPU, {record['device']}, torch {record['torch']}: {about}; local contexts "]
    lines[-1] += f"of {record['radius']} hops, or all rows.)"
    return "\n".join(lines)


def compiled() -> str:
    """Eager beside compiled calls of the default network of molecules."""
    record = read("benchmarks/compile-cpu.json")
    lines = [
        "| call | index | eager | compiled | eager / compiled | compiling |",
        "|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        lines.append(
            f"| {row['pass']} | {row['index']} | {row['eager_ms']:.0f} ms "
            f"| {row['compiled_ms']:.0f} ms | {row['speedup']:.2f} | {row['compiling_s']:.0f} s |"
        )
    about = (
        f"The default network of `molecules` with {record['layers']} layers on {record['graphs']} "
        f"graphs of ZINC's size: processor time, {record['device']}, torch {record['torch']}; "
        "`python benchmarks/compile.py`."
    )
    return "\n".join([*lines, "", f"({about})", "", _compiled_in_words(record["rows"])])


def _compiled_in_words(rows: list[dict[str, Any]]) -> str:
    """What the table of `compiled` says."""
    speed = {(row["index"], row["pass"]): f"{row['speedup']:.2f}" for row in rows}
    return (
        "On this processor, compiled calls that build the index are "
        f"{speed['inside', 'inference']} times as fast as eager ones in inference and "
        f"{speed['inside', 'training']} times in training. With a given index the factors are "
        f"{speed['given', 'inference']} and "
        f"{speed['given', 'training']}: eager calls keep the lists that they compute from it."
    )


def step() -> str:
    return _steps("step-cpu.json", "CPU", "ours_ms")


def prediction() -> str:
    """Predictions for a table of molecules beside chemprop, in processor time."""
    record = read("benchmarks/predict-cpu.json")
    lines = [
        "| one processor core | to start | rows per second | an epoch of training |",
        "|---|---|---|---|",
    ]
    for row in record["rows"]:
        epoch = f"{row['epoch_s']:.1f} s" if row["epoch_s"] else ""
        lines.append(
            _table_line(
                [row["tool"], f"{row['start_s']:.1f} s", f"{row['rows_per_s']:,.0f}", epoch]
            )
        )
    about = (
        f"(Processor time; lipophilicity, {record['molecules']:,} molecules; defaults of both; "
        f"chemprop {record['chemprop']}; {record['device']}.)"
    )
    return "\n".join([*lines, "", about])


def small_molecules() -> str:
    """Smaller networks for molecules: their accuracy, and the time of a training step."""
    record = read("benchmarks/small-molecules.json")
    lines = [
        "| network of `molecules` | parameters | training step | validation RMSE |",
        "|---|---|---|---|",
    ]
    for row in record["rows"]:
        errors = " and ".join(f"{error:.3f}" for error in row["validation_rmse"])
        time = f"{row['step_ms']:.0f} ms"
        lines.append(_table_line([row["network"], f"{row['parameters']:,}", time, errors]))
    about = (
        f"({record['table']}, {record['epochs']} epochs, seed 0, with two numbers seeds 0 and 1. "
        "Step: processor time of one thread for 64 molecules of lipophilicity, "
        f"{record['device']}; `python benchmarks/small.py`.)"
    )
    return "\n".join([*lines, "", about])


def step_one_thread() -> str:
    return _steps("step-cpu-1.json", "CPU", "ours_ms")


def step_gpu() -> str:
    return _steps("step-h200.json", "GPU, eager", "eager_ms")


def step_captured() -> str:
    """Our captured steps; the record has no captured steps of the other networks."""
    lines = ["| GPU, captured | ours |", "|---|---|"]
    for row in read("benchmarks/step-h200.json")["rows"]:
        lines.append(_table_line([row["case"], f"{row['ours_ms']:.1f} ms"]))
    return "\n".join([*lines, "", "(Captured steps of the other networks were not measured.)"])


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
    lines = [
        f"| {record['device']} | TF32 | TF32, synchronised | bfloat16 | kernels "
        "| lower bound | TF32 / bound |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        lines.append(
            f"| {row['case']} | {row['tf32_ms']:.2f} ms | {row['tf32_alone_ms']:.2f} ms "
            f"| {row['bfloat16_ms']:.2f} ms "
            f"| {row['launches']:,} | {row['floor_ms']:.2f} ms | {row['over_floor']:.1f}× |"
        )
    bandwidth = record["bandwidth_bytes_s"] / 1e12
    lines += ["", f"(Measured copy bandwidth: {bandwidth:.2f} TB/s; torch {record['torch']}.)"]
    return "\n".join(lines)


def scale() -> str:
    lines = [
        "| graph | layer | nodes | step | index | peak | one dense layer |",
        "|---|---|---|---|---|---|---|",
    ]
    for file in ("scale-cpu.json", "scale-h200.json"):
        record = read(f"benchmarks/{file}")
        most = max(point["nodes"] for point in record["points"])
        for point in record["points"]:
            if point["nodes"] < 0.9 * most:
                continue
            lines.append(
                f"| {point['graph']}, {record['device']} | {point['layer']} | {point['nodes']:,} "
                f"| {point['step_s']:.2f} s | {point['index_s']:.2f} s "
                f"| {point['peak_mib'] / 1024:.1f} GiB | {point['dense_mib'] / 1024:,.0f} GiB |"
            )
    return "\n".join(lines)


def precision() -> str:
    folder = "benchmarks/zinc-precision"
    lines = ["| ZINC | validation MAE | test MAE | peak |", "|---|---|---|---|"]
    for name in ("tf32", "bfloat16"):
        runs, shown = _two_seeds(folder, name)
        peak = max(run["peak_memory_mib"] for run in runs)
        lines.append(_table_line([name, *shown, f"{peak:,.0f} MiB"]))
    return "\n".join([*lines, "", _about_runs(folder, runs[0])])


def partitions() -> str:
    """What predictions for very large sets cost, from the rate of one core."""
    found = read("benchmarks/partitions-cpu.json")
    rate = found["rows_per_s"]
    lines = ["| molecules | core hours | on 64 cores | on 1,000 cores |", "|---|---|---|---|"]
    for count, name in ((10**6, "1 million"), (10**8, "100 million"), (10**9, "1 billion")):
        hours = count / rate / 3600
        times = " | ".join(_duration(hours / cores) for cores in (64, 1000))
        lines.append(
            f"| {name} | {hours:,.2g} | {times} |"
            if hours < 1
            else f"| {name} | {hours:,.0f} | {times} |"
        )
    lines.append("")
    lines.append(
        f"(Measured: {rate:,.0f} molecules per second of processor time on one core of "
        f"{found['device']}, with the default network of `smpgnn train molecules`, "
        f"{found['atoms']:.0f} heavy atoms per molecule on average, features and files included; "
        f"{found['start_s']:.1f} s to start. The larger counts are products of this rate: they "
        "assume that cores do not slow each other down and that the files are as fast as those of "
        "one machine. A run with N members takes about N times as long.)"
    )
    return "\n".join(lines)


def _duration(hours: float) -> str:
    """Hours in a suitable unit."""
    if hours < 1 / 60:
        return f"{3600 * hours:,.0f} s"
    return f"{60 * hours:,.0f} min" if hours < 1 else f"{hours:,.1f} h"


def few_molecules() -> str:
    folder = "benchmarks/few-molecules"
    lines = ["| | parameters | validation MAE | test MAE |", "|---|---|---|---|"]
    for name, title in (("own-terms", "`--own-terms` (default)"), ("without", "`--no-own-terms`")):
        runs, shown = _two_seeds(folder, name)
        lines.append(_table_line([title, f"{runs[0]['parameters']:,}", *shown]))
    return "\n".join([*lines, "", _about_runs(folder, runs[0])])


def _two_seeds(folder: str, name: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Two runs of a benchmark, and their validation and test errors."""
    runs = [read(f"{folder}/{name}-seed{seed}/run.json") for seed in (0, 1)]
    parts = ("validation", "test")
    return runs, [" and ".join(f"{run[part]['mae']:.3f}" for run in runs) for part in parts]


def _about_runs(folder: str, run: dict[str, Any]) -> str:
    return f"(Seeds 0 and 1, {run['epochs']} epochs, {run['device']}; `results/{folder}`.)"


def intervals() -> str:
    """Coverage and width of prediction intervals, and what an ensemble gains."""
    record = read("benchmarks/intervals.json")
    lines = [
        "| table, split | calibration and test rows | coverage | width | constant "
        "| with the spread | single member | RMSE | single member |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for table, of_table in record["tables"].items():
        for split in ("random", "scaffold"):
            one = of_table[split]
            rows = one["rows"]
            widths = (one[k]["width"] for k in ("constant", "normalised", "single_members"))
            lines.append(
                f"| {table}, {split} | {rows['calibration']} + {rows['test']} "
                f"| {100 * one['chosen']['coverage']:.1f} % | {one['chosen']['width']:.2f} "
                f"| {' | '.join(f'{width:.2f}' for width in widths)} "
                f"| {one['rmse_ensemble']:.3f} | {fmean(one['rmse_members']):.3f} |"
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
        f"{folds['rows']['test']} rows that no member saw, at width {folds['width']:.2f}."
    )
    return "\n".join([*lines, "", f"({about} `results/benchmarks/intervals.json`.)"])


def complexity() -> str:
    record = read("benchmarks/complexity.json")
    lines = [
        "| layer | memory | measured | time | measured |",
        "|---|---|---|---|---|",
    ]
    for row in record["results"]:
        lines.append(
            f"| {row['method']} | {row['memory']} | n^{row['measured_memory_exponent']:.2f} "
            f"| {row['time']} | n^{row['measured_time_exponent']:.2f} |"
        )
    return "\n".join(lines)


DOCUMENTS = {
    "README.md": {"headline": lambda: headline(REPORT)},
    "docs/summary.md": {
        "demo": demo,
        "cycles": cycles,
        "properties": properties,
        "zinc": zinc,
        "step": step,
    },
    "docs/speed.md": {
        "compile": compiled,
        "step-one-thread": step_one_thread,
        "prediction": prediction,
        "step-gpu": step_gpu,
        "step-captured": step_captured,
        "gpu": gpu,
        "epoch": epoch,
        "scale": scale,
        "precision": precision,
        "complexity": complexity,
    },
    "docs/molecules.md": {"small-molecules": small_molecules},
    "docs/many_machines.md": {"partitions": partitions},
    "docs/ensembles.md": {"intervals": intervals},
    "docs/training.md": {"few-molecules": few_molecules},
    "docs/concepts/family.md": {"family": family},
    "docs/reproduce.md": {"zinc-validation": zinc_validation},
}


if __name__ == "__main__":
    fill_documents(DOCUMENTS)
    write_document("docs/results.md", markdown(REPORT))
    for name, chart in figures(REPORT).items():
        # The same numbers look different in another version of matplotlib: compare the numbers.
        write_document(f"docs/{FIGURES}/{name}", svg_file(chart), chart.fingerprint)
