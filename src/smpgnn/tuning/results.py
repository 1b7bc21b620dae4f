"""What a search leaves in its folder: best.yaml, trials.csv and study.png."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.config.options import TrainOptions, to_yaml
from smpgnn.files import replacing, write_texts
from smpgnn.training.run_folder import DATA

if TYPE_CHECKING:
    import pandas as pd
    from optuna import Study
    from optuna.trial import FrozenTrial


def best_trial(study: Study) -> FrozenTrial | None:
    """The best finished trial, if there is one."""
    try:
        return study.best_trial
    except ValueError:
        return None


def best_options(options: TrainOptions, trial: FrozenTrial) -> TrainOptions:
    """The settings of a trial, with absolute paths of the data and no output folder."""
    places = {
        name: str(Path(value).absolute()) for name in DATA if (value := getattr(options, name, ""))
    }
    return options.changed(**trial.params, **places, output="")


def trials_table(study: Study, metric: str) -> pd.DataFrame:
    """One row per trial: its state, validation metric, epochs, time and settings."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for trial in study.get_trials(deepcopy=False):
        seconds = None if trial.duration is None else round(trial.duration.total_seconds(), 1)
        rows.append(
            {
                "trial": trial.number,
                "state": trial.state.name.lower(),
                f"validation_{metric}": trial.value if trial.state.name == "COMPLETE" else None,
                "epochs": trial.last_step,
                "best_epoch": trial.user_attrs.get("best_epoch"),
                "parameters": trial.user_attrs.get("parameters"),
                "seconds": seconds,
                **trial.params,
                "note": trial.user_attrs.get("note", ""),
            }
        )
    counts = dict.fromkeys(("epochs", "best_epoch", "parameters"), "Int64")
    frame = pd.DataFrame(rows)
    return frame[[*(name for name in frame if name != "note"), "note"]].astype(counts)


def write_results(study: Study, options: TrainOptions, metric: str, folder: Path) -> None:
    """Write trials.csv and, if a trial has finished, best.yaml."""
    table = trials_table(study, metric)
    texts: dict[str | Path, str] = {
        folder / "trials.csv": table.to_csv(index=False, lineterminator="\n")
    }
    best = best_trial(study)
    if best is not None:
        head = f"# Trial {best.number} of {len(table)}: validation {metric} {best.value:.6g}\n"
        texts[folder / "best.yaml"] = head + to_yaml(best_options(options, best))
    write_texts(texts)


def draw_study(study: Study, metric: str, path: Path) -> None:
    """Plot the history of the search and the importance of each setting (PED-ANOVA)."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from optuna.study import StudyDirection

    done = [t for t in study.get_trials(deepcopy=False) if t.state.name == "COMPLETE"]
    if not done:
        return
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    numbers, values = [t.number for t in done], [t.value for t in done]
    upward = study.direction == StudyDirection.MAXIMIZE
    best = (np.maximum if upward else np.minimum).accumulate(np.array(values, dtype=float))
    left.plot(numbers, values, "o", color="C0", markersize=4, label="trial")
    left.step(numbers, best, where="post", color="C1", label="best so far")
    left.xaxis.get_major_locator().set_params(integer=True)
    left.set(xlabel="trial", ylabel=f"validation {metric}")
    left.legend()
    left.grid(alpha=0.3)
    shares = _importances(study)
    right.barh(list(shares), list(shares.values()), color="C0")
    right.set(xlabel="importance" if shares else "importance: too few trials")
    with replacing(path) as beside:
        figure.savefig(beside, dpi=130, format="png")


def _importances(study: Study) -> dict[str, float]:
    """The importance of each setting, ascending; empty if the trials are too few or equal."""
    from optuna.importance import get_param_importances

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # few trials: all are equally important
            found = get_param_importances(study)
    except (ValueError, RuntimeError):
        return {}
    return dict(reversed(found.items()))
