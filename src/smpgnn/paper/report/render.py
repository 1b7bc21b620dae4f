"""Fill the templates: the self-contained HTML page, and the Markdown of the documentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smpgnn.pages.environment import environment
from smpgnn.paper.report import curves, words
from smpgnn.paper.report.collect import Report, TableReport
from smpgnn.paper.report.overview import overview

#: The folder of the charts, relative to the Markdown file.
FIGURES = "figures"


@dataclass(frozen=True)
class Section:
    """A section of the page: its anchor, and the macro of sections.html that shows its content."""

    name: str
    title: str
    kind: str
    content: Any


def page(report: Report) -> str:
    """The HTML page."""
    return _filled("page.html", report, overview=overview(report), sections=_sections(report))


def markdown(report: Report) -> str:
    """All tables with records. A cell reads 'ours ± spread (paper, difference)'."""
    return _filled("results.md", report, figures=FIGURES)


def _filled(template: str, report: Report, **values: Any) -> str:
    made = environment("smpgnn.paper.report")
    made.filters |= {one.__name__: one for one in words.FILTERS}
    made.globals["curves"] = curves
    return made.get_template(template).render(report=report, **values)


def _sections(report: Report) -> list[Section]:
    """The paper's tables, its figure, tables beyond the paper, costs, and what is not trained."""

    def section(report: TableReport, kind: str) -> Section:
        return Section(report.table.name, report.table.title, kind, report)

    sections = [section(table, "one_table") for table in report.of_the_paper]
    sections += [section(losses, "losses") for losses in report.losses]
    sections += [section(table, "one_table") for table in report.beyond]
    benchmarks = [*report.scaling, *report.timings]
    others = [
        Section("scaling", "Time and memory by graph size", "benchmarks", benchmarks),
        Section("reduced", "Reduced runs: not comparable", "reduced", report.reduced),
        Section("protocols", "How the networks were trained", "protocols", report.protocol_texts),
        Section("to-come", "Not trained yet", "to_come", report.to_come),
    ]
    return sections + [section for section in others if section.content]
