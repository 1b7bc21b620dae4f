"""Whatever is wrong: status 2, one line that names it, no traceback, nothing half-written.

The command lines are run in a folder with the files that `place` makes; RUN is a trained model of
molecules, KIND one of graphs, CYCLES one of cycles.
"""

from __future__ import annotations

import os
import shutil
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
import torch
from commands import molecules, smpgnn

TRAIN = "train molecules {} --targets size --epochs 1 --device cpu --output out"
GRAPHS = "train graphs {} --epochs 1 --device cpu --output out"

#: What is wrong: the command line, and what its one line of errors must hold.
COMMANDS: dict[str, tuple[str, str]] = {
    # words
    "a word of 5,000 letters": ("w" * 5000, "smpgnn: argument VERB: invalid choice: 'www"),
    "a run of 5,000 letters": ("info " + "r" * 5000, "smpgnn: rrr"),
    "no such verb": ("fly", "invalid choice: 'fly'"),
    "no task": ("train", "name a task (cycles, properties, zinc, counting, molecules, graphs)"),
    "no such task": ("train cats", "invalid choice: 'cats'"),
    "unknown option": ("train cycles --epochz 3", "'--epochz': did you mean --epochs?"),
    "unknown option, far off": ("train cycles --qqqqqq", "unknown argument '--qqqqqq': see smpgnn"),
    "unknown word": ("train cycles quickly", "unknown argument 'quickly'"),
    "abbreviated option": ("train cycles --epoch 3", "'--epoch': did you mean --epochs?"),
    "unknown option of predict": ("predict RUN data.csv -o o.csv --gpu", "argument '--gpu'"),
    "no output": ("predict RUN data.csv", "required: -o/--output"),
    "not a number": ("train cycles --epochs many", "--epochs: invalid int value: 'many'"),
    "not a choice": ("train cycles --model cnn", "--model: invalid choice: 'cnn'"),
    # numbers
    "no epochs": ("train cycles --epochs 0", "epochs must be at least 1, not 0"),
    "negative rate": ("train cycles --lr -1", "lr must be above 0, not -1.0"),
    "rate is nan": ("train cycles --lr nan", "lr must be a number, not nan"),
    "negative batch": ("train cycles --batch-size -4", "batch_size must be at least 1, not -4"),
    "no width": ("train cycles --hidden-channels 0", "hidden_channels must be at least 1"),
    "no context": ("train zinc --context-radius 0", "context_radius must be at least 1"),
    "no layers": (TRAIN.format("data.csv") + " --num-layers 0", "num_layers must be"),
    "full dropout": ("train cycles --dropout 1", "dropout must be below 1"),
    "wild momentum": ("train cycles --optimizer sgd --momentum 2", "momentum must be below 1"),
    "negative seed": ("train cycles --seed -1", "seed must be at least 0"),
    "huge seed": ("train cycles --seed 99999999999", "seed must be below"),
    "no processes": ("train cycles --devices 0", "devices must be at least 1"),
    "no graphs": ("train cycles --train-samples 0", "train_samples must be at least 1"),
    "towers do not divide": (
        TRAIN.format("data.csv") + " --towers 3 --hidden-channels 8", "towers"),
    "features of rows for several": (
        TRAIN.format("data.csv") + " --identifiers coloring", "features='row' goes with identifie"),
    "huber of classes": (
        "train molecules data.csv --targets kind --loss huber --output out",
        "--loss huber: is for numbers, but 'kind' has classes: choose cross-entropy."),
    "cross-entropy of numbers": (
        TRAIN.format("data.csv") + " --loss cross-entropy",
        "--loss cross-entropy: is for classes, but 'size' has numbers: choose mae or mse or"),
    "metric of classes for numbers": (
        TRAIN.format("data.csv") + " --metric auc",
        "--metric auc: is for classes, but 'size' has numbers: choose rmse, mae, mse, r2, pearso"),
    "metric of numbers for classes": (
        "train molecules data.csv --targets kind --metric rmse --output out",
        "--metric rmse: is for numbers, but 'kind' has classes: choose auc, prauc, mcc, f1, bal"),
    "no such metric": (TRAIN.format("data.csv") + " --metric best", "--metric: invalid choice: 'b"),
    "balanced numbers": (
        TRAIN.format("data.csv") + " --class-weight balanced",
        "--class-weight balanced: is for classes, but 'size' has numbers: leave it out."),
    "no such column of weights": (
        TRAIN.format("data.csv") + " --weight-column w", "data.csv has no column 'w'"),
    "text as weights": (
        TRAIN.format("data.csv") + " --weight-column name", "line 2: the weight 'name' is '"),
    "negative rate with an exponent": ("train cycles --lr -1e-3", "lr must be above 0, not -0.001"),
    "absurd rate": ("train cycles --lr 1e300", "lr must be at most 1000, not 1e+300"),
    "infinite rate": ("train cycles --lr inf", "lr must be a number, not inf"),
    "absurd decay": ("train cycles --weight-decay 1e39", "weight_decay must be at most 1000"),
    "absurd batch": ("train cycles --batch-size 1" + "0" * 30, "batch_size must be at most"),
    "absurd width": ("train cycles --hidden-channels 9999999", "hidden_channels must be at most"),
    "absurd depth": ("train cycles --num-layers 1000000", "num_layers must be at most 1000, not"),
    "absurd radius": ("train zinc --context-radius 1" + "0" * 20, "context_radius must be at most"),
    "5,000 digits": ("train cycles --epochs " + "9" * 5000, "--epochs: invalid int value: '999"),
    "too many processes": ("train cycles --devices 900 --output out", "--devices 900: this ma"),
    "a name that is not text": ("train cycles --output \udcff", "output must be text, not"),
    "an option with one dash": (
        "predict RUN data.csv -output=o.csv", "unknown argument '-output': did you mean --output?"),
    "a word nothing like an option": (
        "train cycles --metric mae", "unknown argument '--metric': see smpgnn train cycles --help"),
    "a name of 300 characters": (
        "train cycles --output " + "a" * 300, " cannot be created: File name too long"),
    "steps of explanations": (
        "explain RUN data.csv -o o.csv --steps 99999999999", "--steps: must be a whole number"),
    "k of no cycle": ("train cycles --k 5 --output out", "k is 5, but it must be one of"),
    "n of no size": ("train cycles --k 4 --n 13 --output out", "n is 13, but for k=4"),
    "memory of a negative batch": (
        "info cycles --batch-size -1", "--batch-size: must be a whole number from 1 to"),
    "radius of an absurd size": (
        "info zinc --context-radius " + "9" * 5000, "--context-radius: must be a whole number"),
    # devices
    "no GPU": ("train cycles --device cuda --output out", "--device cuda: this machine has no"),
    "no GPU to predict": ("predict RUN data.csv -o o.csv --device cuda", "--device cuda: this mac"),
    # settings in YAML
    "no config": ("train cycles --config none.yaml", "none.yaml: no such file"),
    "malformed YAML": ("train cycles --config bad.yaml", "bad.yaml: is not valid YAML"),
    "YAML list": ("train cycles --config list.yaml", "list.yaml: must consist of lines"),
    "unknown key": ("train cycles --config typo.yaml", "unknown key 'epoch': did you mean 'ep"),
    "config of another task": ("train cycles --config zinc.yaml", "is for 'train zinc', not"),
    "no name of a config": ("train cycles --config=", "cannot be read because it is not a regular"),
    "a bomb of aliases": ("train cycles --config bomb.yaml", "bomb.yaml, line 1: anchors (&) and"),
    "YAML in YAML": ("train cycles --config nested.yaml", "line 2: 'epochs' must be a value or"),
    "deep YAML": ("train cycles --config deep.yaml", "line 1: 'lr' must be a value or a flat list"),
    "a key twice": ("train cycles --config again.yaml", "line 3: 'batch-size' is given twice"),
    "a date": ("train cycles --config date.yaml", "lr must be a number, not '2026-13-45'"),
    "a number of 5,000 digits": ("train cycles --config digits.yaml", "too long for a number"),
    "a huge config": ("train cycles --config huge.yaml", "is larger than 256 KiB"),
    "a pipe as config": ("train cycles --config pipe.yaml", "it is not a regular file"),
    "wrong type in YAML": ("train cycles --config type.yaml", "epochs must be a whole number"),
    # tables
    "no table named": ("train molecules", "molecules: name the table"),
    "table after the targets": (
        "train molecules --targets size data.csv", "name the table right after the task"),
    "no target named": ("train molecules data.csv --output out", "--targets: name the target"),
    "no such table": (TRAIN.format("none.csv"), "none.csv does not exist"),
    "a folder as table": (TRAIN.format("graphs"), "graphs is a folder"),
    "empty table": (TRAIN.format("empty.csv"), "empty.csv is empty"),
    "header only": (TRAIN.format("header.csv"), "header.csv has a header but no"),
    "no such target": (
        "train molecules data.csv --targets sise --output out", "no column 'sise' (did you mean"),
    "no such SMILES column": (
        TRAIN.format("data.csv") + " --smiles-column SMI", "data.csv has no column 'SMI'"),
    "no molecule": (TRAIN.format("nonsense.csv"), "nonsense.csv: no row of column 'smiles' is a m"),
    "text as numbers": (
        "train molecules data.csv --targets name --task regression --output out", "target 'name'"),
    "no target known": (TRAIN.format("gaps.csv"), "target 'size' has no value in any row"),
    "one class": (
        "train molecules one.csv --targets kind --task classification --output out",
        "target 'kind' has only one class, 'x'"),
    "same number everywhere": (
        "train molecules one.csv --targets size --task regression --output out", "target 'size'"),
    "infinite target": (TRAIN.format("inf.csv"), "target 'size'"),
    "columns twice": (TRAIN.format("twice.csv"), "several columns named 'size'"),
    "wrong separator": (TRAIN.format("data.csv") + " --separator ;", "its separator seems to be"),
    "two separators": (TRAIN.format("data.csv") + " --separator ;;", "separator must be one"),
    "too many cells": (TRAIN.format("cells.csv"), "cells.csv, line 3: "),
    "not a table": (TRAIN.format("binary.csv"), "binary.csv"),
    "damaged Parquet": (TRAIN.format("broken.parquet"), "broken.parquet is a damaged Parquet"),
    "too few rows": (TRAIN.format("two.csv"), "2 rows are too few for three splits"),
    "unknown split": (TRAIN.format("data.csv") + " --split-column kind", "the split is 'alkane'"),
    "fractions": (TRAIN.format("data.csv") + " --split-fractions 0.5 0.1 0.1", "fractions"),
    # graphs
    "no graphs named": ("train graphs", "graphs: name the file or folder"),
    "no such folder": (GRAPHS.format("none"), "none does not exist"),
    "folder without graphs": (GRAPHS.format("nothing"), "nothing contains no graph files"),
    "a graph without nodes": (GRAPHS.format("hollow"), "Graph g.json has no nodes"),
    "not JSON": (GRAPHS.format("notjson"), "g.json is not valid JSON"),
    "no target in the graphs": (GRAPHS.format("graphs"), "graphs: no target found"),
    "no such labels": (GRAPHS.format("graphs") + " --labels none.csv", "none.csv does not exist"),
    "labels of other graphs": (
        GRAPHS.format("graphs") + " --labels fewer.csv", "fewer.csv has no row for graph"),
    "no such attribute": (
        GRAPHS.format("graphs") + " --targets colour", "has the attribute 'colour'"),
    "scaffolds of graphs": (
        GRAPHS.format("graphs") + " --labels labels.csv --targets kind --split scaffold",
        "--split scaffold: only molecules have scaffolds"),
    # where to write
    "a folder with a run": ("train cycles --output RUN", "already contains a run: add --resume"),
    "a file as folder": (
        TRAIN.format("data.csv") + " --output data.csv/run", "data.csv/run: cannot be created"),
    "a place without room": (
        TRAIN.format("data.csv") + " --output /proc/smpgnn", "/proc/smpgnn: cannot be created"),
    "predictions into a folder": ("predict RUN data.csv -o graphs", "graphs: is a folder"),
    "predictions to nowhere": ("predict RUN data.csv -o no/where.csv", "create "),
    "predictions to a device": ("predict RUN data.csv -o /dev/full", "not a regular file"),
    "predictions under a file": ("predict RUN data.csv -o data.csv/o.csv", "data.csv/o.csv"),
    "a page into a folder": ("paper report --results r -o .", "'.': is a folder: give"),
    "a page without a name": ("paper report --results r --output=", "give a file name"),
    "a page of a long name": ("paper report --results r -o " + "a" * 300, "File name too long"),
    "tables into a folder": ("paper report --results r --markdown graphs", "is a folder: give"),
    "a page under a file": ("paper report --results r -o data.csv/p.html", "cannot be written"),
    "counts into a folder": ("paper theory expressivity -o graphs", "'graphs': is a folder"),
    # going on
    "resume without a name": ("train cycles --resume", "--resume: name the run to continue"),
    "resume of nothing": ("train cycles --output none --resume", "none: contains no run"),
    "resume of another task": ("train zinc --output RUN --resume", "is a run of 'molecules', not"),
    "resume with a change": (
        "train molecules --output RUN --resume --lr 0.7", "--lr 0.7: the run has 0.002"),
    "resume with another table": (
        "train molecules two.csv --output RUN --resume", "two.csv: is not the data of this run"),
    "resume of a foreign file": (
        "train molecules --output FOREIGN --resume", "last.ckpt: is damaged or not a checkpoint"),
    # models
    "no such run": ("predict none data.csv -o o.csv", "none: no such file or folder"),
    "a folder without a run": ("evaluate graphs", "graphs: contains no model.safetensors"),
    "a foreign model": ("predict data.csv data.csv -o o.csv", "data.csv: is incomplete or not a"),
    "a model that is cut off": ("info cut.safetensors", "cut.safetensors: is incomplete or"),
    "a model without data": ("evaluate RUN/model.safetensors", "is a model file without data"),
    # new data
    "no data to predict": ("predict RUN none.csv -o o.csv", "none.csv does not exist"),
    "empty data to predict": ("predict RUN empty.csv -o o.csv", "empty.csv is empty"),
    "no rows to predict": ("predict RUN header.csv -o o.csv", "header.csv has a header but no"),
    "no SMILES to predict": ("predict RUN labels.csv -o o.csv", "has no column 'smiles'"),
    "molecules for graphs": ("predict KIND none -o o.csv", "none does not exist"),
    "graphs with other features": ("predict KIND bare -o o.csv", "without the attribute 'w'"),
    "no data to evaluate": ("evaluate RUN none.csv", "none.csv does not exist"),
    "no target to evaluate": ("evaluate RUN nameless.csv", "nameless.csv has no column 'size'"),
    "no target known to evaluate": ("evaluate RUN gaps.csv", "gaps.csv: has no known target"),
    "no molecule to evaluate": ("evaluate RUN nonsense.csv", "nonsense.csv: no row of column"),
    "graphs without targets": ("evaluate KIND graphs", "graphs: has no known target"),
    "unknown class": (
        "evaluate KIND graphs --labels strange.csv", "which is not one of the classes"),
    # info
    "info of nothing": ("info none", "none: no such run, file or task"),
    "info of an empty file": ("info empty.csv", "empty.csv is empty"),
    "info of data without data": ("info molecules", "molecules: has no built-in data"),
    "info of a damaged record": ("info DAMAGED", "run.json: cannot be read"),
}  # fmt: skip


@pytest.fixture(scope="module")
def place(
    home: Path,
    size_run: Path,
    kind_run: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder with all kinds of bad files."""
    folder = tmp_path_factory.mktemp("bad")
    for name in ("graphs", "nothing", "hollow", "notjson", "bare"):
        (folder / name).mkdir()
    shutil.copytree(home / "graphs", folder / "graphs", dirs_exist_ok=True)
    (folder / "hollow" / "g.json").write_text('{"nodes": [], "edges": []}')
    (folder / "notjson" / "g.json").write_text("{nodes")
    (folder / "bare" / "g.json").write_text('{"nodes": [{"id": 1}], "edges": []}')
    shutil.copy(home / "labels.csv", folder)
    labels = pd.read_csv(home / "labels.csv")
    labels.iloc[1:].to_csv(folder / "fewer.csv", index=False)
    labels.assign(kind="tree").to_csv(folder / "strange.csv", index=False)
    frame = molecules()
    tables = {
        "data": frame,
        "header": frame.iloc[:0],
        "two": frame.iloc[:2],
        "nonsense": frame.assign(smiles="nonsense"),
        "gaps": frame.assign(size=None),
        "one": frame.assign(kind="x", size=1.5),
        "inf": frame.assign(size=["inf", *frame["size"][1:]]),
        "nameless": frame.drop(columns="size"),
    }
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    texts = {
        "empty.csv": "",
        "twice.csv": "smiles,size,size\nC,1,2\n",
        "cells.csv": "smiles,size\nC,1\nCC,2,3\nCCC,3\n",
        "broken.parquet": "PAR1 and then nothing",
        "bad.yaml": "lr: [1, 2\nepochs: }",
        "list.yaml": "- lr\n",
        "typo.yaml": "epoch: 3\n",
        "bomb.yaml": "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in pairwise("abcdefgh")
        ),
        "nested.yaml": "lr: 0.1\nepochs: {much: 3}\n",
        "deep.yaml": "lr: " + "[" * 100_000 + "\n",
        "again.yaml": "lr: 0.1\nbatch_size: 3\nbatch-size: 4\n",
        "date.yaml": "lr: 2026-13-45\n",
        "digits.yaml": f"epochs: {'9' * 5000}\n",
        "huge.yaml": "# much\n" * 100_000,
        "zinc.yaml": "task_type: zinc\n",
        "type.yaml": "epochs: lots\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "binary.csv").write_bytes(bytes(range(256)) * 8)
    whole = (size_run / "model.safetensors").read_bytes()
    (folder / "cut.safetensors").write_bytes(whole[:1000])
    for name in ("FOREIGN", "DAMAGED"):
        shutil.copytree(size_run, folder / name)
    torch.save({"state_dict": torch.zeros(3)}, folder / "FOREIGN" / "last.ckpt")
    (folder / "DAMAGED" / "run.json").write_text('{"test": ')
    (folder / "RUN").symlink_to(size_run)
    (folder / "KIND").symlink_to(kind_run)
    (folder / "r").mkdir()
    os.mkfifo(folder / "pipe.yaml")
    return folder


def snapshot(folder: Path) -> dict[str, int]:
    """All files, also those in the runs that are linked, and when they were written."""
    found = [*folder.rglob("*"), *folder.glob("*/*")]
    return {str(p): p.stat().st_mtime_ns for p in found if p.is_file()}


@pytest.mark.parametrize("what", COMMANDS)
def test_bad_input_is_one_line(place: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    if "--device cuda" in COMMANDS[what][0] and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    monkeypatch.chdir(place)
    line, culprit = COMMANDS[what]
    before = snapshot(place)
    found = smpgnn(*line.split())
    assert found.status == 2, found
    errors = [
        text
        for text in found.err.splitlines()
        if not text.startswith(("Graphs: ", "Target ")) and " left out, " not in text
    ]
    assert len(errors) == 1, found.err
    assert len(errors[0]) < 1000
    assert errors[0].startswith("smpgnn")
    assert culprit in errors[0]
    assert "Traceback" not in found.err
    assert found.out == ""
    assert snapshot(place) == before


def test_a_disk_that_fills_up_while_training(place: Path, tmp_path: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        found = smpgnn(
            "train", "molecules", place / "data.csv", "--targets", "size", "--epochs", "1",
            "--device", "cpu", "--num-layers", "1", "--output", tmp_path / "run",
        )  # fmt: skip
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert found.status == 2
    assert "model.safetensors: cannot be written (File too large)" in found.err
    assert "Traceback" not in found.err
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert not list((tmp_path / "run").glob(".*"))


def test_an_error_of_several_lines_is_put_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from smpgnn.cli import info
    from smpgnn.errors import InputError

    def broken(*_: object) -> int:
        raise InputError("one\ntwo.")

    monkeypatch.setattr(info, "info", broken)
    assert smpgnn("info", "models").err == "smpgnn: one two.\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\n  two", "one two."),
        ("is it?", "is it?"),
        ("'\x1b[31m\x07é' is no SMILES.", "'\\x1b[31m\\x07é' is no SMILES."),
        (f"{'x' * 999}.csv: is empty.", f"{'x' * 150}…{'x' * 70}.csv: is empty."),
    ],
)
def test_a_message_is_one_sentence(text: str, line: str) -> None:
    from smpgnn.errors import one_sentence

    assert one_sentence(text) == line
    assert len(one_sentence("word " * 9999)) < 2001
