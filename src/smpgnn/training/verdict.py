"""Whether the network is ahead of the plain baseline, in words. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What run.json calls the splits.
_PARTS = ("validation", "test")


def has_folds(record: Mapping[str, Any]) -> bool:
    """Whether the test metrics in a run.json are means over held-out folds."""
    return bool(record.get("test_sd"))


def split_metrics(record: Mapping[str, Any]) -> dict[str, Mapping[str, float]]:
    """The metrics of each split in a run.json, and those of its baseline if it has one."""
    found: dict[str, Mapping[str, float]] = {part: record[part] for part in _PARTS}
    names = {part: part for part in _PARTS}
    alone = record.get("test_of_members")
    single = bool(alone) and alone == record["test"] and not has_folds(record)
    if not record.get("best_epoch") and not single:  # the run has several members
        found = {"validation, mean of members": record["validation"]}
        if has_folds(record):
            names["test"] = "held-out folds"
            found["held-out folds, mean"] = record["test"]
            found["held-out folds, sd"] = record["test_sd"]
        elif record["test"]:
            found["test, mean of members"] = alone or {}
            found["test, ensemble"] = record["test"]
    baseline = record.get("baseline") or {}
    if "name" in baseline:
        found |= {f"{names[part]}, {baseline['name']}": baseline[part] for part in _PARTS}
    return found


def verdict(record: Mapping[str, Any]) -> str:
    """Which of network and baseline is ahead on the test rows, and by the validation rows."""
    baseline = record.get("baseline")
    if not baseline:
        return ""
    if "name" not in baseline:
        text = str(baseline.get("skipped", ""))
        return text[:1].upper() + text[1:]
    metric, better = baseline["metric"], baseline["better"]
    names = {"network": "the network", "baseline": baseline["name"]}
    where = "held-out folds" if has_folds(record) else "test rows"
    values = {"network": record, "baseline": baseline}

    def numbers(part: str) -> str:
        """The winner first."""
        loser = next(one for one in names if one != better[part])
        one, other = (values[which][part][metric] for which in (better[part], loser))
        return f"{metric} {one:.4f} against {other:.4f}"

    if better["test"] in names:
        loser = next(name for one, name in names.items() if one != better["test"])
        first = f"{names[better['test']]} is ahead of {loser} on the {where}: {numbers('test')}"
    elif not record["test"]:
        first = "there are no test rows"
    else:
        first = f"neither the network nor {names['baseline']} is ahead on the {where}"
    if better["validation"] in names:
        also = "also favour" if better["validation"] == better["test"] else "favour"
        chosen = names[better["validation"]]
        second = f"The validation rows {also} {chosen}: {numbers('validation')}"
    else:
        second = "The validation rows favour neither"
    return f"{first[:1].upper()}{first[1:]}. {second}."
