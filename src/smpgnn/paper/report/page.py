"""The page: one self-contained HTML file, filled from the templates beside this module."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from smpgnn.paper.report import curves, words
from smpgnn.paper.report.charts import svg
from smpgnn.paper.report.collect import Report
from smpgnn.paper.report.overview import overview


@dataclass(frozen=True)
class Section:
    """A section of the page: its anchor, and the macro of sections.html that shows its content."""

    name: str
    title: str
    kind: str
    content: Any


def page(report: Report) -> str:
    """The whole page."""
    environment = Environment(
        loader=PackageLoader("smpgnn.paper.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"svg": svg, "setting": setting, "formula": _formula}
    for shared in (words.number, words.signed, words.sentence):
        environment.filters[shared.__name__] = shared
    environment.globals |= {"words": words, "curves": curves}
    return environment.get_template("page.html").render(
        full=[record for record in report.records if not record.reduced],
        overview=overview(report),
        sections=_sections(report),
    )


def _sections(report: Report) -> list[Section]:
    """The paper's tables, its figure, tables beyond the paper, costs, and what is not trained."""
    sections = [Section(t.table.name, t.table.title, "one_table", t) for t in report.of_the_paper]
    for losses in report.losses:
        chosen = losses.selection
        sections.append(Section(chosen.name, chosen.title, "losses", losses))
    sections += [Section(t.table.name, t.table.title, "one_table", t) for t in report.beyond]
    benchmarks = [*report.scaling, *report.timings]
    others = [
        Section("scaling", "Time and memory by graph size", "benchmarks", benchmarks),
        Section("reduced", "Reduced runs: not comparable", "reduced", report.reduced),
        Section("protocols", "How the networks were trained", "protocols", report.protocol_texts),
        Section("to-come", "Not trained yet", "to_come", report.to_come),
    ]
    return sections + [section for section in others if section.content]


def setting(value: Any) -> str:
    """A setting or a measured value in words."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _formula(text: str) -> Markup:
    """'n chi c^2' with χ and a superscript."""
    shown = str(escape(text or "—")).replace("chi", "χ")
    return Markup(re.sub(r"\^(\d)", r"<sup>\1</sup>", shown))
