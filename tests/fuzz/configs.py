"""Fuzz YAML config files."""

from __future__ import annotations

from functools import cache
from random import Random

from fuzz.cases import Case
from fuzz.corpus import corpus
from fuzz.models import table
from fuzz.mutate import NUMBERS, TEXTS, mutated

_TOKENS = (
    ": ", "- ", "&a ", "*a", "!!python/object:os.system", "!!binary ", "!!set ", "!!float ", "!",
    "<<: *a", "? ", "| ", "> ", "---\n", "...\n", "%YAML 9.9\n", "[", "]", "{", "}", "#", "@", "`",
    "\n  ", "lr: ", "epochs: ", "task_type: ", "true", "no", "~", "2020-01-01", "1:30:45", "0o7",
    "!!timestamp ", "!!int ", "!!omap ", "!!pairs ", "1e3", ".inf", ".nan", "2001-99-99",
)  # fmt: skip
#: Options with which a training ends within a second.
_SHORT = ("--epochs", "1", "--hidden-channels", "4", "--num-layers", "1", "--towers", "1",
          "--devices", "1", "--nodes", "1", "--folds", "0", "--repeats", "1", "--ensemble", "1",
          "--calibration", "0")  # fmt: skip
_TASKS = ("cycles", "properties", "zinc", "molecules", "graphs")
_VALUES = (
    "[]", "{}", "[1, 2]", "{a: 1}", "~", "yes", "no", "on", "'text'", "2020-01-01", "1:30:45",
    "0777", "0x1F", "1_000", ".inf", "-.inf", ".nan", "1e-3", "1E+5", "!!str 3", "!!binary aGk=",
    "[0.8, 0.1, 0.1]", "[0.8, 0.1]", "[1e300, 1, 1]", "[a, b]", "[[1], 2]", "2001-12-14t21:59:43Z",
    "local", "onehot", "none", "max", "mean", "gin", "batch", "cosine", "cuda", "auto", "huber",
)  # fmt: skip


def yaml_case(random: Random) -> Case:
    """A config of some task, for --print-config or a training."""
    task = random.choice(_TASKS)
    made = random.random() < 0.6
    data = _settings(random, task) if made else mutated(random, _seeds(), _TOKENS)
    files = {"c.yaml": data}
    interrupt = random.uniform(0, 0.02) if random.random() < 0.02 else None
    if random.random() < 0.75:
        words = ("train", task, "--config", "c.yaml", "--print-config")
        return Case(words, files, (), interrupt)
    files["data.csv"] = table().encode()
    words = ("train", "molecules", "data.csv", "--targets", "size", "--config", "c.yaml")
    words = (*words, "--device", "cpu", "--output", "run")
    if random.random() < 0.9:
        return Case(words, files, ("run",))
    return Case((*words, *_SHORT), files, ("run",), trains=True)


def _settings(random: Random, task: str) -> bytes:
    """A few existing settings with values of any kind."""
    from smpgnn.config.options import TASKS
    from smpgnn.config.settings import settings

    entries = list(settings(TASKS[random.choice((task, "molecules"))]).values())
    lines = [f"task_type: {task}"] if random.random() < 0.3 else []
    for _ in range(random.choice((1, 1, 2, 5))):
        entry = random.choice(entries)
        if entry.choices and random.random() < 0.4:
            value = random.choice(entry.choices)
        elif isinstance(entry.default, bool) and random.random() < 0.5:
            value = random.choice(("true", "false"))
        else:
            pool = random.choice((NUMBERS, NUMBERS, _VALUES, _VALUES, TEXTS))
            value = random.choice(pool)
        if value in ("..", "../.."):
            continue
        lines.append(f"{entry.name}: {value}")
    return "\n".join([*lines, ""]).encode("utf-8", "replace")


@cache
def _seeds() -> list[bytes]:
    from smpgnn.config.options import TASKS, to_yaml

    short = b"model: fast-smp\nhidden_channels: 8\nlr: 1e-3\nsplit_fractions: [0.8, 0.1, 0.1]\n"
    return [*(to_yaml(kind()).encode() for kind in TASKS.values()), short, *corpus("yaml")]
