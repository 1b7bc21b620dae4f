"""The page: one HTML file that needs nothing else, on a laptop and a phone, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from smpgnn.paper.experiments.records import Choice
from smpgnn.paper.report import losses
from smpgnn.paper.report.collect import Report, TableReport
from smpgnn.paper.report.curves import scaling_figures, validation_figures
from smpgnn.paper.report.extrapolation import TITLE as LARGER
from smpgnn.paper.report.extrapolation import extrapolation_figures
from smpgnn.paper.report.figures import standalone
from smpgnn.paper.report.html_tables import (
    choices_table,
    costs_table,
    epoch_times_table,
    overview_table,
    results_table,
    runs_table,
    scaling_table,
    settings_list,
    shared_settings,
    timings_table,
)
from smpgnn.paper.report.markdown import EXTRAPOLATION, missing_text, seeds_text
from smpgnn.paper.report.overview import overview

LARGER_TEXT = (
    "The networks of the table, as trained, on test graphs of growing size; the first point is the "
    "table's. Lines are means over the seeds, bands reach from the lowest to the highest."
)
TITLE = "Structural message-passing: results beside the paper's"
ABOUT = (
    "Structural message-passing (SMP) gives every node of a graph a local context: a matrix with a "
    "row for every other node. Here is what SMP and its baselines, trained with smpgnn, reach "
    "on the tables of Vignac, Loukas and Frossard (Building powerful and equivariant graph neural "
    "networks with structural message-passing, NeurIPS 2020), beside the numbers printed there."
)
READING = (
    "Tables: a cell holds our mean over the seeds, ± their standard deviation where there are "
    "several, the paper's number and the difference (ours minus the paper's; green: ours is "
    "better). Bold is the best of a column, — what is not trained. A click on a head sorts. Where "
    "our SMP differs from the paper's, the note above the table says in what."
)
#: What the benchmarks that are lists of cases measure, by the first word of their names.
TIMINGS = {
    "step": (
        "One training step",
        "Ours; the naive way, with contexts padded to the largest graph and a message per edge; "
        "PPGN and GIN in the same frame. On a GPU ours is recorded as a CUDA graph, eager is the "
        "same without. Memory is the peak of live tensors.",
    ),
    "gpu": (
        "Recorded steps and what the memory of the card allows",
        "Steps that follow one another, one that is waited for (alone), and the floor: the bytes "
        "that the layers must move, at the speed of a large copy.",
    ),
}


@dataclass(frozen=True)
class Section:
    """A part of the page with its anchor."""

    name: str
    title: str
    content: str


def page(report: Report) -> str:
    """The whole page."""
    sections = _sections(report)
    links = "".join(
        f'<li><a href="#{part.name}">{escape(part.title)}</a></li>' for part in sections
    )
    body = "".join(
        f'<section id="{part.name}"><h2>{escape(part.title)}</h2>{part.content}</section>'
        for part in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{TITLE}</title><style>\n{_asset('style.css')}</style></head><body>\n"
        f"<header><h1>{TITLE}</h1>{_introduction(report)}</header>"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n<main>{body}</main>\n'
        f"<script>\n{_asset('sort.js')}</script></body></html>\n"
    )


def _sections(report: Report) -> list[Section]:
    """The paper's tables and figure, what goes beyond it, costs, and what is left."""
    sections = [_table_section(table) for table in report.of_the_paper]
    for selection, table in losses.selections(report):
        content = (
            f"<p>{losses.TEXT}</p>{_figures([*losses.loss_figures(selection, table).values()])}"
            f"{epoch_times_table(selection, table)}"
        )
        sections.append(Section(selection.name, selection.title, content))
    sections += [_table_section(table) for table in report.beyond]
    if report.scaling or report.timings:
        title = "Time and memory by the size of graphs"
        sections.append(Section("scaling", title, _benchmarks(report)))
    if report.reduced:
        title = "Reduced runs: not comparable"
        sections.append(Section("reduced", title, _reduced(report.reduced)))
    if report.protocol_texts:
        texts = "".join(f"<p>{escape(text)}</p>" for text in report.protocol_texts)
        sections.append(Section("protocols", "How the networks were trained", texts))
    if report.to_come:
        sections.append(Section("to-come", "Not trained yet", _to_come(report.to_come)))
    return sections


def _introduction(report: Report) -> str:
    full = [record for record in report.records if not record.reduced]
    lines = overview(report)
    parts = [f"<p>{escape(ABOUT)}</p>"]
    if lines:
        parts.append(overview_table(lines))
    parts.append(f"<p>{escape(READING)}</p>")
    source = f"{len(full)} records of full runs"
    if full:
        devices = sorted({record.device for record in full})
        commits = sorted({record.commit or "unknown" for record in full})
        source += f" on {', '.join(devices)}; source at {', '.join(commits)}"
    text = f"{source}. The paper gives no spread over seeds."
    parts.append(f'<p class="muted">{escape(text)}</p>')
    return "".join(parts)


def _table_section(report: TableReport) -> Section:
    table, parts = report.table, []
    if report.records:
        links = ", ".join(f'<a href="#protocols">{escape(name)}</a>' for name in report.protocols)
        parts.append(
            f"<p>{_upper(f'{table.metric}. {seeds_text(report)}.')} Protocol {links}. "
            f"{escape(missing_text(report))}</p>"
        )
    else:
        parts.append(f"<p>{_upper(table.metric)}. Not trained yet: {_command(report)}.</p>")
    if table.note:
        parts.append(f'<p class="muted">{escape(table.note)}</p>')
    if report.records:
        parts += [results_table(report), *_details(report)]
    else:
        parts.append(_folded("The paper's numbers", results_table(report)))
    return Section(table.name, table.title, "".join(parts))


def _to_come(reports: Sequence[TableReport]) -> str:
    lines = [f"<li>{escape(r.table.title)}: {_command(r)}</li>" for r in reports]
    return f"<ul>{''.join(lines)}</ul>"


def _command(report: TableReport) -> str:
    return f"<code>smpgnn paper reproduce {escape(report.table.name)}</code>"


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
        rule = f"<p>Rule: {escape(choices[0].rule)}.</p>"
        both = any(len({trial.readout for trial in choice.trials}) > 1 for choice in choices)
        title = "Choice of learning rates" + (" and readouts" if both else "")
        parts.append(_folded(title, rule + choices_table(report.table, choices)))
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
        about = f"{scaling.what}, by the number of nodes ({scaling.device})"
        parts.append(f"<h3>{_upper(about)}</h3>{_figures(scaling_figures(scaling))}")
        parts.append(_folded("Measured growth with the number of nodes", scaling_table(scaling)))
    for timings in report.timings:
        title, text = TIMINGS.get(timings.name.split("-")[0], (timings.name, ""))
        shown = f"<p>{escape(text)}</p>" if text else ""
        parts.append(_folded(f"{title} ({timings.device})", shown + timings_table(timings)))
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


def figure_files(report: Report) -> dict[str, str]:
    """The charts that the Markdown shows, as SVG files by their names."""
    larger = [chart for table in report.tables for chart in extrapolation_figures(table)]
    charts = {EXTRAPOLATION: larger[0]} if larger else {}
    for selection, table in losses.selections(report):
        charts |= losses.loss_figures(selection, table)
    return {name: standalone(chart, _asset("style.css")) for name, chart in charts.items()}


def _asset(name: str) -> str:
    return files("smpgnn.paper.report").joinpath(name).read_text(encoding="utf-8")
