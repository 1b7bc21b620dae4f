"""A plain baseline beside the network: boosted trees on fingerprints and descriptors.

It has the same split, targets and weights as the network, and its own features: Morgan
fingerprints, RDKit descriptors, and the columns that the network has at its head.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smpgnn.data.molecule_features import morgan_bits, rdkit_descriptors
from smpgnn.data.store import GraphStore
from smpgnn.training.prepare import Prepared
from smpgnn.training.tasks import Task
from smpgnn.training.tasks.base import output_of, parts_of, targets_only
from smpgnn.training.tasks.part import Part

NAME = "gradient boosting"
#: Of the trees, chosen on validation data. Each split chooses among a tenth of the features.
SETTINGS: Mapping[str, Any] = {
    "max_iter": 200, "learning_rate": 0.1, "max_features": 0.1, "min_samples_leaf": 10,
    "early_stopping": False,
}  # fmt: skip
#: Maximum number of training values, of one target and of all together: it must take seconds.
MOST_ROWS, MOST_VALUES = 10_000, 60_000
#: Targets above which there is no baseline.
MOST_TARGETS = 100

Rows = NDArray[np.int64]
#: Computes the quantities of one target from the features of molecules, [n, Q].
Predictor = Callable[[NDArray[np.float32]], Tensor]


def baseline_record(
    prepared: Prepared, seed: int, network: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """The entry 'baseline' of run.json: metrics of the baseline, and which of both is better.

    If there is no baseline, it only says why ('skipped').

    Args:
        prepared: the data of the run, molecules.
        seed: of the trees.
        network: the metrics of the network on 'validation' and 'test'.
    """
    try:
        import sklearn  # noqa: F401
        from threadpoolctl import threadpool_limits  # comes with scikit-learn
    except ImportError:
        why = 'there is no baseline without scikit-learn: pip install "smpgnn[chem]".'
        return {"skipped": why}
    task, start = prepared.task, time.monotonic()
    targets = parts_of(task)
    if len(targets) > MOST_TARGETS:
        return {"skipped": f"there is no baseline for more than {MOST_TARGETS} targets."}
    parts = {"validation": prepared.splits.val, "test": prepared.splits.test}
    short = {"validation": "val", "test": "test"}
    with threadpool_limits(torch.get_num_threads(), "openmp"):
        predict, rows = _fitted(prepared, seed)
        found: dict[str, Any] = {
            part: _metrics(task, store, predict(features(prepared, short[part])))
            for part, store in parts.items()
        }
    return {
        "name": NAME,
        "rows": rows,
        "metric": task.monitor,
        "better": {part: _better(task, network[part], found[part]) for part in parts},
        **found,
        "seconds": round(time.monotonic() - start, 2),
    }


def joined_baseline(
    task: Task, entries: Sequence[dict[str, Any]], network: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """The entry 'baseline' of a run with members, from those of one member of each fold.

    Its metrics are their means, `network` those of the run.
    """
    known = [entry for entry in entries if "name" in entry]
    if len(known) < len(entries) or not entries:
        return next((entry for entry in entries if "skipped" in entry), {})
    found = {part: mean_metrics([one[part] for one in known]) for part in ("validation", "test")}
    better = {part: _better(task, network[part], values) for part, values in found.items()}
    seconds = round(sum(one["seconds"] for one in known), 2)
    return {**known[0], **found, "better": better, "seconds": seconds}


def mean_metrics(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric that all have."""
    shared = [name for name in values[0] if all(name in one for one in values)]
    return {name: fmean(one[name] for one in values) for name in shared}


def features(prepared: Prepared, part: str, rows: Rows | None = None) -> NDArray[np.float32]:
    """What the baseline knows of the molecules of a split (or of some rows of it)."""
    smiles = prepared.smiles_of(part)
    u = getattr(prepared.splits, part).u
    columns = np.empty((len(smiles), 0)) if u is None else u.numpy()
    if rows is not None:
        smiles, columns = [smiles[row] for row in rows], columns[rows]
    known = [morgan_bits(smiles), rdkit_descriptors(smiles), columns]
    return np.nan_to_num(np.concatenate(known, axis=1).astype(np.float32))


def _fitted(prepared: Prepared, seed: int) -> tuple[Predictor, int]:
    """Computes the outputs of the task from features; also the largest number of rows fitted."""
    train, task = prepared.splits.train, prepared.task
    parts = parts_of(task)
    target = targets_only(train).y
    assert target is not None
    most = max(1, min(MOST_ROWS, MOST_VALUES // len(parts)))
    random = np.random.default_rng(seed)
    chosen = []
    for column in target.unbind(1):
        known = np.flatnonzero(~column.isnan().numpy())
        few = random.permutation(known)[:most] if known.size > most else known
        chosen.append(np.sort(few))
    rows = np.unique(np.concatenate(chosen))
    x = features(prepared, "train", rows)
    weight = np.ones(len(train)) if train.weight is None else train.weight[:, 0].double().numpy()
    predictors = []
    for number, (part, few) in enumerate(zip(parts, chosen, strict=True)):
        y, w = target[:, number].double().numpy()[few], weight[few]
        y = np.log10(y) if part.log10 else y  # bounds count as values
        if part.class_weights:
            w = w * np.asarray(part.class_weights)[y.astype(int)]
        predictors.append(_predictor(part, x[np.searchsorted(rows, few)], y, w, seed))
    largest = max(few.size for few in chosen)

    def predict(x: NDArray[np.float32]) -> Tensor:
        return output_of(task, torch.cat([predictor(x) for predictor in predictors], dim=1))

    return predict, largest


def _predictor(
    part: Part, x: NDArray[np.float32], y: NDArray[Any], weight: NDArray[Any], seed: int
) -> Predictor:
    """Fit the trees of one target."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    varied = _splittable(x)
    settings: dict[str, Any] = {**SETTINGS, "random_state": seed}
    if not part.classes:
        numbers: Any = HistGradientBoostingRegressor(**settings).fit(x[:, varied], y, weight)
        return lambda x: torch.from_numpy(numbers.predict(x[:, varied])).unsqueeze(1)
    shown = slice(len(part.classes) - len(part.columns), None)  # of two classes perhaps the second
    labels, counts = np.unique(y[weight > 0].astype(int), return_counts=True)
    # of the rows and one more of each class, so that no probability is 0
    usual = np.ones(len(part.classes))
    usual[labels] += counts
    usual /= usual.sum()
    if labels.size < 2:
        return lambda x: torch.from_numpy(np.tile(usual, (len(x), 1)))[:, shown]
    trees: Any = HistGradientBoostingClassifier(**settings).fit(x[:, varied], y, weight)

    def shares(x: NDArray[np.float32]) -> Tensor:
        found = np.tile(usual, (len(x), 1)) * 1e-6
        found[:, trees.classes_.astype(int)] += trees.predict_proba(x[:, varied])
        return torch.from_numpy(found / found.sum(1, keepdims=True))[:, shown]

    return shares


def _splittable(x: NDArray[np.float32]) -> NDArray[np.int64]:
    """The features that can split the rows into two leaves: others only cost time."""
    usual = (x == np.median(x, axis=0)).sum(0)
    found = np.flatnonzero(len(x) - usual >= SETTINGS["min_samples_leaf"])
    return found if found.size else np.zeros(1, dtype=np.int64)


def _metrics(task: Task, store: GraphStore, output: Tensor) -> dict[str, float]:
    metrics = task.metrics()
    task.update(metrics, output, targets_only(store))
    return task.defined(metrics)


def _better(task: Task, network: Mapping[str, float], baseline: Mapping[str, float]) -> str:
    """'network', 'baseline', or 'none' if they are equal or the metric has no value."""
    if not {task.monitor} <= {*network} & {*baseline}:
        return "none"
    one, other = network[task.monitor], baseline[task.monitor]
    if one == other:
        return "none"
    return "network" if (one > other) == task.larger_is_better else "baseline"
