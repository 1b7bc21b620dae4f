"""The rule: status 0 or 2 (130, 143 if interrupted), one sentence, no traceback or partial file."""

from __future__ import annotations

import re

from fuzz.cases import Case
from fuzz.program import MEMORY, Outcome

#: Lines that may accompany an error: notes on input and progress.
_NOTES = re.compile(
    r"^Graphs: |^Training on |^Downloading |left out|of the training data: the metrics|per second$|"
    r"^epoch \d+/|^$|"
    r"^Folds: |^Calibration: |"
    r"^smpgnn: interrupted|could not|"
    r"^Search in |^  [a-z_]+: |^trial \d+: |"
    r"as node|skipped|was started by an older version|^The model is chosen by its log loss\.$|"
    r"^The (validation|test) split has only one class of |^Target '|^Standardised: |^Replicates: |"
    r"^Duplicates: "
)
_LONGEST = 3000


def broken(
    case: Case, outcome: Outcome, before: dict[str, bytes], after: dict[str, bytes]
) -> str | None:
    """How the program broke the rule, or None; `before` and `after` have all files."""
    if outcome.place:
        return outcome.place
    if "Traceback" in outcome.err:
        return "a traceback on stderr"
    allowed = (0, 2) if case.interrupt is None else (0, 2, 130, 143)
    if outcome.status not in allowed:
        return f"exit status {outcome.status}"
    if "Warning:" in outcome.err:
        before_it = outcome.err.partition("Warning:")[0].split()
        return f"a {before_it[-1][-40:] if before_it else ''}Warning on stderr"
    if outcome.mebibytes > MEMORY or "smpgnn: out of memory" in outcome.err:
        return f"more than {MEMORY} MiB of memory"
    if (problem := _sentences(case, outcome)) is not None:
        return problem
    return _files(case, outcome, before, after)


def _sentences(case: Case, outcome: Outcome) -> str | None:
    lines = outcome.err.split("\n")
    if lines.pop():
        return "the last line of stderr has no end"
    said = [line for line in lines if line.startswith("smpgnn")]
    rest = [line for line in lines if not line.startswith("smpgnn") and not _NOTES.search(line)]
    if rest:
        return f"an unexpected line on stderr: {rest[0][:60]!r}"
    if outcome.status == 2:
        if len(said) != 1:
            return f"{len(said)} sentences instead of one"
        if len(said[0]) > _LONGEST:
            return "a sentence without end"
        if not said[0].rstrip("'\")").endswith((".", "?", "!")):
            return "a sentence that does not end"
    if outcome.status == 0 and said:
        return "an error, but exit status 0"
    return None


def _files(
    case: Case, outcome: Outcome, before: dict[str, bytes], after: dict[str, bytes]
) -> str | None:
    def promised(name: str) -> bool:
        return any(name == out or name.startswith(out.rstrip("/") + "/") for out in case.outputs)

    for name in after:
        if ".part" in name:
            return "a part file is left"
    for name, content in before.items():
        if after.get(name) != content and not promised(name):
            return f"the input {name} was changed"
    new = [name for name in after if name not in before]
    for name in new:
        if not promised(name):
            return f"an unexpected file: {name[:80]}"
    if outcome.status == 2 and not case.trains:
        changed = [name for name in after if after[name] != before.get(name)]
        # except the lock of a run folder and the folder of an output
        changed = [name for name in changed if not name.endswith(("/lock", "/"))]
        if changed:
            return f"an output although the call failed: {changed[0][:80]}"
    return None
