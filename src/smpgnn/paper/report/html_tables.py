"""Tables of the page: sortable, in a box that scrolls on a narrow screen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from statistics import fmean
from typing import Any

from smpgnn.paper.experiments.records import Choice, Record, Trial
from smpgnn.paper.experiments.table import Selection, Table
from smpgnn.paper.report.collect import Scaling, Summary, TableReport, Timings, training_label
from smpgnn.paper.report.columns import Group, column_groups
from smpgnn.paper.report.losses import cell_labels, epoch_times
from smpgnn.paper.report.markdown import number, signed
from smpgnn.paper.report.overview import Line


@dataclass(frozen=True)
class Entry:
    """A cell: its HTML, and the value that it is sorted by ('' stays last)."""

    html: str
    value: str = ""
    kind: str = ""


def text(content: str) -> Entry:
    return Entry(escape(content), content, "text")


def figure(value: float, shown: str) -> Entry:
    return Entry(escape(shown), repr(float(value)))


def sortable(
    heads: Sequence[str], rows: Sequence[Sequence[Entry]], groups: Sequence[Group] = ()
) -> str:
    """A table whose columns sort; the first entry of a row is its head.

    With `groups` the columns after the first stand under the groups' names.
    """
    starts, body = _starts(groups), []
    for first, *rest in rows:
        cells = "".join(
            f'<td data-value="{escape(entry.value)}"{_class(entry.kind, place in starts)}>'
            f"{entry.html}</td>"
            for place, entry in enumerate(rest)
        )
        body.append(
            f'<tr><th scope="row" data-value="{escape(first.value)}">{first.html}</th>{cells}</tr>'
        )
    return (
        '<div class="scroll" tabindex="0"><table class="sortable">'
        f"<thead>{_head(heads, rows, groups)}</thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _head(heads: Sequence[str], rows: Sequence[Sequence[Entry]], groups: Sequence[Group]) -> str:
    """One line of heads, or the groups above them; the first head stands beside both."""
    words = {p for row in rows[:1] for p, entry in enumerate(row[1:]) if entry.kind}
    starts, span = _starts(groups), ' rowspan="2"' if groups else ""
    first, *rest = (f'<button type="button">{escape(name)}</button>' for name in heads)
    first = f'<th scope="col"{span}>{first}</th>'
    line = "".join(
        f'<th scope="col"{_class("text" if place in words else "", place in starts)}>{name}</th>'
        for place, name in enumerate(rest)
    )
    if not groups:
        return f"<tr>{first}{line}</tr>"
    above = "".join(
        f'<th scope="colgroup" colspan="{len(group.heads)}"'
        f"{_class('group', place > 0)}><span>{escape(group.name)}</span></th>"
        for place, group in enumerate(groups)
    )
    return f"<tr>{first}{above}</tr><tr>{line}</tr>"


def _starts(groups: Sequence[Group]) -> set[int]:
    """Where groups begin, but for the first."""
    return set(accumulate(len(group.heads) for group in groups[:-1]))


def _class(kind: str, start: bool) -> str:
    names = " ".join(name for name in (kind, "start" if start else "") if name)
    return f' class="{names}"' if names else ""


def results_table(report: TableReport) -> str:
    """Ours with the spread over seeds, the paper's figure and the difference below."""
    best = {cell.name: report.best(cell.name) for cell in report.cells}
    rows = [
        [
            text(row.name),
            *(
                _result(report, report.summary(row.name, cell.name), best[cell.name])
                for cell in report.cells
            ),
        ]
        for row in report.rows
    ]
    groups = column_groups(report.cells)
    heads = [head for group in groups for head in group.heads]
    return sortable(["method", *heads], rows, groups if len(groups) > 1 else ())


def overview_table(lines: Sequence[Line]) -> str:
    """What SMP has reached, a line for each group of columns, with links to the tables."""
    heads = ["mean over the columns", "SMP", "paper's SMP", "best other", "what is measured"]
    return sortable(heads, [_overview_line(line) for line in lines])


def _overview_line(line: Line) -> list[Entry]:
    table, digits = line.report.table, line.report.table.digits
    start, _, about = table.title.partition(": ")
    name = start if start.startswith("Table") else table.name.replace("_", " ")
    shown = f"{name}, {line.columns}" if line.columns else name
    metric = table.metric.partition(", ")[0]
    better = "" if table.larger_is_better else ", lower is better"
    part = f" <small>{line.trained} of {line.of} columns</small>" if line.trained < line.of else ""
    best = Entry("—")
    if line.other is not None:
        mean, row = line.other.mean, escape(line.other.row)
        best = Entry(f"{number(mean, digits)}<small>{row}</small>", repr(mean))
    # 'SMP' stands in the head already
    kind = line.ours.row.removeprefix("SMP").removeprefix(", ")
    ours = f"<strong>{number(line.ours.mean, digits)}</strong>"
    if kind:
        ours += f"<small>{escape(kind)}</small>"
    return [
        Entry(f'<a href="#{table.name}">{escape(shown)}</a>{part}', shown),
        Entry(ours, repr(line.ours.mean)),
        Entry("—") if line.paper is None else figure(line.paper, number(line.paper, digits)),
        best,
        Entry(escape(f"{metric}{better}: {about}"), about, "text long"),
    ]


def _result(report: TableReport, summary: Summary, best: float | None) -> Entry:
    digits, lines = report.table.digits, []
    if summary.mean is None:
        lines.append('<span class="muted">—</span>')
    else:
        shown = number(summary.mean, digits)
        kind = ' class="best"' if best is not None and shown == number(best, digits) else ""
        lines.append(f"<span{kind}>{shown}</span>")
        if summary.spread is not None:
            lines.append(f' <small class="spread">±{summary.spread:.{digits}f}</small>')
    if summary.paper is not None:
        lines.append(f"<small>paper {number(summary.paper, digits)}</small>")
    if summary.difference is not None:
        better = (summary.difference > 0) == report.table.larger_is_better
        shown = signed(summary.difference, digits)
        kind = "" if float(shown.replace("−", "-")) == 0 else "good" if better else "bad"
        lines.append(f'<small class="{kind}">{shown}</small>')
    return Entry("".join(lines), "" if summary.mean is None else repr(summary.mean))


def costs_table(report: TableReport) -> str:
    """Time and memory of each training, means over the seeds."""
    heads = [
        "method", "trained for", "parameters", "seeds", "epochs", "best epoch", "time a run (s)",
        "time an epoch (s)", "peak memory (MiB)", "memory of", "at a time", "device",
    ]  # fmt: skip
    rows = []
    for row, label, records in report.trainings:
        first = records[0]
        means = [
            (fmean(r.epochs for r in records), ".0f"),
            (fmean(r.best_epoch for r in records), ".0f"),
            (fmean(r.wall_time_s for r in records), ",.1f"),
            (fmean(r.seconds_per_epoch for r in records), ".3g"),
            (max(r.peak_memory_mib for r in records), ",.0f"),
        ]
        rows.append(
            [
                text(row),
                text(label),
                figure(first.parameters, f"{first.parameters:,}"),
                figure(len(records), str(len(records))),
                *(figure(value, format(value, how)) for value, how in means),
                text(first.memory_of),
                figure(first.jobs, str(first.jobs)),
                text(first.device),
            ]
        )
    return sortable(heads, rows)


def epoch_times_table(selection: Selection, report: TableReport) -> str:
    """The time of an epoch of the trainings whose losses are drawn."""
    labels = cell_labels(report)
    rows = [
        [
            text(name),
            *(
                Entry("—")
                if time is None
                else Entry(
                    f"{time.seconds:.3g} s<small>{time.jobs} at a time</small>", repr(time.seconds)
                )
                for time in times
            ),
        ]
        for name, times in epoch_times(selection, report).items()
    ]
    return sortable(["time an epoch", *(labels[cell] for cell in selection.cells)], rows)


def choices_table(table: Table, choices: Sequence[Choice]) -> str:
    """The candidates of each search with their values on held-back training graphs."""
    labels = {training.name: training_label(table, training) for training in table.trainings}
    rows = [
        [
            text(choice.row),
            text(labels.get(choice.training, choice.training)),
            figure(trial.lr, f"{trial.lr:g}"),
            text(trial.readout),
            Entry(escape(trial.error or "—"), "", "text")
            if trial.validation is None
            else figure(trial.validation, f"{trial.validation:.4g}"),
            figure(trial.epochs, str(trial.epochs)),
            Entry("<strong>chosen</strong>", "chosen", "text") if _won(trial, choice) else text(""),
        ]
        for choice in choices
        for trial in choice.trials
    ]
    metric = choices[0].metric
    heads = ["method", "chosen at", "rate", "readout", f"held back: {metric}", "epochs", "result"]
    return sortable(heads, rows)


def _won(trial: Trial, choice: Choice) -> bool:
    return (trial.lr, trial.readout) == (choice.chosen, choice.chosen_readout)


def shared_settings(records: Sequence[Record]) -> dict[str, Any]:
    """The settings that all records have in common."""
    first = records[0].config
    return {
        name: value
        for name, value in first.items()
        if all(record.config.get(name) == value for record in records)
    }


def settings_list(settings: dict[str, Any]) -> str:
    entries = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(_shown(value))}</dd></div>"
        for name, value in settings.items()
    )
    return f"<dl>{entries}</dl>"


def runs_table(report: TableReport) -> str:
    """Every run: what it has of its own among the settings, its value, versions and commit."""
    records = [r for _, _, several in report.trainings for r in several]
    labels = {id(r): label for _, label, several in report.trainings for r in several}
    shared = shared_settings(records)
    own = [name for name in records[0].config if name not in shared]
    versions = list(dict.fromkeys(name for record in records for name in record.versions))
    rows = [
        [
            text(record.row),
            text(labels[id(record)]),
            figure(record.seed, str(record.seed)),
            *(_setting(record.config.get(name)) for name in own),
            text(record.protocol),
            text(record.commit or "—"),
            *(text(record.versions.get(name, "—")) for name in versions),
        ]
        for record in records
    ]
    return sortable(["method", "trained for", "seed", *own, "protocol", "commit", *versions], rows)


def timings_table(timings: Timings) -> str:
    """A benchmark that is a list of cases, as it is."""
    heads = list(dict.fromkeys(name for row in timings.rows for name in row))
    rows = [[_setting(row.get(name)) for name in heads] for row in timings.rows]
    return sortable([name.replace("_", " ") for name in heads], rows)


def scaling_table(scaling: Scaling) -> str:
    """The measured growth with the number of nodes, beside what the paper states for a layer."""
    if not any(method.paper_memory or method.paper_time for method in scaling.methods):
        rows = [
            [text(method.name), _exponent(method.memory_exponent), _exponent(method.time_exponent)]
            for method in scaling.methods
        ]
        return sortable(["method", "memory grows with", "time grows with"], rows)
    rows = [
        [
            text(method.name),
            _formula(method.paper_memory),
            _exponent(method.memory_exponent),
            _formula(method.paper_time),
            _exponent(method.time_exponent),
        ]
        for method in scaling.methods
    ]
    return sortable(["method", "paper: memory", "measured", "paper: time", "measured"], rows)


def _formula(words: str) -> Entry:
    """'n chi c^2' as it is written."""
    shown = re.sub(r"\^(\d)", r"<sup>\1</sup>", escape(words or "—").replace("chi", "χ"))
    return Entry(shown, words, "text")


def _exponent(value: float | None) -> Entry:
    if value is None:
        return Entry("—")
    return Entry(f"n<sup>{value:.2f}</sup>", repr(value))


def _setting(value: Any) -> Entry:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return text("" if value is None else _shown(value))
    return figure(value, _shown(value))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
