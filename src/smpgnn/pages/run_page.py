"""The page of a run, report.html: made from the files in its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from smpgnn.files import write_text
from smpgnn.pages import run_charts as charts
from smpgnn.pages import run_words as words
from smpgnn.pages.charts import Chart
from smpgnn.pages.drawn import COUNT, Drawings, Explainer, drawings
from smpgnn.pages.environment import environment
from smpgnn.pages.predicted import Predicted, predicted_targets
from smpgnn.pages.run_files import RunFiles, read_run
from smpgnn.pages.words import short
from smpgnn.training.probabilities import brier_score, calibration_error
from smpgnn.training.run_folder import RunFolder

#: Targets with a section of their own, and of these, targets with drawn molecules.
MOST_TARGETS, MOST_DRAWN = 8, 4


@dataclass(frozen=True)
class Section:
    """The test predictions of one target."""

    target: Predicted
    charts: Sequence[Chart]
    notes: Sequence[str]
    calibration: words.Table | None
    drawings: Drawings | None


def write_report(run: str | Path, output: str | Path | None = None) -> Path:
    """Write the page of a finished run; default: report.html in its folder."""
    path = RunFolder(run).report if output is None else Path(output)
    write_text(path, page(read_run(run)))
    return path


def page(run: RunFiles) -> str:
    targets = predicted_targets(run)
    shown = targets[:MOST_TARGETS]
    changed, groups = words.setting_groups(run)
    folds = charts.by_fold(run)
    several = bool(run.task.metric_names) and len(run.task.target_names()) > 1
    return environment().get_template("run.html").render(
        title=words.title(run),
        verdicts=words.verdicts(run, targets),
        metrics=words.metric_tables(run),
        by_target=words.metric_tables(run, each=True) if several else [],
        units=run.task.units(),
        data=words.data_facts(run),
        values=words.target_tables(run),
        curves=charts.learning_curves(run),
        of_folds=[folds] if folds else [],
        members=len(run.networks),
        sections=_sections(run, shown),
        untold=words.untold(run, shown),
        folds=bool(run.fold),
        most=COUNT,
        changed=changed,
        groups=groups,
        facts=words.facts(run),
    )  # fmt: skip


def _sections(run: RunFiles, targets: Sequence[Predicted]) -> list[Section]:
    explainer = Explainer(run)
    return [
        Section(
            target,
            *_shown(run, target),
            words.calibration_table(run, target.name),
            drawings(target, explainer) if number < MOST_DRAWN else None,
        )
        for number, target in enumerate(targets)
        if len(target.real)
    ]


def _shown(run: RunFiles, target: Predicted) -> tuple[list[Chart], list[str]]:
    """The charts of a target, and what to say about them."""
    found: list[Chart | None] = []
    notes: list[str] = []
    if target.shares is None:
        found.append(charts.parity(target, words.unit_of(run, target.name)))
        notes += _about_numbers(run, target)
    else:
        bins = charts.diagrams(run, target)
        classes = target.part.classes
        event = classes[1] if len(classes) == 2 else "the predicted class"
        found += charts.class_curves(target)
        found.append(charts.reliability_diagram(bins, event))
        notes += _about_classes(run, target, bins)
    found.append(charts.error_by_similarity(target, words.error_words(target)))
    if len(target.real) > charts.MOST_DOTS:
        notes.append(f"Charts with dots show {charts.MOST_DOTS:,} rows chosen at random.")
    return [chart for chart in found if chart is not None and chart.drawable], notes


def _about_numbers(run: RunFiles, target: Predicted) -> list[str]:
    notes = ["The dashed line marks perfect predictions."]
    if target.low is not None and target.high is not None:
        inside = (target.low <= target.real) & (target.real <= target.high)
        bars = "Bars are 90% intervals"
        if len(target.real) > charts.MOST_BARS:
            bars += f" of {charts.MOST_BARS} rows chosen at random"
        if run.fold:
            notes.append(f"{bars}; the rows of all folds calibrate them.")
        else:
            notes.append(f"{bars}; {np.mean(inside):.0%} of the intervals contain the real value.")
    return notes


def _about_classes(
    run: RunFiles, target: Predicted, bins: Mapping[str, Sequence[object]]
) -> list[str]:
    assert target.shares is not None
    notes = []
    classes, shown = target.part.classes, charts.shown_classes(target)
    if len(classes) == 2:
        share = float(np.mean(target.real == 1))
        notes.append(f"Curves are about class {classes[1]}, {share:.0%} of these rows.")
    else:
        few = "" if len(shown) == len(classes) else f" of the {len(shown)} largest classes"
        notes.append(f"Each curve{few} is about one class against the others.")
    if run.fold:
        notes.append("They are of the predictions of all folds together.")
    if target.name not in run.reliability:
        brier = brier_score(target.shares, target.real.astype(np.int64))
        error = calibration_error(list(charts.diagrams(run, target)["network"]))
        notes.append(f"Brier score {short(brier, 3)}, ECE {short(error, 3)} (ten bins).")
    else:
        rows = "cross-validation on the held-out folds" if run.fold else "test rows"
        notes.append(f"Reliability before and after calibration: {rows}.")
    return notes
