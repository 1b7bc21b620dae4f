"""The page: one HTML file that needs nothing else, on a laptop and a phone, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from smpgnn.experiments.records import Choice
from smpgnn.experiments.tables import SELECTIONS
from smpgnn.report.collect import Report, TableReport
from smpgnn.report.curves import loss_figures, scaling_figures, validation_figures
from smpgnn.report.extrapolation import TITLE as LARGER
from smpgnn.report.extrapolation import extrapolation_figures
from smpgnn.report.figures import standalone
from smpgnn.report.html_tables import (
    choices_table,
    costs_table,
    results_table,
    runs_table,
    scaling_table,
    settings_list,
    shared_settings,
    timings_table,
)
from smpgnn.report.markdown import seeds_text

LARGER_TEXT = (
    "The networks of the table, as trained, on test graphs of growing size; the first point is the "
    "table's. Lines are means over the seeds, bands reach from the lowest to the highest."
)
TITLE = "Structural message-passing: results beside the paper's"


def page(report: Report) -> str:
    """The whole page."""
    sections = [(t.table.name, t.table.title, _table_section(t)) for t in report.tables]
    by_name = {table.table.name: table for table in report.tables}
    for selection in SELECTIONS.values():
        charts = loss_figures(selection, by_name[selection.table])
        if charts:
            text = f"<p>From the records of {escape(selection.table)}.</p>{_figures(charts)}"
            sections.append((selection.name, selection.title, text))
    if report.scaling or report.timings:
        sections.append(("scaling", "Time and memory by the size of graphs", _benchmarks(report)))
    if report.reduced:
        sections.append(("reduced", "Reduced runs: not comparable", _reduced(report.reduced)))
    links = "".join(
        f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title, _ in sections
    )
    body = "".join(
        f'<section id="{name}"><h2>{escape(title)}</h2>{content}</section>'
        for name, title, content in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{TITLE}</title><style>\n{_asset('style.css')}</style></head><body>\n"
        f"<header><h1>{TITLE}</h1>{_introduction(report)}</header>"
        f"<nav aria-label='Tables'><ul>{links}</ul></nav>\n<main>{body}</main>\n"
        f"<script>\n{_asset('sort.js')}</script></body></html>\n"
    )


def _introduction(report: Report) -> str:
    full = [record for record in report.records if not record.reduced]
    devices = sorted({record.device for record in full})
    commits = sorted({record.commit or "unknown" for record in full})
    lines = [
        "Vignac, Loukas and Frossard: Building powerful and equivariant graph neural networks with "
        "structural message-passing, NeurIPS 2020. The paper gives no spread over seeds.",
        f"{len(full)} records of full runs"
        + (f" on {', '.join(devices)}; source at {', '.join(commits)}." if full else "."),
        "A cell holds our mean over the seeds, ± the standard deviation over them, the paper's "
        "number and the difference (ours minus the paper's; green: ours is better). Bold is the "
        "best of a column. A click on a head sorts.",
    ]
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def _table_section(report: TableReport) -> str:
    table = report.table
    parts = []
    if report.records:
        about = f"{table.metric}. {seeds_text(report)}. Protocol {report.protocol_text}."
        parts.append(f"<p>{_upper(about)}</p>")
    else:
        parts.append(
            f"<p>{_upper(table.metric)}. Not trained yet: "
            f"<code>smpgnn reproduce {escape(table.name)}</code>.</p>"
        )
    if table.note:
        parts.append(f'<p class="muted">{escape(table.note)}</p>')
    if report.records or report.paper is not None:
        parts.append(results_table(report))
    if report.records:
        parts += _details(report)
    return "".join(parts)


def _details(report: TableReport) -> list[str]:
    charts, larger = validation_figures(report), extrapolation_figures(report)
    parts = []
    if larger:
        parts.append(f"<h3>{LARGER}</h3><p>{LARGER_TEXT}</p>{_figures(larger)}")
    if charts:
        parts.append(_folded("Training curves", _curve_text(report) + _figures(charts)))
    parts.append(_folded("Time and memory", costs_table(report)))
    choices = _choices(report)
    if choices:
        rule = escape(choices[0].rule)
        parts.append(_folded("Learning rates", f"<p>Rule: {rule}.</p>{choices_table(choices)}"))
    first = [records[0] for _, _, records in report.trainings]
    every = [record for _, _, records in report.trainings for record in records]
    if first:
        shared = settings_list(shared_settings(every))
        parts.append(
            _folded(
                "Settings of each run",
                f"<p>All runs share:</p>{shared}<p>Each has of its own:</p>{runs_table(report)}",
            )
        )
    return parts


def _curve_text(report: TableReport) -> str:
    several = any(len(records) > 1 for _, _, records in report.trainings)
    band = " Lines are means over the seeds, bands reach from the lowest to the highest."
    return f"<p>Validation metric after each epoch.{band if several else ''}</p>"


def _choices(report: TableReport) -> list[Choice]:
    found = {
        (record.search.row, record.search.training): record.search
        for _, _, records in report.trainings
        for record in records
        if record.search is not None
    }
    return list(found.values())


def _benchmarks(report: Report) -> str:
    parts = []
    for scaling in report.scaling:
        about = f"{scaling.name}: {scaling.what}, by the number of nodes ({scaling.device})"
        parts.append(f"<h3>{escape(about)}</h3>{_figures(scaling_figures(scaling))}")
        parts.append(scaling_table(scaling))
    for timings in report.timings:
        parts.append(f"<h3>{escape(timings.name)} ({escape(timings.device)})</h3>")
        parts.append(timings_table(timings))
    return "".join(parts)


def _reduced(reports: Sequence[TableReport]) -> str:
    parts = [
        '<p class="warning">These runs had fewer epochs or graphs, or other settings, than the '
        "tables ask for. They show that the machinery works, and nothing about the methods.</p>"
    ]
    for report in reports:
        parts.append(f"<h3>{escape(report.table.title)}</h3><p>{_upper(report.table.metric)}.</p>")
        parts.append(results_table(report))
        parts += _details(report)
    return "".join(parts)


def _upper(text: str) -> str:
    return escape(text[0].upper() + text[1:])


def _figures(charts: Sequence[str]) -> str:
    inner = "".join(f"<figure>{chart}</figure>" for chart in charts)
    return f'<div class="figures">{inner}</div>'


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def extrapolation_figure(report: Report) -> str:
    """The first chart of larger graphs as an SVG file, '' if there is none."""
    charts = [chart for table in report.tables for chart in extrapolation_figures(table)]
    return standalone(charts[0], _asset("style.css")) if charts else ""


def _asset(name: str) -> str:
    return files("smpgnn.report").joinpath(name).read_text(encoding="utf-8")
