"""What the page of a run says in words, and its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smpgnn.config.metrics import SMALLER_IS_BETTER
from smpgnn.config.setting import GROUPS
from smpgnn.config.settings import flat, settings
from smpgnn.data.summary import TargetSummary
from smpgnn.pages.predicted import Predicted, parts
from smpgnn.pages.run_files import RunFiles
from smpgnn.pages.words import LABELS, label, measured, setting, short
from smpgnn.training.verdict import has_folds, split_metrics, verdict

#: Targets that a title names.
_NAMED = 3


@dataclass(frozen=True)
class Table:
    """Heads, and rows of cells that begin with their label; None for no value.

    `best` are cells (row, column) that are better than those they are compared with.
    """

    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str | None]]]
    best: frozenset[tuple[int, int]] = frozenset()


def title(run: RunFiles) -> str:
    """Targets and data: 'logS in data.csv'."""
    names = run.task.target_names()
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    file = Path(str(getattr(run.options, "path", ""))).name
    where = f"in {file}" if file else f"({run.options.task_name()})"
    return f"{', '.join(names[:_NAMED])}{more} {where}"


def unit_of(run: RunFiles, name: str) -> str:
    """' (nM)', or '' without a unit."""
    target = run.summary.targets.get(name) if run.summary else None
    return f" ({target.unit})" if target is not None and target.unit else ""


def verdicts(run: RunFiles, targets: Sequence[Predicted]) -> list[str]:
    """How good the predictions are, whether the baseline is better, what intervals contain."""
    compared = verdict(run.record)
    for name, words in LABELS.items():
        compared = compared.replace(f": {name} ", f": {words} ")
    return [text for text in (_quality(run, targets), compared, _coverage(run)) if text]


def _quality(run: RunFiles, targets: Sequence[Predicted]) -> str:
    record, folds = run.record, has_folds(run.record)
    test = record["test"] or record["validation"]
    metric = run.task.monitor
    if metric not in test:
        return ""
    value = f"{label(metric)} {short(test[metric])}"
    if folds and metric in record["test_sd"]:
        value += f" ± {short(record['test_sd'][metric], 2)}"
    if not record["test"]:
        return f"On the validation rows, the network reaches {value}; there are no test rows."
    one = targets[0] if len(targets) == 1 else None
    where = "On the held-out folds" if folds else "On the test rows"
    if one is not None and not folds:
        unit = "molecule" if one.smiles else "row"
        where = f"On {len(one.real):,} test {unit}{'s' if len(one.real) != 1 else ''}"
    notes = {
        "rmse": f"R² {short(test['r2'], 3)}, MAE {short(test['mae'], 3)}" if "r2" in test else "",
        "auc": "0.5 is chance, 1 is perfect",
        "relative_error": "0 is perfect, 1 is no better than a constant",
    }
    note = notes.get(metric, "")
    few = len(run.networks) > 1 and not folds
    who = f"the mean of {len(run.networks)} networks" if few else "the network"
    return f"{where}, {who} reaches {value}{f' ({note})' if note else ''}."


def _coverage(run: RunFiles) -> str:
    found = []
    for name, entry in calibrated(run).items():
        known = [entry.get(key) for key in ("level", "test_coverage", "test_rows", "mean_width")]
        if not all(isinstance(value, int | float) for value in known):
            continue
        target = run.summary.targets.get(name) if run.summary is not None else None
        log = " in log10" if target is not None and target.log10 else ""
        found.append(
            f"Intervals of {entry['level']:.0%} contain {entry['test_coverage']:.0%} of "
            f"{entry['test_rows']:,} test values of {name}; their mean width is "
            f"{short(entry['mean_width'], 3)}{log}."
        )
    return " ".join(found[:_NAMED])


def calibrated(run: RunFiles) -> Mapping[str, Mapping[str, Any]]:
    """What run.json says about the calibration of each target."""
    about = run.record.get("calibration")
    targets = about.get("targets") if isinstance(about, dict) else None
    entries = targets if isinstance(targets, dict) else {}
    return {name: entry for name, entry in entries.items() if isinstance(entry, dict)}


def metric_tables(run: RunFiles, *, each: bool = False) -> list[Table]:
    """The metrics of all splits, and of the baseline; with `each`, those of each target."""
    splits = {name: values for name, values in split_metrics(run.record).items() if values}
    tables = []
    for metrics, targets in run.task.metric_groups():
        shown = metrics or tuple(next(iter(splits.values())))
        rows: list[tuple[str, list[float | None]]] = []
        pairs: list[tuple[str, str]] = []  # split and target of each row
        for split, values in splits.items():
            for target in targets if each else ("",):
                own = [values.get(f"{metric} {target}" if target else metric) for metric in shown]
                rows.append((f"{split}: {target}" if target else split, own))
                pairs.append((split, target))
        cells = [(head, [None if v is None else measured(v) for v in row]) for head, row in rows]
        best = _better(run, shown, rows, pairs)
        tables.append(Table([label(metric) for metric in shown], cells, best))
    return tables


def _better(
    run: RunFiles, metrics: Sequence[str], rows: Any, pairs: Sequence[tuple[str, str]]
) -> frozenset[tuple[int, int]]:
    """Where the network is better than the baseline or the other way round, on test rows."""
    name = (run.record.get("baseline") or {}).get("name")
    test, folds = f"test, {name}", f"held-out folds, {name}"
    baselines = {"test": test, "test, ensemble": test, "held-out folds, mean": folds}
    row_of = {pair: row for row, pair in enumerate(pairs)}
    found = set()
    for (split, target), one in row_of.items():
        other = row_of.get((baselines.get(split, ""), target))
        if other is None:
            continue
        for column, metric in enumerate(metrics):
            first, second = rows[one][1][column], rows[other][1][column]
            if None not in (first, second) and first != second:
                wins = (first < second) == (metric in SMALLER_IS_BETTER)
                found.add((one if wins else other, column))
    return frozenset(found)


def data_facts(run: RunFiles) -> list[tuple[str, str]]:
    """Rows, molecules and splits."""
    sizes = ", ".join(f"{count:,} {name}" for name, count in run.sizes.items())
    folds = any(one.member is not None and one.member.fold for one in run.networks)
    split = getattr(run.options, "split", "")
    if column := getattr(run.options, "split_column", ""):
        split = f"column {column}"
    facts = [("first fold" if folds else "split", f"{sizes}{f' ({split})' if split else ''}")]
    summary = run.summary
    if summary is None:
        return facts if sizes else []
    facts.insert(0, ("rows", f"{summary.rows:,}"))
    if summary.left_out:
        facts[0] = ("rows", f"{summary.rows:,}, of which {summary.left_out:,} are left out")
    if summary.molecules is not None:
        text = f"{summary.molecules:,} different ones"
        if summary.several:
            text += f"; {summary.several:,} have several rows ({summary.several_rows:,} in all)"
        facts.append(("molecules", text))
    if summary.standardize:
        facts.append(("standardized", f"{summary.changed:,} molecules changed"))
    facts += [
        (f"different classes of {name}", f"in rows of {count:,} molecules")
        for name, count in summary.conflicts.items()
        if count
    ]
    return facts


def target_tables(run: RunFiles) -> list[Table]:
    """The values of each target in the data: numbers, then classes."""
    known = run.summary.targets if run.summary is not None else {}
    numbers = {name: one for name, one in known.items() if not one.classes}
    tables = []
    if numbers:
        heads = ["known", "missing", "lowest", "median", "highest", "mean", "sd"]
        bounds = any(one.above or one.below for one in numbers.values())
        heads += ["bounds"] if bounds else []
        rows = [(_named(name, one), _number_cells(one, bounds)) for name, one in numbers.items()]
        tables.append(Table(heads, rows))
    if classes := [(name, one) for name, one in known.items() if one.classes]:
        cells = [
            (name, [f"{one.known:,}", f"{one.missing:,}", _shares(one)]) for name, one in classes
        ]
        tables.append(Table(["known", "missing", "classes"], cells))
    return tables


def _named(name: str, target: TargetSummary) -> str:
    return f"{name} (learned as log10)" if target.log10 else name


def _number_cells(target: TargetSummary, bounds: bool) -> list[str | None]:
    values = (target.low, target.median, target.high, target.mean, target.deviation)
    shown = [None if value is None else short(value) for value in values]
    more = [f"{target.above + target.below:,}"] if bounds else []
    return [f"{target.known:,}", f"{target.missing:,}", *shown, *more]


def _shares(target: TargetSummary) -> str:
    total = max(1, sum(target.classes.values()))
    known = sorted(target.classes.items(), key=lambda pair: -pair[1])
    texts = [f"{name} {count:,} ({count / total:.0%})" for name, count in known[:8]]
    return ", ".join(texts) + (f" and {len(known) - 8} more" if len(known) > 8 else "")


def setting_groups(run: RunFiles) -> tuple[list[tuple[str, str]], dict[str, list[Any]]]:
    """The settings that differ from the defaults, and all by their group."""
    known, values = settings(type(run.options)), flat(run.options)
    changed = [
        (one.option, setting(values[name]))
        for name, one in known.items()
        if values[name] != one.default
    ]
    groups = {
        group: [(one.option, setting(values[name]), values[name] != one.default)
                for name, one in known.items() if one.group == group]
        for group in GROUPS
    }  # fmt: skip
    return changed, {group: rows for group, rows in groups.items() if rows}


def facts(run: RunFiles) -> list[tuple[str, str]]:
    """Network, time, machine and versions."""
    record, networks = run.record, run.networks
    epochs = [int(one.record["epochs"]) for one in networks]
    best = [int(one.record["best_epoch"]) for one in networks]
    trained = f"{_span(epochs)} epochs, best {_span(best)}"
    found = [
        ("network", f"{record.get('model', '')}, {record['parameters']:,} parameters"
         + (f" in {len(networks)} members" if len(networks) > 1 else "")),
        ("trained", f"{trained}, {record['wall_time_s']:,.0f} s on {record['device']}"),
        ("seed", str(record.get("seed", ""))),
    ]  # fmt: skip
    versions = record.get("versions")
    if isinstance(versions, Mapping):
        found.append(("versions", ", ".join(f"{name} {value}" for name, value in versions.items())))
    if record.get("commit"):
        found.append(("commit", str(record["commit"])))
    return found


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def calibration_table(run: RunFiles, name: str) -> Table | None:
    """Log loss, Brier score and ECE of a target before and after its calibration."""
    entry = calibrated(run).get(name, {})
    measures = {"log_loss": "log loss", "brier": "Brier score", "ece": "ECE"}
    found = [entry.get(key) for key in measures]
    if not all(isinstance(values, dict) for values in found):
        return None
    rows = []
    for kind in ("raw", "calibrated"):
        cells = [values.get(kind) for values in found]  # type: ignore[union-attr]
        numbers = [value if isinstance(value, float) else None for value in cells]
        rows.append((kind, [None if value is None else measured(value) for value in numbers]))
    return Table(list(measures.values()), rows)


def error_words(target: Predicted) -> str:
    """What the error of a target is."""
    if target.shares is not None:
        return "1 − probability of the real class"
    return "absolute error (log10)" if target.part.log10 else "absolute error"


def untold(run: RunFiles, shown: Sequence[Predicted]) -> str:
    """The targets that have no section of their own."""
    more = len(parts(run.task)) - len(shown)
    return f"{more} more targets are in test_predictions.csv." if shown and more > 0 else ""
