"""What docs/fill.py writes about the paper's tables: README.md, summary.md, reproduce.md."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from blocks import ROOT, read, table

from smpgnn.paper.report.collect import Reduce, Summary, TableReport, collect
from smpgnn.paper.report.words import missing_text, number, seeds_text

REPORT = collect(ROOT / "results")
TABLES = {table.table.name: table for table in REPORT.tables}
#: Says what a dagger after the name of a row means.
DAGGER = "† Chosen when test values were known: [Results]({}) says why, below each table."
EDGES = "with edge features"


def headline() -> str:
    """The one table of the README: SMP, SMP in the paper, and the best other network, by task."""
    cycles, larger = TABLES["cycle_detection"], TABLES["cycle_generalization"]
    cells = [cell.name for cell in cycles.cells]
    out = [cell.name for cell in larger.cells if cell.name.startswith("out ")]
    lowest = f"cycles: the lowest accuracy of {len(cells)} cells (%)"
    rows = [
        _best(cycles, lowest, cells, min),
        _best(larger, "cycles in larger graphs than in training: mean accuracy (%)", out, fmean),
        _best(TABLES["graph_properties"], "six properties of graphs: log10 MSE", ["average"]),
        _best(TABLES["zinc"], "ZINC-12k: MAE", [EDGES]),
        _best(TABLES["zinc_beyond"], "ZINC-12k, local contexts (not in the paper): MAE", [EDGES]),
    ]
    heads = ["test results", "SMP", "its validation", "SMP in the paper", "best other network"]
    return f"{table(heads, rows)}\n\n{DAGGER.format('docs/results.md')}"


def _best(report: TableReport, title: str, cells: list[str], reduce: Reduce = fmean) -> list[str]:
    """A row of the headline: one number for all cells of SMP, and the best of the networks."""
    ours, digits = report.table.ours, report.table.digits
    others = [row.name for row in report.rows if "SMP" not in row.name]
    best = report.best_of(others, cells, reduce)
    parts = ("mean", "validation", "paper")
    shown = [_value(report.over(ours, cells, reduce, part), digits) for part in parts]
    other = f"{_value(best.mean, digits)} ({best.row})" if best else "—"
    return [title, shown[0] + report.mark(ours), *shown[1:], other]


def demo() -> str:
    runs = {
        "Fast SMP": read("demo/fast-smp/run.json"),
        "GIN, same frame": read("demo/gin/run.json"),
    }
    rows = [
        [
            name,
            f"{run['parameters']:,}",
            f"{100 * run['validation']['accuracy']:.2f}%",
            f"{100 * run['test']['accuracy']:.2f}%",
            f"{run['wall_time_s']:.0f} s",
        ]
        for name, run in runs.items()
    ]
    run = runs["Fast SMP"]
    heads = ["", "parameters", "validation accuracy", "test accuracy", "training time"]
    about = f"{run['device']}; seed {run['seed']}; records in `results/demo`."
    return table(heads, rows, about)


def cycles() -> str:
    """Summary of Table 1: 1a by row, and SMP at the largest sizes of 1b and in 1c."""
    report, rows, partly = TABLES["cycle_detection"], [], []
    cells = [cell.name for cell in report.cells]
    for row in report.rows:
        found = [report.summary(row.name, cell) for cell in cells]
        printed = [one.paper for one in found if one.paper is not None]
        trained = sum(one.mean is not None for one in found)
        if trained < len(found):
            partly.append(f"{row.name} {trained}")
            continue
        given = "" if len(printed) == len(found) else f" (of {len(printed)})"
        line = [row.name + report.mark(row.name)]
        for reduce in (min, fmean):
            line += [_value(report.over(row.name, cells, reduce), 1)]
            line += [_value(report.over(row.name, cells, reduce, "validation"), 1)]
            line += [_value(reduce(printed), 1) + given]
        rows.append(line)
    heads = [f"Table 1a, {len(report.cells)} cells", "lowest", "validation", "paper", "mean",
             "validation", "paper"]  # fmt: skip
    about = f"Test accuracy (%), beside it validation; {seeds_text(report)}; {_devices(report)}."
    if partly:
        about += f" Incomplete rows (cells trained): {', '.join(partly)}."
    return (
        f"{table(heads, rows)}\n\n{_smp()}\n\n({about} {_left()})\n\n{DAGGER.format('results.md')}"
    )


def _smp() -> str:
    """SMP on larger graphs than in training (1b), and trained on few graphs (1c)."""
    sizes, less = TABLES["cycle_generalization"], TABLES["cycle_less_data"]
    out = [cell for cell in sizes.cells if cell.name.startswith("out ")]
    found = [sizes.summary("SMP", cell.name) for cell in out]
    found += [less.summary("SMP", cell.name) for cell in less.cells]
    heads = [f"1b {cell.label}" for cell in out] + [f"1c {cell.label}" for cell in less.cells]
    return table(
        ["SMP", *heads],
        [
            ["ours", *(_value(one.mean, 1) for one in found)],
            ["validation", *(_value(one.validation, 1) for one in found)],
            ["paper", *(_value(one.paper, 1) for one in found)],
        ],
    )


def _left() -> str:
    """The number of cells of the paper's tables that are not trained."""
    left = []
    for report in REPORT.of_the_paper:
        found = [
            report.summary(row.name, c.name) for row in report.table.rows for c in report.cells
        ]
        count = sum(one.paper is not None and one.mean is None for one in found)
        if count:
            left.append(f"{report.table.title.partition(':')[0]} {count}")
    if left:
        return f"Cells of the paper not trained yet: {', '.join(left)}."
    return "All cells of the paper's Tables 1 to 3 are trained."


def properties() -> str:
    """Summary of Table 2: the average over the six properties."""
    report = TABLES["graph_properties"]
    rows = [[row.name + report.mark(row.name), *_cells([report.summary(row.name, "average")], 2)]
            for row in report.rows]  # fmt: skip
    heads = ["average of six properties", "ours", "validation", "paper"]
    return table(heads, rows, _about("Log10 MSE", report)) + f"\n\n{DAGGER.format('results.md')}"


def zinc() -> str:
    """Table 3 and the best rows beyond it, one row per method."""
    report = TABLES["zinc"]
    heads = ["test MAE", "parameters"]
    for cell in report.cells:
        heads += [cell.label, "validation", "paper"]
    methods = [(report, row.name, row.name) for row in report.rows]
    methods.append((TABLES["zinc_batches"], "MPNN-JT", "MPNN-JT, more steps"))
    for name, shown in (
        ("zinc_batches", "SMP, deeper, more steps"),
        ("zinc_beyond", "SMP, local contexts"),
        ("zinc_500k", "SMP, local contexts, larger"),
    ):
        methods.append((TABLES[name], TABLES[name].table.ours, shown))
    rows = []
    for of, row, shown in methods:
        found = [of.summary(row, cell.name) for cell in report.cells]
        # the columns differ in edge features
        most = max(record.parameters for one in found for record in one.records)
        rows.append([shown + of.mark(row), f"{most:,}", *_cells(found, 3)])
    about = _about("Mean ± standard deviation over the seeds", report)
    return table(heads, rows, about) + f"\n\n{DAGGER.format('results.md')}"


def zinc_validation() -> str:
    """Validation beside test values of the rows beyond Table 3."""
    rows = []
    for name in ("zinc_batches", "zinc_beyond", "zinc_500k"):
        for row in TABLES[name].rows:
            found = TABLES[name].summary(row.name, EDGES)
            loss = fmean(record.curves.train_loss[-1] for record in found.records)
            shown = f"`{name}`: {row.name}{TABLES[name].mark(row.name)}"
            rows.append([shown, *(_value(v, 3) for v in (found.validation, found.mean, loss))])
    about = "Means over the seeds; the loss is in units of the target's standard deviation. "
    about += DAGGER.format("results.md")
    return table(["", "validation MAE", "test MAE", "last training loss"], rows, about)


def _cells(found: Sequence[Summary], digits: int) -> list[str]:
    """Test, validation and the paper's value of some cells."""
    shown = []
    for one in found:
        mean = _value(one.mean, digits)
        if one.spread is not None:
            mean += f" ± {one.spread:.{digits}f}"
        elif one.records:
            mean += " (1 seed)"
        shown += [mean, _value(one.validation, digits), _value(one.paper, digits)]
    return shown


def _about(what: str, report: TableReport) -> str:
    """What the numbers are, the number of seeds, the devices, what is missing."""
    about = f"{what}; {seeds_text(report)}; {_devices(report)}."
    return " ".join(word for word in (about, missing_text(report)) if word)


def _devices(report: TableReport) -> str:
    return ", ".join(sorted({record.device for record in report.records}))


def _value(value: float | None, digits: int) -> str:
    return "—" if value is None else number(value, digits)
