"""Help answers at once, for every verb and task, and shows an example."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commands import CYCLES, done, smpgnn

from smpgnn import __version__
from smpgnn.cli.main import build_parser
from smpgnn.config.options import TASKS, from_config, read_config
from smpgnn.config.setting import GROUPS
from smpgnn.config.settings import settings

VERBS = ("train", "tune", "evaluate", "predict", "explain", "serve", "info", "paper")
WORDS = [[], *([verb] for verb in VERBS), *(["train", task] for task in TASKS)]
WORDS += [["tune", task] for task in ("molecules", "graphs")]


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_help_shows_an_example(words: list[str]) -> None:
    found = done(*words, "--help")
    assert "example" in found.out
    assert f"smpgnn {' '.join(words)}" in found.out.split("example", 1)[1]
    assert found.err == ""


@pytest.mark.parametrize("task", TASKS)
def test_help_lists_every_setting_with_its_default(task: str) -> None:
    text = done("train", task, "--help-all").out
    for name, setting in settings(TASKS[task]).items():
        assert ("path" if name == "path" else setting.option) in text
    assert f"(default: {TASKS[task]().batch_size})" in text


TITLES = [*GROUPS, "help"]


def groups_of(text: str) -> dict[str, list[str]]:
    """The options (or positional arguments) under each title of a help text."""
    found: dict[str, list[str]] = {}
    for line in text.split("\nexample")[0].splitlines():
        if line.endswith(":") and not line.startswith(" "):
            found[line[:-1]] = []
        elif found and line.startswith("  ") and line[2] != " ":
            found[next(reversed(found))].append(line.split()[0].rstrip(","))
    return found


def test_help_of_molecules_starts_with_what_a_chemist_sets() -> None:
    found = done("train", "molecules", "--help").out
    groups = groups_of(found)
    assert list(groups) == TITLES
    assert groups["data"] == [
        "path", "--smiles-column", "--standardize", "--replicates", "--descriptors", "--targets",
        "--task", "--log-target", "--split", "--split-time", "--split-column", "--split-fractions",
    ]  # fmt: skip
    assert groups["training run"][:9] == [
        "--from", "--metric", "--folds", "--ensemble", "--calibration", "--epochs", "--patience",
        "--seed", "--output",
    ]  # fmt: skip
    assert groups["network"][0] == "--model"
    assert {"--lr", "--batch-size"} <= set(groups["optimiser"])
    assert "--device" in groups["hardware and memory"]


@pytest.mark.parametrize("task", TASKS)
def test_help_is_short_and_help_all_is_complete(task: str) -> None:
    short, whole = (done("train", task, word).out for word in ("--help", "--help-all"))
    assert len(short.splitlines()) <= 88
    assert max(map(len, whole.splitlines())) <= 80
    assert short.splitlines()[-1].startswith(f"smpgnn train {task} --help-all shows ")
    assert "--help-all shows" not in whole
    assert done("train", task, "--help").out == short  # also after --help-all
    few, every = (
        [name for names in groups_of(text).values() for name in names] for text in (short, whole)
    )
    assert list(groups_of(short)) == list(groups_of(whole)) == TITLES
    assert len(set(every)) == len(every)  # each in one group
    known = settings(TASKS[task]).values()
    wanted = {"path" if s.name == "path" else s.option for s in known}
    assert wanted <= set(every)
    hidden = {setting.option for setting in known if setting.advanced}
    assert hidden
    assert set(few) == set(every) - hidden
    parser = build_parser()
    for word in ("train", task):
        parser = next(a.choices[word] for a in parser._actions if isinstance(a.choices, dict))
    named = {name for action in parser._actions for name in action.option_strings}
    assert set(every) - {"path"} <= named
    assert sum(len(group._group_actions) for group in parser._action_groups) == len(every)


def test_advanced_options_still_parse() -> None:
    assert "towers: 2\n" in done("train", "cycles", "--towers", "2", "--print-config").out


@pytest.mark.parametrize(
    "verb", ["predict", "evaluate", "explain", "serve", "info", "paper reproduce"]
)
def test_other_verbs_have_titled_groups(verb: str) -> None:
    groups = groups_of(done(*verb.split(), "--help").out)
    assert groups.pop("options") == ["-h"]
    assert "positional arguments" not in groups
    assert len(groups) >= 2


def test_the_examples_are_valid() -> None:
    for words in WORDS:
        text = done(*words, "--help").out.split("example", 1)[1]
        for line in text.splitlines()[1:]:
            if line.strip().startswith("smpgnn train"):
                done(*line.split()[1:], "--print_config")


def test_no_words_and_version() -> None:
    assert "usage" in done().out
    assert done("--version").out == f"smpgnn {__version__}\n"


@pytest.mark.parametrize("words", ["--help", "train cycles --help", "train zinc --print_config"])
def test_help_needs_no_torch(words: str) -> None:
    code = (
        "import sys; from smpgnn.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'torch_geometric', 'pytorch_lightning', 'pandas', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, *words.split()], capture_output=True, text=True, timeout=120
    )
    assert found.stdout
    assert found.stderr == "[]\n"


@pytest.mark.parametrize("task", TASKS)
def test_printed_settings_can_be_read_back(task: str, tmp_path: Path) -> None:
    changes = ["--lr", "0.5", "--norm", "none", "--no-residual", "--output", "a b"]
    first = done("train", task, *changes, "--print_config").out
    file = tmp_path / "c.yaml"
    file.write_text(first)
    assert done("train", task, "--config", file, "--print-config").out == first
    options = from_config(read_config(file), "c")
    assert (options.lr, options.network.norm, options.network.residual) == (0.5, "none", False)


def test_defaults_give_way_to_preset_then_config_then_command_line(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("lr: 0.25\nepochs: 7\n")

    def shown(*words: object) -> tuple[float, int, float, str]:
        (tmp_path / "out.yaml").write_text(done("train", "cycles", *words, "--print_config").out)
        options = from_config(read_config(tmp_path / "out.yaml"), "out")
        return options.lr, options.epochs, options.momentum, options.optimizer

    assert shown() == (1e-3, 50, 0.9, "adamw")
    assert shown("--preset", "paper") == (1e-3, 300, 0.5, "sgd")
    assert shown("--preset", "paper", "--config", file) == (0.25, 7, 0.5, "sgd")
    assert shown("--epochs", 9, "--config", file, "--preset", "paper") == (0.25, 9, 0.5, "sgd")
    assert shown("--config", file, "--optimizer", "adam") == (0.25, 7, 0.9, "adam")


def test_resume_compares_config_and_preset_too(cycles_run: Path, tmp_path: Path) -> None:
    again = ("train", "cycles", "--output", cycles_run, "--resume")
    file = tmp_path / "c.yaml"
    file.write_text("lr: 0.25\n")
    found = smpgnn(*again, "--config", file)
    assert found.err.startswith("smpgnn: --lr 0.25: the run has 0.001, and --resume keeps")
    found = smpgnn(*again, "--preset", "paper")
    assert found.status == 2
    assert ": the run has " in found.err
    found = smpgnn(*again, "--k", "6")
    assert found.err.startswith("smpgnn: --k 6: the run has 4, and")
    # what is the same may be said again, also where it runs
    file.write_text(done("train", *CYCLES, "--print_config").out)
    before = (cycles_run / "last.ckpt").read_bytes()
    done(*again, "--config", file, "--k", "4", "--device", "cpu", "--output", cycles_run)
    assert (cycles_run / "last.ckpt").read_bytes() == before
