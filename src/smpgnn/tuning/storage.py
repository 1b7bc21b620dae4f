"""The study of a search: where it is stored, how it starts, and how it continues after a kill."""

from __future__ import annotations

import contextlib
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from smpgnn.config.tuning import TuneOptions
from smpgnn.errors import InputError, reason

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import BaseStorage
    from optuna.study import StudyDirection

#: Seconds between two signs of life in a database, and after which a silent trial is dead.
_BEAT, _DEAD = 60, 300
#: Attributes of a study whose values are too long for messages, and their names there.
_LONG = {"data": "the data", "space": "the searched settings"}


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Only one process at a time begins a study, or writes its results."""
    try:
        (folder / "trials").mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "lock").acquire()
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}.") from error
    with lock:
        yield


def open_study(plan: TuneOptions, folder: Path, direction: StudyDirection) -> Study:
    """The study, new or as it is stored."""
    import optuna

    place = plan.storage or str(folder / "study.log")
    if "://" not in place:
        _check_journal(Path(place))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.create_study(
                study_name=plan.study or folder.absolute().name,
                storage=_storage(place),
                direction=direction,
                load_if_exists=True,
            )
    except Exception as error:  # of a database, its driver, or a damaged file
        raise InputError(
            f"{place}: cannot store a search ({reason(error)}): restore it, or choose another "
            "--storage."
        ) from error


def _check_journal(path: Path) -> None:
    """Refuse a file that is not a journal, to which a search would append."""
    try:
        if not path.exists() or (path.is_file() and path.stat().st_size == 0):
            return
        with path.open("rb") as file:
            line = file.readline(1 << 20)
        if "op_code" not in json.loads(line):
            raise ValueError("no operation")
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{path}: is not a journal of a search: restore it, or choose another --storage."
        ) from error


def _storage(place: str) -> BaseStorage:
    """A database if `place` is a URL, else a journal file."""
    from optuna.storages import JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    if "://" not in place:
        lock = JournalFileOpenLock(place)  # a file; not all systems have links
        return JournalStorage(JournalFileBackend(place, lock))
    again = RetryHeartbeatStaleTrialCallback()
    return RDBStorage(
        place, heartbeat_interval=_BEAT, grace_period=_DEAD, heartbeat_stale_trial_callback=again
    )


def check_same(study: Study, about: Mapping[str, Any], place: str) -> None:
    """Store the attributes of a new study; refuse to continue a study with other attributes."""
    before = study.user_attrs
    for name, value in about.items():
        if name not in before:
            study.set_user_attr(name, value)
        elif before[name] != value:
            different = f"{name} is {value!r}, but the search has {before[name]!r}"
            if name in _LONG:
                different = f"{_LONG[name]} differ"
            raise InputError(
                f"{place}: belongs to another search: {different}: use the same, or choose another "
                "--output."
            )


def trial_folder(folder: Path, number: int) -> Path:
    return folder / "trials" / f"{number:04d}"


def trial_lock(folder: Path, number: int) -> FileLock:
    """A lock that a process holds while it trains this trial."""
    return FileLock(trial_folder(folder, number).with_suffix(".lock"))


def repeat_dead_trials(study: Study, folder: Path) -> int:
    """Fail the trials of killed processes, put their settings into the queue, and count the living.

    Trials of other machines are not counted; a database knows whether they are alive.
    """
    from optuna.trial import TrialState

    living = 0
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        lock = trial_lock(folder, trial.number)
        if not Path(lock.lock_file).exists():
            continue
        try:
            with lock.acquire(blocking=False):
                study.tell(trial.number, state=TrialState.FAIL)
                if trial.params:
                    study.enqueue_trial(trial.params)
        except Timeout:
            living += 1
            continue
        Path(lock.lock_file).unlink(missing_ok=True)
        shutil.rmtree(trial_folder(folder, trial.number), ignore_errors=True)
    return living
