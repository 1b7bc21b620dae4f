"""SMPRegressor and SMPClassifier among the tools of scikit-learn."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks as checks
from torch_geometric.data import Data

import smpgnn
from smpgnn import SMPClassifier, SMPRegressor
from smpgnn.cli.main import run
from smpgnn.errors import InputError
from smpgnn.training.run_folder import RunFolder

SMALL: dict[str, Any] = {
    "hidden_channels": 8,
    "num_layers": 1,
    "epochs": 2,
    "device": "cpu",
    "random_state": 0,
}
ENDS = ("", "O", "N")
SMILES = ["C" * (1 + row % 9) + ENDS[row // 9] for row in range(27)]
SIZE = np.array([len(text) + 0.1 * (row % 4) for row, text in enumerate(SMILES)])
KIND = np.array([f"ends with {text[-1]}" for text in SMILES])


@pytest.fixture(scope="module")
def regressor() -> SMPRegressor:
    return SMPRegressor(**SMALL).fit(SMILES, SIZE)


@pytest.fixture(scope="module")
def classifier() -> SMPClassifier:
    return SMPClassifier(**SMALL).fit(SMILES, KIND)


#: The checks of scikit-learn that give no two-dimensional numbers to fit.
CHECKS = (
    checks.check_estimator_cloneable,
    checks.check_estimator_repr,
    checks.check_estimator_tags_renamed,
    checks.check_valid_tag_types,
    checks.check_no_attributes_set_in_init,
    checks.check_parameters_default_constructible,
    checks.check_get_params_invariance,
    checks.check_set_params,
    checks.check_mixin_order,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.__name__))
@pytest.mark.parametrize("kind", [SMPRegressor, SMPClassifier])
def test_conventions_of_scikit_learn(kind: Any, check: Any) -> None:
    check(kind.__name__, kind())


def test_all_inputs_give_the_same(regressor: SMPRegressor) -> None:
    wanted = regressor.predict(SMILES)
    assert wanted.shape == (27,)
    index = pd.Index(range(100, 127))
    X = pd.Series(SMILES, index=index, name="smiles")
    y = pd.Series(SIZE, index=index[::-1], dtype="Float64")
    for inputs, targets in (
        (np.array(SMILES), SIZE.tolist()),
        (X, y),
        (X.to_frame(), y),
        (np.array(SMILES, dtype=object)[:, None], SIZE),
    ):
        again = SMPRegressor(**SMALL).fit(inputs, targets)
        assert np.array_equal(again.predict(inputs), wanted)
    assert regressor.score(SMILES, SIZE) == pytest.approx(r2_score(SIZE, wanted))
    assert regressor.model_.predict(SMILES)["predicted_y"].tolist() == wanted.tolist()
    assert is_regressor(regressor)


def test_random_states() -> None:
    one, two = (SMPRegressor(**{**SMALL, "random_state": k}).fit(SMILES, SIZE) for k in (1, 2))
    assert not np.array_equal(one.predict(SMILES), two.predict(SMILES))


def test_classes(classifier: SMPClassifier) -> None:
    assert classifier.classes_.tolist() == ["ends with C", "ends with N", "ends with O"]
    shares = classifier.predict_proba(SMILES)
    assert shares.shape == (27, 3)
    assert np.allclose(shares.sum(1), 1, atol=1e-6)
    found = classifier.predict(SMILES)
    assert np.array_equal(found, classifier.classes_[shares.argmax(1)])
    assert classifier.score(SMILES, KIND) == accuracy_score(KIND, found)
    assert is_classifier(classifier)
    truth = SMPClassifier(**SMALL).fit(SMILES, KIND == "ends with O")
    assert truth.classes_.tolist() == [False, True]
    assert truth.predict(SMILES).dtype == bool
    assert truth.predict_proba(SMILES).shape == (27, 2)


def test_several_targets_with_gaps() -> None:
    y = np.stack([SIZE, -SIZE], axis=1)
    y[:5, 0], y[3, 1] = np.nan, np.nan
    model = SMPRegressor(**SMALL).fit(SMILES, y)
    assert model.predict(SMILES).shape == (27, 2)
    known = ~np.isnan(y)
    found = model.predict(SMILES)
    wanted = [r2_score(y[known[:, k], k], found[known[:, k], k]) for k in range(2)]
    assert model.score(SMILES, y) == pytest.approx(np.mean(wanted))
    marks = pd.DataFrame({"O": ["O" in s for s in SMILES], "long": [len(s) > 5 for s in SMILES]})
    marks = marks.astype(object).mask(np.arange(27)[:, None] == [3, 4])
    both = SMPClassifier(**SMALL).fit(SMILES, marks)
    assert [classes.tolist() for classes in both.classes_] == [[False, True]] * 2
    assert both.predict(SMILES).shape == (27, 2)
    assert [share.shape for share in both.predict_proba(SMILES)] == [(27, 2)] * 2
    assert 0 <= both.score(SMILES, marks) <= 1
    more = marks.assign(end=[s[-1] for s in SMILES])
    several = SMPClassifier(**SMALL).fit(SMILES, more)
    widths = [len(classes) for classes in several.classes_]
    assert widths == [2, 2, more["end"].nunique()]
    shares = several.predict_proba(SMILES)
    assert [share.shape for share in shares] == [(27, width) for width in widths]
    assert np.allclose([share.sum(axis=1) for share in shares], 1)


def test_sample_weights_count() -> None:
    heavy = np.where(SIZE > 5, 100.0, 0.01)
    plain, same, other = (
        SMPRegressor(**{**SMALL, "epochs": 8}).fit(SMILES, SIZE, sample_weight=weight)
        for weight in (None, np.full(27, 3.0), heavy)
    )
    assert np.allclose(plain.predict(SMILES), same.predict(SMILES), atol=1e-4)
    assert other.predict(SMILES).mean() > plain.predict(SMILES).mean() + 0.01


def paths(count: int = 24) -> list[Data]:
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    return [Data(x=torch.tensor([[6], [6 + i % 3], [8]]), edge_index=edges) for i in range(count)]


def test_graphs() -> None:
    y = np.arange(24) % 3 + 0.01 * np.arange(24)
    model = SMPRegressor(**SMALL).fit(paths(), y, sample_weight=np.ones(24))
    assert model.model_.saved.source["categories"] == {"node": [[6, 7, 8]], "edge": []}
    assert np.isfinite(cross_val_score(SMPRegressor(**SMALL), paths(), y, cv=2)).all()
    kinds = SMPClassifier(**SMALL, options={"integers": "numbers"}).fit(paths(), np.arange(24) % 3)
    assert "categories" not in kinds.model_.saved.source
    assert set(kinds.predict(paths())) <= {0, 1, 2}


def test_tools_of_scikit_learn(regressor: SMPRegressor) -> None:
    copied = clone(regressor)
    assert copied.get_params() == regressor.get_params()
    with pytest.raises(NotFittedError):
        copied.predict(SMILES)
    strip = FunctionTransformer(lambda texts: [text.strip() for text in texts])
    pipe = make_pipeline(strip, clone(regressor)).fit([f" {text} " for text in SMILES], SIZE)
    assert np.array_equal(pipe.predict(SMILES), regressor.predict(SMILES))
    scores = cross_val_score(SMPClassifier(**SMALL), SMILES, KIND, cv=2, scoring="roc_auc_ovr")
    assert np.isfinite(scores).all()
    assert cross_val_predict(clone(regressor), np.array(SMILES), SIZE, cv=2).shape == (27,)
    grid = GridSearchCV(clone(regressor), {"lr": [1e-9, 0.01]}, cv=2).fit(SMILES, SIZE)
    assert grid.best_params_ == {"lr": 0.01}
    assert grid.best_estimator_.get_params()["lr"] == 0.01


def test_pickles(regressor: SMPRegressor) -> None:
    again = pickle.loads(pickle.dumps(regressor))
    assert np.array_equal(again.predict(SMILES), regressor.predict(SMILES))


@pytest.mark.slow
def test_pickles_in_another_process(regressor: SMPRegressor, tmp_path: Path) -> None:
    wanted = regressor.predict(SMILES)
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(regressor))
    code = (
        f"import pickle; model = pickle.load(open({str(tmp_path / 'model.pickle')!r}, 'rb'));"
        f"print(model.predict({SMILES!r}).tolist())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert np.allclose(eval(found.stdout), wanted, rtol=1e-6)


def test_a_molecule_is_on_one_side(tmp_path: Path) -> None:
    """Of 10 molecules, each written in three ways, two are for validation."""
    smiles = [
        text for k in range(2, 12) for text in ("C" * k + "O", "O" + "C" * k, "OC" + "C" * (k - 1))
    ]
    values = [float(len(text)) + 0.1 * (row % 3) for row, text in enumerate(smiles)]
    model = SMPRegressor(**SMALL, validation_fraction=0.2, output=tmp_path).fit(smiles, values)
    assert model.output_.parent == tmp_path
    data = RunFolder(model.output_).read_data()
    assert data is not None
    sides = [data.splits.of(part).row.tolist() for part in ("train", "val", "test")]
    assert [len(side) for side in sides] == [24, 6, 0]
    assert not {row // 3 for row in sides[0]} & {row // 3 for row in sides[1]}
    assert RunFolder(model.output_).read_record()["test"] == {}
    again = model.fit(smiles, values).output_
    assert sorted(tmp_path.iterdir()) == sorted({again, *tmp_path.iterdir()})
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(InputError, match="was trained from Python: evaluate it there"):
        run(["evaluate", str(again)])


def test_rows_that_are_no_molecule(classifier: SMPClassifier, regressor: SMPRegressor) -> None:
    smiles, y = [*SMILES, "C1CC", None], [*SIZE, 3.0, 4.0]
    with pytest.warns(UserWarning, match="2 rows are left out, the first is row 27"):
        model = SMPRegressor(**SMALL).fit(smiles, y)
    assert np.array_equal(model.predict(SMILES), regressor.predict(SMILES))
    assert np.isnan(model.predict(smiles)).tolist() == [False] * 27 + [True] * 2
    with pytest.raises(ValueError, match="NaN"):
        model.score(smiles, y)
    assert np.isnan(classifier.predict_proba(["CCO", "C1CC"])[:, 0]).tolist() == [False, True]
    with pytest.raises(InputError, match="there is no prediction for row 1"):
        classifier.predict(["CCO", "C1CC"])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"options": {"lr": 1}}, "SMPRegressor: 'lr' is a parameter: move it out of options"),
        ({"options": {"split": "time"}}, "options has 'split', which fit chooses: remove it"),
        ({"options": {"towrs": 2}}, "SMPRegressor: unknown key 'towrs': did you mean 'towers'"),
        ({"validation_fraction": 2}, "validation_fraction must be between 0 and 1, not 2"),
        ({"epochs": 0}, "SMPRegressor: epochs must be at least 1"),
        ({"class_weight": "balanced"}, "class-weight balanced: is for classes"),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SMPRegressor(**{**SMALL, **parameters}).fit(SMILES, SIZE)


def test_bad_data() -> None:
    model = SMPRegressor(**SMALL)
    for X, y, message in (
        ("CCO", [1], "X must be a list of SMILES or graphs, not a single one"),
        ([], [], "X has no rows"),
        (np.zeros((3, 2)), [1, 2, 3], "X must have one column, the SMILES, not 2"),
        (SMILES, SIZE[:5], "inconsistent numbers of samples"),
        (SMILES, KIND, "y must be numbers"),
        (SMILES, np.ones(27), "is 1 in every row"),
        (SMILES, np.where(np.arange(27), np.nan, 1.0), "needs two different rows with a target"),
    ):
        with warnings.catch_warnings(), pytest.raises(ValueError, match=message):
            model.fit(X, y)
    with pytest.raises(InputError, match="only one class"):
        SMPClassifier(**SMALL).fit(SMILES, ["a"] * 27)


def test_importing_smpgnn_does_not_import_scikit_learn() -> None:
    code = "import smpgnn, sys; assert 'sklearn' not in sys.modules; print(smpgnn.__version__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == smpgnn.__version__
