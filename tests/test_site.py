"""The documentation: every name and verb has its place, links lead somewhere, examples run."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from cli.commands import done
from scripts import run_script

import smpgnn
from smpgnn.cli.main import build_parser
from smpgnn.config.options import TASKS
from smpgnn.config.settings import settings

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
#: Written before each build from the docstrings and the parser.
GENERATED = ("reference/api/", "reference/commands/", "reference/settings.rst")
PAGES = sorted(
    page
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
    if not str(page.relative_to(ROOT)).startswith(tuple(f"docs/{name}" for name in GENERATED))
)


@pytest.fixture
def extensions() -> Iterator[None]:
    known = set(sys.modules)
    with mock.patch.object(sys, "path", [str(DOCS / "extensions"), *sys.path]):
        yield
    for name in {"command_line", "settings_table"} - known:
        sys.modules.pop(name, None)


def test_every_public_name_stands_in_the_reference() -> None:
    text = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    here = text.split(".. currentmodule:: smpgnn.testing")[0]
    names = re.findall(r"^   ([A-Za-z_]+)$", here, flags=re.M)
    assert sorted(names) == sorted(smpgnn.__all__)


@pytest.mark.usefixtures("extensions")
def test_every_verb_and_option_has_its_place() -> None:
    from command_line import children, pages

    found = dict(pages(build_parser()))
    top = {parser.prog.split()[-1]: parser for parser, _ in children(build_parser())}
    assert set(top) <= set(found)
    assert {f"train-{task}" for task in TASKS} <= set(found)
    text = found["train-molecules"]
    for setting in settings(TASKS["molecules"]).values():
        name = "path" if setting.name == "path" else setting.option
        assert re.search(rf"^\.\. option:: {name}\b", text, flags=re.M), name
    assert "/reference/commands/paper-theory" in found["paper"]
    assert ".. option:: -o FILE, --output FILE" in found["predict"]


@pytest.mark.usefixtures("extensions")
def test_every_setting_stands_in_the_table() -> None:
    from settings_table import page

    text = page()
    for task, kind in TASKS.items():
        for name in settings(kind):
            assert f":option:`{name} <" in text, (task, name)
    rates = {settings(kind)["lr"].default for kind in TASKS.values()}
    (row,) = re.findall(r"`lr <.*?\n   \* -", text, flags=re.S)
    assert all(f"``{rate}``" in row for rate in rates)


def _there(file: Path) -> bool:
    """Whether a linked file exists, or is written when the site is built."""
    made = (str(DOCS / name).rstrip("/") for name in GENERATED)
    return file.exists() or str(file.resolve()).startswith(tuple(made))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_linked_file_is_there(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    links += re.findall(r'(?:src|srcset)="([^"]+)"', text)
    missing = [
        link
        for link in links
        if link and not link.startswith("http") and not _there(page.parent / link)
    ]
    assert missing == []


@pytest.mark.parametrize(
    "pages",
    [
        ("README.md",),
        ("docs/start/researcher.md", "docs/guides/own_loss.md"),
        ("docs/guides/own_layer.md",),
        ("docs/concepts/contexts.md",),
        ("docs/reference/configuration.md",),
    ],
    ids=" ".join,
)
def test_the_examples_run(pages: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for page in pages:
        for block in python_blocks(page):
            exec(block.replace("FakeDataset(1000,", "FakeDataset(100,"), names)
    if "loss" in names:
        assert float(names["loss"].detach()) > 0  # type: ignore[attr-defined]
    capsys.readouterr()


def commands() -> list[str]:
    """The lines of the pages that begin with `smpgnn`, as a shell would read them, without `…`."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for block in re.findall(r"^```\w*\n(.*?)^```", text, flags=re.S | re.M):
            found += re.findall(r"^smpgnn .*$", block, flags=re.M)
    return sorted({line for line in found if "…" not in line and "..." not in line})


@pytest.mark.parametrize("line", commands())
def test_the_command_line_understands_what_pages_say(line: str) -> None:
    words = shlex.split(line.split(" > ")[0], comments=True)[1:]
    arguments, unknown = build_parser().parse_known_args(words)
    arguments.parser.refuse_unknown(unknown)


def python_blocks(page: str) -> list[str]:
    """The examples of a page, without those that need a table of the reader."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```", text, flags=re.S | re.M)
    assert found
    return [block for block in found if "data.csv" not in block]


@pytest.mark.slow
def test_the_quick_start_of_a_chemist_runs_word_by_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rdkit", reason="molecules need RDKit")
    monkeypatch.chdir(tmp_path)
    shutil.copy(DOCS / "start" / "logp.csv", tmp_path)
    text = (DOCS / "start" / "chemist.md").read_text(encoding="utf-8").replace("\\\n", " ")
    commands = re.findall(r"^smpgnn (.*)$", text, flags=re.M)
    assert [command.split()[0] for command in commands] == [
        "train", "predict", "explain", "evaluate",
    ]  # fmt: skip
    for command in commands:
        done(*shlex.split(command.replace("--epochs 40", "--epochs 2 --device cpu")))
    for block in python_blocks("docs/start/chemist.md"):
        exec(block.replace("epochs=40", "epochs=2"), {})
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 241
    assert len(list((tmp_path / "atoms").iterdir())) == 240


@pytest.mark.slow
def test_the_guide_for_graphs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in python_blocks("docs/guides/own_graphs.md"):
        exec(block, {})


@pytest.mark.slow
def test_the_figures_of_the_concepts_are_drawn(tmp_path: Path) -> None:
    outcome = run_script(DOCS / "draw_concepts.py", tmp_path)
    assert outcome.status == 0, outcome.err
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in (DOCS / "figures" / "concepts").iterdir()}


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Notebooks are run, and every public name and verb stands on its page."""
    needed = ("sphinx", "myst_nb", "furo", "sphinx_design", "sphinx_copybutton", "latex2mathml")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (pip install -r docs/requirements.txt)")
    for name in ("docs", "examples", "benchmarks"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    site = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q"]
    found = subprocess.run(
        [*command, str(tmp_path / "docs"), str(site)], capture_output=True, text=True, timeout=900
    )
    assert found.returncode == 0, found.stderr
    for name in smpgnn.__all__:
        page = site / "reference" / "api" / f"smpgnn.{name}.html"
        assert f'id="smpgnn.{name}"' in page.read_text(encoding="utf-8"), name
    index = (site / "reference" / "commands" / "index.html").read_text(encoding="utf-8")
    for verb in ("train", "predict", "paper"):
        assert f'href="{verb}.html"' in index
    assert (site / "searchindex.js").exists()
    front = (site / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r'<(?:script|link)[^>]+(?:src|href)="https?:', front)
