"""Settings as data: YAML and back, what is refused, what overrides what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smpgnn.config.options import (
    TASKS,
    CyclesOptions,
    MoleculesOptions,
    ZincOptions,
    from_config,
    read_config,
    to_yaml,
)
from smpgnn.config.presets import PRESETS, presets, with_preset
from smpgnn.config.settings import flat, with_values
from smpgnn.errors import InputError
from smpgnn.models.registry import NetworkSpec

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
CONFIGS = sorted((Path(__file__).parents[2] / "configs").rglob("*.yaml"))


@pytest.mark.parametrize("task", TASKS)
def test_yaml_and_back(task: str, tmp_path: Path) -> None:
    options = TASKS[task]()
    for name in presets(task):
        options = with_preset(options, name)
    options = with_values(options, {"norm": "none", "lr": 3e-4, "seed": 7, "output": "a b"}, "x")
    (tmp_path / "c.yaml").write_text(to_yaml(options))
    assert from_config(read_config(tmp_path / "c.yaml"), "c.yaml") == options


@given(
    targets=st.lists(TEXT, max_size=3),
    path=TEXT,
    lr=st.floats(1e-12, 1e3),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_text_and_number_survives_yaml(
    tmp_path_factory: pytest.TempPathFactory, targets: list[str], path: str, lr: float, seed: int
) -> None:
    options = replace(
        MoleculesOptions(), targets=tuple(targets), path=path, lr=lr, seed=seed, separator="\t"
    )
    file = tmp_path_factory.mktemp("yaml") / "c.yaml"
    file.write_text(to_yaml(options), encoding="utf-8")
    assert from_config(read_config(file), "c.yaml") == options


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_yaml_file_of_the_repository_is_of_a_network(path: Path) -> None:
    options = from_config(read_config(path), str(path)).network
    options = options.changed(num_layers=options.num_layers or 2)
    assert NetworkSpec(in_channels=3, graph_outputs=1, options=options).build()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epochz": 3}, "unknown key 'epochz': did you mean 'epochs'?"),
        ({"qqqq": 3}, "unknown key 'qqqq': known keys are model, hidden_channels"),
        ({"epochs": 0}, "epochs must be at least 1, not 0."),
        ({"epochs": 2.0}, "epochs must be a whole number, not 2.0."),
        ({"epochs": True}, "epochs must be a whole number, not True."),
        ({"epochs": "many"}, "epochs must be a whole number, not 'many'."),
        ({"lr": "fast"}, "lr must be a number, not 'fast'."),
        ({"lr": float("nan")}, "lr must be a number, not nan."),
        ({"lr": "inf"}, "lr must be a number, not "),
        ({"lr": -1}, "lr must be above 0, not -1.0."),
        ({"lr": None}, "lr must be a number, not None."),
        ({"lr": 10**400}, "lr must be a number, not "),
        ({"lr": "1e400"}, "lr must be a number, not "),
        ({"lr": 1e300}, "lr must be at most 1000, not 1e+300."),
        ({"set_scale": -1e300}, "set_scale must be at least -1000000, not -1e+300."),
        ({"epochs": 10**5000}, "epochs must be at most 1000000000, not a very long int."),
        ({"k" * 5000: 1}, "unknown key 'kkk"),
        ({"output": "a\0b"}, "output must be text, not 'a"),
        ({"output": "\udcff"}, "output must be text, not '"),
        ({"dropout": 1.0}, "dropout must be below 1, not 1.0."),
        ({"dropout": -0.1}, "dropout must be at least 0, not -0.1."),
        ({"momentum": 1.5}, "momentum must be below 1, not 1.5."),
        ({"momentum": -1}, "momentum must be at least 0"),
        ({"decay": 0}, "decay must be above 0, not 0.0."),
        ({"decay_epochs": 0}, "decay_epochs must be at least 1"),
        ({"train_samples": 0}, "train_samples must be at least 1, not 0."),
        ({"test_samples": -2}, "test_samples must be at least 1, not -2."),
        ({"batch_rows": -1}, "batch_rows must be at least 0"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"seed": 2**32}, "seed must be below 4294967296"),
        ({"residual": "yes"}, "residual must be true or false, not 'yes'."),
        ({"model": "cnn"}, "model must be one of smp, fast-smp, mpnn, "),
        ({"model": None}, "model must be text, not None."),
        ({"output": 5}, "output must be text, not 5."),
    ],
)
def test_a_wrong_value_is_refused_by_name(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        with_values(CyclesOptions(), values, "here")
    assert str(caught.value).startswith(f"here: {message}")
    assert "\n" not in str(caught.value)


def test_paths_are_names_of_files() -> None:
    assert with_values(CyclesOptions(), {"output": Path("a") / "b"}, "x").output == "a/b"


def test_lists_are_checked_entry_by_entry() -> None:
    assert with_values(MoleculesOptions(), {"targets": "logS"}, "x").targets == ("logS",)
    assert with_values(MoleculesOptions(), {"split_fractions": [1, "0.5", 0.1]}, "x") == replace(
        MoleculesOptions(), split_fractions=(1.0, 0.5, 0.1)
    )
    with pytest.raises(InputError, match=r"x: targets must be a list of texts, not \['a', 3\]\."):
        with_values(MoleculesOptions(), {"targets": ["a", 3]}, "x")
    with pytest.raises(InputError, match=r"x: targets must be a list, not \{'a': 1\}\."):
        with_values(MoleculesOptions(), {"targets": {"a": 1}}, "x")


def test_what_yaml_makes_of_words_is_understood(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("lr: 1e-3\nbatch-size: 8\nnorm: null\nresidual: off\n")
    options = with_values(ZincOptions(), read_config(file), "c")
    assert (options.lr, options.batch_size, options.network.norm) == (1e-3, 8, "none")
    assert options.network.residual is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr: [1", "c.yaml: is not valid YAML: "),
        ("- 1\n- 2\n", "c.yaml: must consist of lines 'key: value'."),
        ("!!python/object/apply:os.system ['touch boom']", "c.yaml, line 1: tags ("),
        ("lr: !!python/object/apply:os.system ['touch boom']", "c.yaml, line 1: tags ("),
        ("? [a, b]\n: 1", "c.yaml, line 1: a key must be a name."),
        ("lr: 1\n---\nlr: 2\n", "c.yaml, line 2: a config file must have only one document."),
        ("lr: 1\nlr: 1\n", "c.yaml, line 2: 'lr' is given twice."),
        ("a: &a 1\n", "c.yaml, line 1: anchors (&) and aliases (*) are not supported."),
        ("targets: [[a]]", "c.yaml, line 1: 'targets' must be a value or a flat list of"),
        ("- " * 50_000, "c.yaml: must consist of lines 'key: value'."),
        ("lr: " + "{a: " * 50_000, "c.yaml, line 1: 'lr' must be a value or a flat list"),
        ("just text", "c.yaml: must consist of lines 'key: value'."),
        ("\t", "c.yaml: is not valid YAML: "),
        ("lr: " + "1" * 5000, "c.yaml, line 1: '111"),
        ("\0", "c.yaml: is not valid YAML: "),
    ],
)
def test_broken_yaml_is_one_sentence_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        read_config("c.yaml")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert not Path("boom").exists()


def test_plain_values_of_yaml(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "a: 2026-13-45\nb: 2026-01-02 03:04:05\nc: '1'\nd: 1_000\ne: ~\nf: [on, 0x10, 1.5, x]\n"
        "g:\nh: .inf\n<<: 1\ni: 0b\nj: =\n"
    )
    assert read_config(file) == {
        "a": "2026-13-45", "b": "2026-01-02 03:04:05", "c": "1", "d": 1000, "e": None,
        "f": [True, 16, 1.5, "x"], "g": None, "h": float("inf"), "<<": 1, "i": "0b", "j": "=",
    }  # fmt: skip


@given(text=st.text(st.sampled_from("ab1.:-[]{}&*!'\"|>%@#?,_~ \n\t\0é\ufeff"), max_size=40))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.mktemp("any") / "c.yaml"
    file.write_text(text, encoding="utf-8")
    try:
        values = read_config(file)
    except InputError:
        return
    for value in values.values():
        plain = value if isinstance(value, list) else [value]
        assert all(entry is None or type(entry) in (str, int, float, bool) for entry in plain)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: no such file\."):
        read_config(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        read_config(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"output: \xe9\n")
    with pytest.raises(InputError, match=r"latin\.yaml: cannot be read"):
        read_config(tmp_path / "latin.yaml")
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert read_config(tmp_path / "empty.yaml") == {}


@pytest.mark.parametrize("task", [None, "cats", ["zinc"], 3])
def test_a_config_must_name_a_known_task(task: Any) -> None:
    with pytest.raises(InputError, match="task_type must be one of cycles, properties, zinc"):
        from_config({"task_type": task}, "c.yaml")


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("task", TASKS)
def test_presets(task: str, name: str) -> None:
    options = TASKS[task]()
    if task not in PRESETS[name]:
        with pytest.raises(InputError, match=f"'{task}' has no preset of this name"):
            with_preset(options, name)
        return
    preset, values = with_preset(options, name), PRESETS[name][task]
    # each value of the preset would be accepted from a person, and differs nowhere else
    assert with_values(options, values, "preset") == preset
    before, after = flat(options), flat(preset)
    assert all(before[name] == after[name] for name in set(before) - set(values))


@pytest.mark.parametrize("task", TASKS)
def test_the_defaults_are_valid_themselves(task: str) -> None:
    options = TASKS[task]()
    assert with_values(options, flat(options), "defaults") == options
