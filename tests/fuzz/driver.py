"""Run cases of one format for a given time; minimise and keep the failures."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from fuzz.cases import Case, Maker
from fuzz.program import Outcome, Program
from fuzz.rule import broken

_SMALLER = 4.0  # seconds to minimise a failure
_HANG = 300.0  # seconds after which a call that cannot be interrupted ends the process


@dataclass
class Failure:
    """One way in which the rule was broken, with the first such case, minimised."""

    what: str
    case: Case
    number: int
    outcome: Outcome
    times: int = 1
    folder: Path | None = None


@dataclass
class Report:
    """The results of a run on one format."""

    format: str
    seed: int
    cases: int = 0
    seconds: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    failures: dict[str, Failure] = field(default_factory=dict)

    def line(self) -> str:
        rate = 60 * self.cases / max(self.seconds, 1e-9)
        counts = ", ".join(f"{count} {name}" for name, count in self.statuses.most_common())
        return (
            f"{self.format:<9} {self.cases:>7} cases in {self.seconds:.0f} s ({rate:,.0f} a minute)"
            f", seed {self.seed}: {counts}; {len(self.failures)} failures"
        )


class Driver:
    """Runs the cases of one format in a separate folder.

    Args:
        models: a folder with trained models, which the cases find under their names.
        keep: where reproductions of failures are written.
        scratch: a folder to work in. If the process dies, it holds the files of the last case, and
            its command line in `command.sh`.
    """

    def __init__(self, models: Path, keep: Path, scratch: Path) -> None:
        self.keep, self.scratch = keep.resolve(), scratch.resolve()
        # without the data next to them, which a case might write to
        self.runs = [file.parent for file in sorted(models.resolve().glob("*/config.yaml"))]

    def run(
        self,
        name: str,
        make: Maker,
        *,
        seconds: float,
        seed: int,
        first: int = 0,
        most: int | None = None,
    ) -> Report:
        """Try cases `first`, `first + 1`, …; each depends only on the seed and its number."""
        report = Report(name, seed)
        names = [run.name for run in self.runs]
        with self._place() as folder, Program(names) as program, _Watch() as watch:
            number = first
            while report.seconds < seconds and report.cases != most:
                begun = time.monotonic()
                watch.alive()
                case = make(Random(f"{seed}/{name}/{number}"))
                what, outcome = self._broken(program, folder, case)
                report.seconds += time.monotonic() - begun
                report.cases += 1
                kind = "to the first epoch" if outcome.started else f"with status {outcome.status}"
                report.statuses[kind] += 1
                if what in report.failures:
                    report.failures[what].times += 1
                elif what is not None:
                    self._keep(program, folder, Failure(what, case, number, outcome), report)
                number += 1
        return report

    @contextlib.contextmanager
    def _place(self) -> Iterator[Path]:
        """The working folder of the cases, with a link to each trained model."""
        folder = self.scratch / "work"
        folder.mkdir()
        for run in self.runs:
            (folder / run.name).symlink_to(run)
        here = Path.cwd()
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(here)
            shutil.rmtree(folder)

    def _keep(self, program: Program, folder: Path, failure: Failure, report: Report) -> None:
        """Minimise a new failure and save its reproduction."""
        failure.case = self._smaller(program, folder, failure.case, failure.what)
        what, outcome = self._broken(program, folder, failure.case)
        if what == failure.what:
            failure.outcome = outcome
        report.failures[failure.what] = failure
        self._save(report, failure)

    def _broken(self, program: Program, folder: Path, case: Case) -> tuple[str | None, Outcome]:
        case.save(folder)
        before = _content(folder)
        _write_command(self.scratch / "command.sh", case)
        outcome = program.call(case.words, interrupt=case.interrupt, trains=case.trains)
        what = broken(case, outcome, before, _content(folder))
        os.chdir(folder)
        _empty(folder)
        return what, outcome

    def _smaller(self, program: Program, folder: Path, case: Case, what: str) -> Case:
        """Remove as much as possible from the files while the rule is broken in the same way."""
        deadline = time.monotonic() + _SMALLER

        def same(other: Case) -> bool:
            return self._broken(program, folder, other)[0] == what

        if "TooSlow" in what or case.interrupt is not None:
            return case
        for name in sorted(case.files, key=lambda key: -len(case.files[key])):
            size = max(1, len(case.files[name]) // 2)
            while size and time.monotonic() < deadline:
                start = 0
                while start < len(case.files[name]) and time.monotonic() < deadline:
                    data = case.files[name]
                    shorter = data[:start] + data[start + size :]
                    other = replace(case, files={**case.files, name: shorter})
                    if same(other):
                        case = other
                    else:
                        start += size
                size //= 2
        return case

    def _save(self, report: Report, failure: Failure) -> None:
        """Save the files, command line and traceback of a failure in a new folder."""
        name = f"{report.format}-{report.seed}-{failure.number}"
        folder = self.keep / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        failure.case.save(folder)
        for run in self.runs:
            if run.name in failure.case.words and not (folder / run.name).exists():
                shutil.copytree(run, folder / run.name)
        _write_command(folder / "command.sh", failure.case)
        text = f"{failure.what}\n\n{failure.outcome.err}\n{failure.outcome.error}"
        (folder / "what.txt").write_text(text, "utf-8", "backslashreplace")
        failure.folder = folder


class _Watch:
    """Ends the process with a traceback if a call hangs and no signal can interrupt it."""

    def __init__(self) -> None:
        self._armed = float("-inf")

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, *details: object) -> None:
        faulthandler.cancel_dump_traceback_later()

    def alive(self) -> None:
        """Call this between cases."""
        if time.monotonic() - self._armed > _HANG / 10:
            self._armed = time.monotonic()
            faulthandler.dump_traceback_later(_HANG, exit=True, file=sys.__stderr__)


def _write_command(file: Path, case: Case) -> None:
    file.write_text(case.command() + "\n", "utf-8", "surrogateescape")


def _content(folder: Path) -> dict[str, bytes]:
    """The files below a folder; models are links, which are not followed."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in files:
            path = os.path.join(root, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = file.read()
            else:
                found[os.path.relpath(path, folder)] = b"(special)"
        if root != str(folder) and not files and not folders:
            found[os.path.relpath(root, folder) + "/"] = b""
    return found


def _empty(folder: Path) -> None:
    for entry in os.scandir(folder):
        if entry.is_symlink():
            continue
        if entry.is_dir():
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)
