"""Fuzz command lines: verbs, options and values in any combination."""

from __future__ import annotations

import argparse
import json
from functools import cache
from random import Random

from fuzz.cases import Case
from fuzz.models import graph, table
from fuzz.mutate import NUMBERS, TEXTS, mutated

#: Options whose large values are valid but slow.
_LONG = {"--train-samples", "--test-samples", "--steps", "--seeds", "--relabelings", "--layers",
         "--trials"}  # fmt: skip
#: Output paths; no other paths are made up.
_OUTPUTS = (
    "out", "out.csv", "o/p/q", "", " ", ".", "data.csv", "data.csv/x", "folder",
    "x" * 250, "y" * 300, "/dev/full", "/dev/null", "/proc/x", "é", "-", "o.tsv.gz", "a\nb", "%s",
    "~", "x/" * 300, "out.csv/", "./out", "out\udcff",
)  # fmt: skip
_INPUTS = (
    "data.csv", "data.csv", "graphs.jsonl", "graphs.jsonl", "MOLECULES", "GRAPHS", "NODES",
    "CLASSES", "zinc", "folder", "none.csv", "", ".", "/dev/null", "empty", "models", "pretrained",
    "cycles", "/dev/stdin", "/proc/self/mem", "x" * 300, "a\udcffb", "MOLECULES/model.safetensors",
    "MOLECULES/run.json", "config.yaml",
)  # fmt: skip
_FILES = ("--output", "-o", "--markdown", "--figures", "--work-dir", "--results", "--storage")


def words_case(random: Random) -> Case:
    """A valid command line with changes, or one with random options."""
    words = _line(random) if random.random() < 0.6 else _changed(random)
    words = _harmless(random, words)
    outputs = ("runs", "report.html", "results", "docs", *_named_outputs(words))
    interrupt = random.uniform(0, 0.03) if random.random() < 0.03 else None
    return Case(tuple(words), _content(), outputs, interrupt)


@cache
def _content() -> dict[str, bytes]:
    graphs = "\n".join(json.dumps(graph(number)) for number in range(6))
    return {
        "data.csv": table().encode(),
        "graphs.jsonl": graphs.encode(),
        "folder/g.json": json.dumps(graph(0)).encode(),
        "empty": b"",
        "config.yaml": b"task_type: molecules\nepochs: 2\n",
    }


_LINES = (
    "train molecules data.csv --targets size --output out",
    "train molecules data.csv --targets kind --split scaffold --output out --model gin",
    "train molecules data.csv --targets size --split-column part --output out",
    "train graphs graphs.jsonl --targets label --output out --identifiers onehot",
    "train graphs graphs.jsonl --targets end --level node --output out",
    "train cycles --k 4 --n 12 --train-samples 8 --test-samples 8 --output out",
    "train molecules --config config.yaml --print-config",
    "train properties --print-config --preset paper",
    "train zinc --print-config --model fast-smp",
    "train molecules --resume --output MOLECULES",
    "tune molecules data.csv --targets size --trials 1 --epochs 1 --output out",
    "tune graphs graphs.jsonl --targets label --trials 1 --epochs 2 --pruner halving --output out",
    "evaluate MOLECULES data.csv --json",
    "evaluate GRAPHS graphs.jsonl",
    "predict MOLECULES data.csv -o out.csv",
    "predict CLASSES data.csv -o out.csv --smiles-column smiles --separator ,",
    "predict NODES graphs.jsonl -o out.csv --device cpu",
    "explain MOLECULES data.csv -o out.csv --steps 1 --figures fig",
    "info MOLECULES", "info data.csv", "info models", "info pretrained",
    "info cycles --batch-size 4 --model smp --identifiers local --context-radius 2",
    "paper reproduce cycle_detection --dry-run --rows SMP --cells 4-12 --seeds 0 --set lr=1",
    "paper report --results folder -o page.html --markdown page.md",
    "paper theory",
    "paper theory expressivity --families csl --model gin --layers 1 --seeds 1 --width 2",
)  # fmt: skip


def _changed(random: Random) -> list[str]:
    """Change some words of a valid line."""
    words = random.choice(_LINES).split()
    for _ in range(random.choice((1, 1, 2, 3))):
        place = random.randrange(len(words)) if words else 0
        what = random.randrange(7)
        if what == 0 and words:
            del words[place]
        elif what == 1:
            words.insert(place, random.choice(words) if words else "x")
        elif what == 2 and words:
            words[place] = _mangled(random, words[place])
        elif what == 3 and words:
            words[place] = random.choice(NUMBERS)
        elif what == 4:
            words.insert(place, random.choice(TEXTS))
        elif what == 5:
            words += _options(random, _parser_of(words))
        else:
            words.insert(place, random.choice((*_INPUTS, "--", "-h", "--help", "--version")))
    return words


def _mangled(random: Random, word: str) -> str:
    data = mutated(random, [word.encode("utf-8", "surrogateescape")], ("=", "-", "--", "/"))
    return data.decode("utf-8", "surrogateescape")[:3000]


def _line(random: Random) -> list[str]:
    """A verb with some of its options and values of any kind."""
    verb = random.choice(("train", "train", "train", "predict", "evaluate", "info", "paper"))
    if verb == "train":
        line = random.choice([line for line in _LINES if line.startswith("train")])
        return [*line.split(), *_options(random, _parser_of(line.split()))]
    words = ["paper", "report"] if verb == "paper" else [verb]
    for _ in range(2 if verb in ("predict", "evaluate") else int(verb == "info")):
        words.append(random.choice(_INPUTS))
    if verb == "predict":
        words += ["-o", random.choice(_OUTPUTS)]
    return [*words, *_options(random, _parser_of(words))]


def _options(random: Random, parser: argparse.ArgumentParser) -> list[str]:
    actions = [action for action in parser._actions if action.option_strings]
    words = []
    for _ in range(random.choice((1, 1, 2, 4))):
        action = random.choice(actions)
        name = random.choice(action.option_strings)
        if name in _LONG or name in ("-h", "--help", "--help-all"):
            continue
        words.append(name)
        if action.nargs == 0:
            continue
        for _ in range(random.choice((1, 1, 1, 0, 2, 3)) if action.nargs == "+" else 1):
            words.append(_value(random, name, action))
    return words


def _value(random: Random, name: str, action: argparse.Action) -> str:
    if name in _FILES:
        return random.choice(_OUTPUTS)
    if action.choices and random.random() < 0.7:
        return str(random.choice(list(action.choices)))
    pool = random.choice((NUMBERS, NUMBERS, ("1", "2", "0.5", "size"), TEXTS, _INPUTS))
    return random.choice(pool)


@cache
def _parser() -> argparse.ArgumentParser:
    from smpgnn.cli.main import build_parser

    return build_parser()


def _parser_of(words: list[str]) -> argparse.ArgumentParser:
    """The parser of the verb or task with which the words begin."""
    parser = _parser()
    for word in words[:3]:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction) and word in action.choices:
                parser = action.choices[word]
                break
    return parser


def _harmless(random: Random, words: list[str]) -> list[str]:
    """Remove words that would write elsewhere or start long work."""
    # command lines cannot contain a zero byte
    kept = [word.replace("\0", "") for word in words if not _leads_out(word)]
    if "reproduce" in kept and "--dry-run" not in kept:
        kept.append("--dry-run")
    if "theory" in kept[:2] and kept[2:3] not in ([], ["expressivity"]):
        kept = kept[:1]
    for name in _LONG & set(kept):
        place = kept.index(name)
        if place + 1 < len(kept) and kept[place + 1].replace("_", "").isdigit():
            kept[place + 1] = random.choice(("1", "2", "8"))
    for place in [k + 1 for k, word in enumerate(kept[:-1]) if word == "--figures"]:
        if kept[place].strip("./") == "":  # figures among all else are hard to tell from it
            kept[place] = "fig"
    if "cycles" in kept[:2] and "train" in kept[:1]:
        kept += ["--train-samples", "8", "--test-samples", "8"]
    return kept


def _leads_out(word: str) -> bool:
    known = {*_OUTPUTS, *_INPUTS}
    value = word.partition("=")[2] or word
    return value not in known and (value.startswith(("/", "~")) or ".." in value)


def _named_outputs(words: list[str]) -> tuple[str, ...]:
    """The outputs that the words name, relative to the working folder."""
    found = []
    for place, word in enumerate(words):
        name, _, value = word.partition("=")
        if name in _FILES:
            found.append(value or (words[place + 1] if place + 1 < len(words) else ""))
        elif word.startswith("-o"):
            found.append(word[2:])
    found = [name.removeprefix("./").rstrip("/") for name in found]
    names = [part for name in found for part in (name, name.split("/")[0]) if part not in ("", ".")]
    return (*names, "figures") if found else ()
