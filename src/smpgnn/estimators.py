"""SMPRegressor and SMPClassifier: training and prediction as estimators of scikit-learn.

X is a list, array or Series of SMILES, a DataFrame with one column, or a list of graphs of PyTorch
Geometric. Fitted estimators contain the bytes of a model file, so pickling them runs no code of
ours but its reader.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from smpgnn.config.options import GraphsOptions, MoleculesOptions
from smpgnn.config.settings import AnyOptions, settings, with_values
from smpgnn.errors import InputError
from smpgnn.training.fit_data import (
    Array,
    input_list,
    molecule_of_rows,
    validation_part,
    without_targets,
)

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.metrics import accuracy_score, r2_score
    from sklearn.utils import check_consistent_length, check_random_state
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError as error:
    raise InputError(
        "SMPRegressor and SMPClassifier need scikit-learn: pip install scikit-learn."
    ) from error

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.inference.predict import Model
    from smpgnn.training.prepare import Prepared

#: Settings that the estimators choose themselves.
_CHOSEN = (
    "path", "labels", "targets", "task", "level", "split", "split_column", "split_time",
    "split_fractions", "weight_column", "smiles_column", "separator", "seed", "output",
)  # fmt: skip


@dataclass(kw_only=True, eq=False, repr=False)
class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share; None stands for the default of `smpgnn train`.

    Args:
        hidden_channels, num_layers, dropout, readout, epochs, patience, batch_size, lr,
        weight_decay, loss, metric, device: settings of `smpgnn train molecules --help`.
        options: other settings by name, such as {"context_radius": 2}.
        validation_fraction: the share of the training rows that chooses the best epoch. Rows of one
            molecule stay together, and classes keep their shares if possible.
        random_state: seed of the split, the weights and the batches; None: a new one for each fit.
        output: a folder in which each fit keeps its run folder; None: it is removed.
        verbose: show notes and progress.
    """

    _task: ClassVar[str]

    hidden_channels: int | None = None
    num_layers: int | None = None
    dropout: float | None = None
    readout: str | None = None
    epochs: int | None = None
    patience: int | None = None
    batch_size: int | None = None
    lr: float | None = None
    weight_decay: float | None = None
    loss: str | None = None
    class_weight: str | None = None
    metric: str | None = None
    device: str | None = None
    options: dict[str, Any] | None = None
    validation_fraction: float = 0.1
    random_state: Any = None
    output: str | Path | None = None
    verbose: bool = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train on SMILES or graphs X and targets y [n] or [n, T]; NaN in y is unknown.

        `sample_weight` [n] multiplies the loss of each row. Rows that are no molecule are left out
        with a warning.
        """
        import pandas as pd

        from smpgnn.training.member_plan import refuse_members
        from smpgnn.training.train import train_run

        inputs = input_list(X)
        columns = pd.DataFrame(y)
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        check_consistent_length(inputs, columns, weight)
        self.n_outputs_ = columns.shape[1]
        self._single = np.ndim(y) == 1
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        targets = pd.DataFrame(self._numbers(columns), columns=self._names())
        prepared, chosen = self._prepared(inputs, targets, weight, seed)
        with tempfile.TemporaryDirectory(prefix="smpgnn-") as temporary:
            if self.output is not None:
                Path(self.output).mkdir(parents=True, exist_ok=True)
            home = temporary if self.output is None else self.output
            folder = tempfile.mkdtemp(prefix="run-", dir=home)
            place = {"output": folder, "report": self.output is not None}
            chosen = with_values(chosen, place, type(self).__name__)
            refuse_members(chosen, type(self).__name__)
            result = train_run(chosen, prepared=prepared, quiet=not self.verbose)
            self.model_file_ = (result.folder / "model.safetensors").read_bytes()
        self.validation_, self.best_epoch_ = result.validation, result.best_epoch
        self.output_ = None if self.output is None else result.folder
        self._model: Model | None = None
        return self

    @property
    def model_(self) -> Model:
        """The trained model, as of `smpgnn.load`."""
        from smpgnn.inference.predict import load

        check_is_fitted(self, "model_file_")
        if self._model is None:
            with tempfile.TemporaryDirectory(prefix="smpgnn-") as temporary:
                path = Path(temporary) / "model.safetensors"
                path.write_bytes(self.model_file_)
                self._model = load(path, self.device or "auto")
        return self._model

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_model": None} if "_model" in state else state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        tags.target_tags.multi_output = True
        tags.non_deterministic = self.random_state is None
        tags.no_validation = True
        return tags

    def _names(self) -> list[str]:
        return ["y"] if self.n_outputs_ == 1 else [f"y{k}" for k in range(self.n_outputs_)]

    def _numbers(self, columns: pd.DataFrame) -> Array:
        """The targets as numbers [n, T]; NaN: unknown."""
        raise NotImplementedError

    def _predicted(self, X: Any) -> pd.DataFrame:
        return self.model_.predict(input_list(X))

    def _prepared(
        self, inputs: list[Any], targets: pd.DataFrame, weight: Array | None, seed: int
    ) -> tuple[Prepared, MoleculesOptions | GraphsOptions]:
        """The data of a run, of which some rows are for validation, and its settings."""
        import pandas as pd

        from smpgnn.data.columns import read_weights
        from smpgnn.data.pyg import graphs_from_pyg
        from smpgnn.data.targets import parse_targets
        from smpgnn.training.own_data import molecules, prepare_store
        from smpgnn.training.run_data import SplitTable

        graphs = hasattr(inputs[0], "edge_index")
        molecule = np.arange(len(inputs)) if graphs else molecule_of_rows(inputs)
        group = np.where(targets.notna().any(axis=1), molecule, -1)
        part = validation_part(
            group,
            targets.iloc[:, 0].to_numpy(),
            self.validation_fraction,
            seed,
            classes=self._task == "classification",
        )
        rows = np.flatnonzero(part >= 0)
        split = SplitTable(torch.from_numpy(rows), torch.from_numpy(part[rows]))
        ours = {"targets": list(targets), "task": self._task, "seed": seed}
        if weight is not None:
            ours["weight_column"] = "weight"
        if not graphs:
            options = self._options(MoleculesOptions(), ours)
            frame = targets.assign(smiles=pd.Series(inputs, dtype=object), weight=weight)
            return molecules(options, None, data=frame, own=lambda _: split), options
        settings = self._options(GraphsOptions(integers="categories"), ours)
        store = graphs_from_pyg([without_targets(graph) for graph in inputs])
        known = parse_targets(targets, self._names(), self._task, source="y")
        column = None if weight is None else pd.Series(weight, name="sample_weight")
        share = None if column is None else read_weights(column, "fit").float()
        store = replace(store, y=known.values, weight=share)
        return prepare_store(settings, store, known.spec, None, own=split), settings

    def _options(self, options: AnyOptions, ours: dict[str, Any]) -> AnyOptions:
        """The defaults with the parameters of the estimator, and what it chooses itself."""
        where, given = type(self).__name__, dict(self.options or {})
        for name in given:
            if name in _CHOSEN:
                raise InputError(f"{where}: options has '{name}', which fit chooses: remove it.")
            if name in self.get_params(deep=False):
                raise InputError(f"{where}: '{name}' is a parameter: move it out of options.")
        known = {*settings(type(options))} - {*_CHOSEN}
        parameters = self.get_params(deep=False).items()
        named = {name: value for name, value in parameters if name in known and value is not None}
        return with_values(options, {"logger": "none", **given, **named, **ours}, where)


class SMPRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """Predict numbers from SMILES or graphs.

    >>> SMPRegressor(epochs=50).fit(smiles, y).predict(["CCO"])    # doctest: +SKIP
    """

    _task = "regression"

    def predict(self, X: Any) -> Array:
        """The predictions, [n] or [n, T] as y in `fit`; NaN for rows that are no molecule."""
        frame = self._predicted(X)
        values: Array = frame[[f"predicted_{name}" for name in self._names()]].to_numpy(np.float64)
        return values[:, 0] if self._single else values

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² on the known targets; the mean over several targets."""
        return _mean_score(r2_score, _table(y), _table(self.predict(X)), sample_weight)

    def _numbers(self, columns: pd.DataFrame) -> Array:
        try:
            return columns.to_numpy(np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise InputError(f"SMPRegressor: y must be numbers ({error}).") from error


class SMPClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """Predict classes from SMILES or graphs.

    `classes_` has the classes, for several targets a list of those of each.

    >>> SMPClassifier(epochs=50).fit(smiles, y).predict_proba(["CCO"])    # doctest: +SKIP
    """

    _task = "classification"

    def predict(self, X: Any) -> Array:
        """The most probable classes, [n] or [n, T] as y in `fit`."""
        shares = self._shares(X)
        lost = np.flatnonzero(np.isnan(shares[0][:, 0]))
        if lost.size:
            raise InputError(
                f"SMPClassifier: there is no prediction for row {lost[0]}: remove it, or use "
                "predict_proba, which has NaN there."
            )
        columns = [
            classes[share.argmax(1)] for classes, share in zip(self._classes, shares, strict=True)
        ]
        return columns[0] if self._single else np.stack(columns, axis=1)

    def predict_proba(self, X: Any) -> Any:
        """The probabilities of `classes_`, [n, K]; for several targets a list of these.

        Rows that are no molecule have NaN.
        """
        shares = self._shares(X)
        return shares[0] if self.n_outputs_ == 1 else shares

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the known targets; the mean over several targets."""
        predicted = _table(self.predict(X))
        return _mean_score(accuracy_score, _table(y), predicted, sample_weight)

    def _shares(self, X: Any) -> list[Array]:
        """The probabilities for each target, [n, K] each."""
        frame, found = self._predicted(X), []
        for name, classes in zip(self._names(), self._classes, strict=True):
            columns = [f"probability_{name}_{number}" for number in range(len(classes))]
            there = [column for column in columns if column in frame]  # of two only the second
            share: Array = frame[there].to_numpy(np.float64, na_value=np.nan)
            found.append(np.hstack([1 - share, share]) if share.shape[1] == 1 else share)
        return found

    def _numbers(self, columns: pd.DataFrame) -> Array:
        self._classes, numbers = [], []
        for name in columns:
            known = columns[name].notna().to_numpy()
            values = columns[name][known].to_numpy()
            classes, place = np.unique(values, return_inverse=True)
            column = np.full(known.size, np.nan)
            column[known] = place
            self._classes.append(classes)
            numbers.append(column)
        self.classes_ = self._classes[0] if self.n_outputs_ == 1 else self._classes
        return np.stack(numbers, axis=1)


def _table(y: Any) -> Any:
    """Targets as a table without the names of its rows and columns."""
    import pandas as pd

    frame = pd.DataFrame(y)
    return frame.set_axis(range(len(frame)), axis=0).set_axis(range(frame.shape[1]), axis=1)


def _mean_score(score: Any, y: Any, predicted: Any, sample_weight: Any) -> float:
    """The mean of a score over the targets, each on its known rows."""
    check_consistent_length(y, predicted, sample_weight)
    found = []
    for column in y:
        known = y[column].notna().to_numpy()
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        wanted, given = y[column][known].tolist(), predicted[column][known].tolist()
        found.append(score(wanted, given, sample_weight=weight))
    return float(np.mean(found))
