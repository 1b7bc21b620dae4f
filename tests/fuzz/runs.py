"""Fuzz run folders: settings, records, metrics, checkpoints, models."""

from __future__ import annotations

import io
import json
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from fuzz.cases import Case, Maker
from fuzz.graphs import replaced
from fuzz.models import table
from fuzz.mutate import NUMBERS, mutated
from smpgnn.checksums import safetensors_fits, seal_safetensors, sealed_metadata, to_json

_RUNS = ("MOLECULES", "MOLECULES", "CLASSES", "GRAPHS", "NODES")
#: Share of resumed runs that train to the end, which takes a hundred times as long.
_TRAINED = 0.04
_LEFT_OUT = ("curves.png", "report.html", "lock")


def runs_maker(models: Path) -> Maker:
    """Makes run folders with one damaged file."""
    runs = {name: _files(models / name) for name in dict.fromkeys(_RUNS)}
    graphs = (models / "graphs.jsonl").read_bytes()

    def make(random: Random) -> Case:
        name = random.choice(_RUNS)
        files = dict(runs[name])
        which = random.choice(("model.safetensors", "model.safetensors", "last.ckpt", *files))
        if random.random() < 0.03:
            del files[which]
        elif random.random() < 0.03:  # of another run
            files[which] = random.choice(list(runs.values())).get(which, b"")
        else:
            files = _damaged(random, which, files)
        task = "molecules" if name in ("MOLECULES", "CLASSES") else "graphs"
        data = ("data.csv", table().encode()) if task == "molecules" else ("g.jsonl", graphs)
        content = {f"run/{key}": value for key, value in files.items()}
        return _use(random, which, task, {**content, data[0]: data[1]}, data[0])

    return make


def _use(random: Random, which: str, task: str, files: dict[str, bytes], data: str) -> Case:
    """A command that reads the damaged file."""
    resume = ("train", task, "--resume", "--output", "run")
    trains = random.random() < _TRAINED
    if trains:  # a run of several machines would wait for the others
        resume = (*resume, "--devices", "1", "--nodes", "1")
    if which in ("last.ckpt", "config.yaml", "metrics.csv") and random.random() < 0.7:
        return Case(resume, files, ("run",), trains=trains)
    if which == "domain.safetensors":
        words = ("predict", "run", data, "--domain", "-o", "out.csv")
        return Case(words, files, ("out.csv",))
    what = random.random()
    if which.endswith(".csv") and what < 0.5:
        return Case(("report", "run", "-o", "page.html"), files, ("page.html",))
    if what < 0.3:
        return Case(("info", "run"), files)
    if what < 0.6:
        return Case(("predict", "run", data, "-o", "out.csv"), files, ("out.csv",))
    if what < 0.75:
        return Case(("evaluate", "run"), files)
    if what < 0.8:
        return Case(("evaluate", "run", data), files)
    if what < 0.92:
        return Case(("report", "run", "-o", "page.html"), files, ("page.html",))
    if what < 0.95:
        return Case(("explain", "run", data, "-o", "o.csv", "--steps", "1"), files, ("o.csv",))
    return Case(resume, files, ("run",), trains=trains)


def _files(run: Path) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in sorted(run.iterdir())
        if file.is_file() and file.name not in _LEFT_OUT
    }


def _damaged(random: Random, name: str, files: dict[str, bytes]) -> dict[str, bytes]:
    """Change one of the files, in half of the cases with matching checksums."""
    tokens = ("epoch", "null", "{", "}", "[", "]", ",", ":", "nan", "\n", "train", "test")
    data = files[name]
    if random.random() < 0.3:
        return {**files, name: mutated(random, [data], tokens)}
    if name.endswith(".json"):
        return {**files, name: _json(replaced(random, json.loads(data)))}
    if name.endswith(".safetensors"):
        return {**files, name: _header(random, data)}
    if name.endswith(".ckpt"):
        return {**files, name: _checkpoint(random, data)}
    changed = mutated(random, [data], tokens, most=1)
    before, after = (sha256(text).hexdigest().encode() for text in (data, changed))
    new = {**files, name: changed}
    for other, text in files.items():
        if other.endswith(".json") and before in text:
            new[other] = _json(json.loads(text.replace(before, after)))
    return new


def _json(content: Any) -> bytes:
    if not isinstance(content, dict):
        return json.dumps(content).encode("utf-8", "replace")
    return to_json({key: value for key, value in content.items() if key != "sha256"}).encode()


def _header(random: Random, data: bytes) -> bytes:
    """A model, or fingerprints, whose header is valid JSON with other values."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = sealed_metadata(header["__metadata__"])
    what = random.random()
    if (
        what < 0.75 and "content" in header["__metadata__"]
    ):  # spec, task and source, which are JSON inside of JSON
        content = json.loads(header["__metadata__"]["content"])
        if random.random() < 0.3:
            key = random.choice(list(content["spec"]))
            content["spec"][key] = random.choice((0, -1, 1, 10**6, 10**12, 2**63, 1e300, "x", None))
        else:
            content = replaced(random, content)
        header["__metadata__"]["content"] = json.dumps(content)
    elif what < 0.85:
        header["__metadata__"] = replaced(random, header["__metadata__"])
    else:
        header = replaced(random, header)
    text = json.dumps(header, separators=(",", ":")).encode()
    size = len(text) if random.random() < 0.95 else int(float(random.choice(NUMBERS[:20]))) % 2**63
    changed = size.to_bytes(8, "little") + text + data[8 + length :]
    return seal_safetensors(changed) if safetensors_fits(changed) is not None else changed


def _checkpoint(random: Random, data: bytes) -> bytes:
    """A checkpoint with other values that torch can read."""
    import torch

    try:
        sink = io.BytesIO()
        torch.save(replaced(random, _loaded(data)), sink)
    except (TypeError, ValueError, RuntimeError, AttributeError, OverflowError):
        return data[: len(data) // 2]
    changed = sink.getvalue()
    return changed + f"\nsha256 {sha256(changed).hexdigest()}\n".encode()


@cache
def _loaded(data: bytes) -> Any:
    import torch

    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
