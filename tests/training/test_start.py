"""Start from a trained model: the same predictions before the first step; frozen weights stay."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import smpgnn
from smpgnn.config.options import MoleculesOptions
from smpgnn.errors import InputError
from smpgnn.inference.predict import Model
from smpgnn.training.callbacks import Keeper
from smpgnn.training.module import GraphModule
from smpgnn.training.own_data import molecules
from smpgnn.training.prepare import Prepared
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.saved import SavedModel, load_model
from smpgnn.training.start import started, with_start

pytest.importorskip("rdkit")
OPTIONS: dict[str, Any] = {
    "hidden_channels": 8, "num_layers": 2, "extractor_channels": 8, "epochs": 2, "device": "cpu",
    "quiet": True, "baseline": False, "batch_size": 16,
}  # fmt: skip
SMILES = ["CCO", "CCCN", "c1ccccc1", "CC(=O)O"]

#: Settings without those of the network, which a model to start from has.
FREE = {k: v for k, v in OPTIONS.items() if "channels" not in k and k != "num_layers"}


def table(rows: int = 60, shift: float = 0.0) -> pd.DataFrame:
    ends = ["", "O", "N", "Cl", "C(=O)O"]
    smiles = ["C" * (1 + row // 5 % 12) + ends[row % 5] for row in range(rows)]
    frame = pd.DataFrame({"smiles": smiles, "size": [len(s) + 0.5 + shift for s in smiles]})
    frame["mass"] = [12.0 * s.count("C") + 3 for s in smiles]
    frame["polar"] = [("no", "yes")["O" in s] for s in smiles]
    frame["long"] = [("no", "yes")[len(s) > 6] for s in smiles]
    frame["T"] = 280.0 + frame.index % 7
    frame["tpsa"] = 20.23 * (frame["polar"] == "yes")  # a target of 'general'
    return frame


def train(folder: Path, *targets: str, data: pd.DataFrame | None = None, **options: Any) -> Path:
    data = table() if data is None else data
    smpgnn.train(
        "molecules", data, targets=list(targets), output=str(folder), **{**OPTIONS, **options}
    )
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def run(home: Path) -> Path:
    return train(home / "size", "size", "mass", descriptors=["T"])


@pytest.fixture(scope="module")
def classes(home: Path) -> Path:
    return train(home / "classes", "polar", "long", readout="mean", seed=3)


def begun(run: Path | str, *targets: str, shift: float = 0.0, **options: Any) -> Prepared:
    """A new run, on other data, that starts from a run."""
    chosen = MoleculesOptions(targets=targets, from_run=str(run), **options)
    chosen = with_start(chosen, ())
    return started(molecules(chosen, None, data=table(45, shift)), chosen)


def predictions(prepared: Prepared) -> pd.DataFrame:
    network = prepared.network().eval()
    saved = SavedModel(network, prepared.spec, prepared.task, prepared.source)
    return Model(saved, "cpu").predict(pd.DataFrame({"smiles": SMILES, "T": [280, 290, 283, 281]}))


@pytest.mark.parametrize(("name", "targets"), [("", ("size", "mass")), ("general", ("tpsa",))])
def test_predictions_equal_those_of_the_run_before_the_first_step(
    name: str, targets: tuple[str, ...], run: Path
) -> None:
    start = name or run
    prepared = begun(start, *targets, shift=40.0)  # the statistics of targets differ
    frame = pd.DataFrame({"smiles": SMILES, "T": [280, 290, 283, 281]})
    expected = smpgnn.load(start, "cpu").predict(frame)
    assert prepared.task.mean != load_model(start).task.mean
    found = predictions(prepared)
    assert [f"predicted_{target}" for target in targets] == list(found.columns[:-1])
    pd.testing.assert_frame_equal(found, expected[found.columns], rtol=1e-5, atol=1e-4)


def test_common_targets_are_taken_over_and_others_are_new(run: Path, classes: Path) -> None:
    frame = pd.DataFrame({"smiles": SMILES, "T": [280, 290, 283, 281]})
    expected = smpgnn.load(run, "cpu").predict(frame)
    prepared = begun(run, "mass")
    np.testing.assert_allclose(
        predictions(prepared)["predicted_mass"], expected["predicted_mass"], rtol=1e-5
    )
    assert prepared.notes[-1] == f"Starts from {run}."
    expected = smpgnn.load(classes, "cpu").predict(SMILES)
    found = predictions(begun(classes, "long", "polar"))
    for name in ("polar", "long"):
        np.testing.assert_allclose(
            found[f"probability_{name}_yes"], expected[f"probability_{name}_yes"], rtol=1e-5
        )


@pytest.mark.parametrize("name", ["", "general"])
def test_a_new_target_gets_new_outputs_and_the_rest_is_taken_over(name: str, classes: Path) -> None:
    start = name or classes
    prepared = begun(start, "polar")  # a single target with two outputs is another task
    assert prepared.notes[-1] == f"Starts from {start}, with new outputs for 'polar'."
    new, old = prepared.network().state_dict(), load_model(start).network.state_dict()
    assert new["out.weight"].shape == (2, old["out.weight"].shape[1])
    for key in set(new) - {"out.weight", "out.bias"}:
        torch.testing.assert_close(new[key], old[key], rtol=0, atol=0)


def test_targets_of_mixed_kinds_and_logarithms_are_taken_over(home: Path) -> None:
    run = train(home / "mixed", "size", "polar", "T", log_target=True)
    expected = smpgnn.load(run, "cpu").predict(SMILES)
    found = predictions(begun(run, "T", "size", shift=9.0, log_target=True))
    for name in ("size", "T"):
        np.testing.assert_allclose(
            found[f"predicted_{name}"], expected[f"predicted_{name}"], rtol=1e-4
        )
    both = begun(run, "polar", "mass", log_target=True)
    assert both.notes[-1].endswith("with new outputs for 'mass'.")
    columns = [name for name in expected if name.startswith("probability_polar")]
    assert columns
    np.testing.assert_allclose(predictions(both)[columns], expected[columns], rtol=1e-4)
    plain = begun(run, "size")  # not logarithms: another quantity
    assert plain.notes[-1].endswith("with new outputs for 'size'.")


def test_standardisation_is_taken_over(home: Path) -> None:
    run = train(home / "standard", "size", standardize=True, epochs=1)
    assert with_start(MoleculesOptions(from_run=str(run)), ()).standardize
    with pytest.raises(InputError, match="--standardize False: the model in --from"):
        with_start(MoleculesOptions(from_run=str(run)), {"standardize"})


def test_the_settings_of_the_network_are_those_of_the_run(classes: Path) -> None:
    options = with_start(MoleculesOptions(from_run=str(classes)).changed(dropout=0.2), ())
    before = load_model(classes).spec.options
    assert options.network == before.changed(dropout=0.2)
    with pytest.raises(InputError, match=r"--hidden-channels 64: the model in --from .* has 8"):
        with_start(options.changed(hidden_channels=64), {"hidden_channels"})


def test_training_continues_from_the_run(run: Path, tmp_path: Path) -> None:
    train(tmp_path / "new", "size", from_run=run, epochs=1, lr=1e-9)
    one, other = (load_model(folder).network.state_dict() for folder in (run, tmp_path / "new"))
    names = [name for name in one if not name.startswith("out.") and "running" not in name]
    for name in names:
        if one[name].is_floating_point():
            torch.testing.assert_close(one[name], other[name], atol=1e-6, rtol=1e-4)
    assert RunFolder(tmp_path / "new").read_options().from_run == str(run)


@pytest.mark.parametrize("start", ["batch", "layer", "general"])
def test_frozen_tensors_stay_as_they_are(start: str, tmp_path: Path) -> None:
    run, target = "general", "tpsa"
    if start != "general":
        run, target = str(train(tmp_path / "run", "size", norm=start, epochs=1)), "size"
    options = {**FREE, "from_run": run, "freeze": True, "lr": 0.05, "dropout": 0.3}
    smpgnn.train("molecules", table(), targets=[target], output=str(tmp_path / "new"), **options)
    old, new = (load_model(f).network.state_dict() for f in (run, tmp_path / "new"))
    changed = {
        name for name in old
        if old[name].shape != new[name].shape or not torch.equal(old[name], new[name])
    }  # fmt: skip
    assert changed == {"head.weight", "head.bias", "out.weight", "out.bias"}
    last = torch.load(tmp_path / "new" / "last.ckpt", weights_only=True)["state_dict"]
    for name in set(old) - changed:  # of the last epoch, too
        assert torch.equal(old[name], last[f"network.{name}"])


def test_the_optimiser_gets_the_rest_only(run: Path) -> None:
    prepared = begun(run, "size", freeze=True)
    options = MoleculesOptions(targets=("size",), from_run=str(run), freeze=True, device="cpu")
    module = GraphModule(prepared.network(), prepared, options)
    (group,) = module.configure_optimizers().param_groups
    head = [*module.network.head.parameters(), *module.network.out.parameters()]
    assert {id(p) for p in group["params"]} == {id(p) for p in head}
    module.train()
    assert module.network.dropout.training
    assert module.network.head.training
    assert not any(part.training for part in module.network.backbone.modules())


def test_a_run_that_started_from_another_resumes_without_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = shutil.copytree(run, tmp_path / "start")
    options = {"from_run": start, "freeze": True, "dropout": 0.1, "epochs": 3}
    train(tmp_path / "whole", "size", **options)
    end_of_epoch = Keeper.on_train_epoch_end

    def interrupted(keeper: Keeper, trainer: Any, module: Any) -> None:
        end_of_epoch(keeper, trainer, module)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "on_train_epoch_end", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "half", "size", **options)
    assert not (tmp_path / "half" / "run.json").exists()
    shutil.rmtree(start)
    smpgnn.train("molecules", table(), output=str(tmp_path / "half"), resume=True, quiet=True)
    one, other = (load_model(tmp_path / f).network.state_dict() for f in ("whole", "half"))
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"from_run": "zinc"}, "zinc: was trained on molecules with the atom types of ZINC"),
        ({"from_run": "{classes}", "hidden_channels": 16}, "--hidden-channels 16: the model in"),
        ({"from_run": "{run}", "descriptors": ["rdkit"]}, "--descriptors rdkit: the model in"),
        ({"freeze": True}, "--freeze: keeps the weights of a trained model: name it with --from"),
        ({"from_run": "nowhere"}, "nowhere: no such file or folder"),
    ],
)
def test_what_does_not_fit_is_refused(
    options: dict[str, Any], message: str, run: Path, classes: Path, tmp_path: Path
) -> None:
    values = {
        k: v.format(run=run, classes=classes) if isinstance(v, str) else v
        for k, v in options.items()
    }
    with pytest.raises(InputError, match=message):
        smpgnn.train(
            "molecules", table(), targets=["size"], output=str(tmp_path / "new"),
            **{**FREE, **values},
        )  # fmt: skip
    assert not (tmp_path / "new").exists()


def test_other_settings_are_refused_without_the_command_line(run: Path, classes: Path) -> None:
    """`train_run` with options that never met `with_start`."""
    options = MoleculesOptions(targets=("size",), from_run=str(classes))
    prepared = molecules(options, None, data=table())
    with pytest.raises(InputError, match="its network has hidden_channels=8, but this run 48"):
        started(prepared, options)
    options = options.changed(from_run=str(run))
    with pytest.raises(InputError, match="takes the descriptors 'T': give the same"):
        started(prepared, options)
