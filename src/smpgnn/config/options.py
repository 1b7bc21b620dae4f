"""Every setting of a training run, as data: what the command line, YAML files and Python share.

Nothing here needs torch, so that help and errors answer at once.
"""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from smpgnn.config.catalogue import (
    FEATURES,
    IDENTIFIERS,
    MODELS,
    NORM_PLACES,
    OBJECTIVES,
    READOUTS,
    REGRESSION_OBJECTIVES,
)
from smpgnn.errors import InputError, nearest, quoted
from smpgnn.yaml_files import read_yaml


def _option(default: Any, help: str, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"help": help, "choices": choices})


@dataclass(frozen=True)
class TrainOptions:
    """What all kinds of training have in common."""

    model: str = _option("smp", "network to train", MODELS)
    hidden_channels: int = _option(32, "width of the contexts")
    num_layers: int = _option(4, "number of layers: how many hops a node can see")
    identifiers: str = _option("onehot", "rows of a context", IDENTIFIERS)
    context_radius: int = _option(3, "hops within which a context tells nodes apart (local)")
    dropout: float = _option(0.0, "share of the features dropped before the last map")
    norm: str = _option("batch", "norm of the rows", ("batch", "layer", "none"))
    norm_place: str = _option("before", "norm the input of a layer or its result", NORM_PLACES)
    residual: bool = _option(True, "add the input of each layer to its output")
    towers: int = _option(1, "groups of channels that do not mix, to save weights")
    set_scale: float = _option(1.0, "factor on the initial set terms W2 and W3")
    set_terms: bool = _option(True, "W2 and W3, by which a context sees the mean of its rows")
    own_terms: bool = _option(False, "let all rows of a context see its own row")
    features: str = _option("own", "rows of a context that hold node features at first", FEATURES)
    message_residual: bool = _option(False, "add the neighbour's context to its message (smp)")
    update_residual: bool = _option(False, "add the prepared context to the update (smp)")
    divide_update: bool = _option(False, "divide all of the update by the average degree")
    shared_extractor: bool = _option(False, "one extractor after all layers, to save weights")
    extractor_channels: int = _option(0, "width of the extracted features; 0: four times the width")
    readout: str = _option("mean", "how the nodes of a graph are joined", READOUTS)
    checkpoint: bool = _option(False, "keep only the input of each layer: less memory, more time")
    epochs: int = _option(100, "passes over the training data")
    batch_size: int = _option(64, "graphs in a batch")
    batch_rows: int = _option(0, "most rows of contexts in a batch; 0: no limit but batch_size")
    auto_batch: bool = _option(False, "set batch_rows so that a batch fits the free memory")
    lr: float = _option(1e-3, "learning rate")
    optimizer: str = _option("adamw", "optimiser", ("adamw", "adam", "sgd"))
    momentum: float = _option(0.9, "momentum of sgd")
    weight_decay: float = _option(1e-5, "weight decay")
    schedule: str = _option(
        "cosine",
        "course of the learning rate",
        ("cosine", "plateau", "step", "exponential", "constant"),
    )
    warmup_epochs: float = _option(2.0, "epochs over which the rate rises from 0 (cosine)")
    decay: float = _option(0.5, "factor on the rate (plateau, step, exponential)")
    decay_epochs: int = _option(20, "epochs between decays; for plateau: without improvement")
    min_lr: float = _option(0.0, "stop when the rate falls below this (plateau)")
    clip: float = _option(1.0, "largest norm of the gradient; 0: no limit")
    average: float = _option(0.0, "decay of the average of the weights to test, a step; 0: none")
    patience: int = _option(0, "stop after so many epochs without improvement; 0: never")
    cuda_graphs: bool = _option(True, "record training steps as CUDA graphs where it can be done")
    seed: int = _option(0, "seed of everything random")
    device: str = _option("auto", "where to train", ("auto", "cpu", "cuda"))
    devices: int = _option(1, "processes on this machine (one a GPU)")
    nodes: int = _option(1, "machines")
    precision: str = _option(
        "tf32",
        "arithmetic on a GPU: float32 with TF32 products, without them, or bfloat16 autocast",
        ("tf32", "float32", "bfloat16"),
    )
    data_dir: str = _option("", "folder with the data sets; else SMPGNN_DATA, else a cache")
    output: str = _option("", "folder of the run; default: runs/, named after task, model and time")

    @classmethod
    def task_name(cls) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class CyclesOptions(TrainOptions):
    """Does the graph hold a cycle of length k?"""

    k: int = _option(4, "length of the cycle: 4, 6 or 8")
    n: int = _option(36, "nominal number of nodes: one of the paper's sizes for this k")
    balance: str = _option("independent", "how the classes are made", ("independent", "matched"))
    ood: bool = _option(False, "train, validate and test on growing sizes (n is not used)")
    train_samples: int = _option(10000, "training graphs")
    test_samples: int = _option(10000, "test graphs")
    model: str = _option("fast-smp", "network to train", MODELS)
    num_layers: int = _option(0, "number of layers; 0: k")
    epochs: int = _option(50, "passes over the training data")
    set_scale: float = _option(0.1, "factor on the initial set terms W2 and W3")
    readout: str = _option("max", "how the nodes of a graph are joined", READOUTS)

    @classmethod
    def task_name(cls) -> str:
        return "cycles"


@dataclass(frozen=True)
class PropertiesOptions(TrainOptions):
    """Distances, eccentricity, Laplacian; connectivity, diameter, spectral radius."""

    connected: str = _option("published", "label of connectivity", ("published", "correct"))
    source_marker: str = _option(
        "own", "contexts that hold the mark of the source", ("own", "every context")
    )
    objective: str = _option(
        "mse", "what is made small: squared errors or their logarithms", OBJECTIVES
    )
    hidden_channels: int = _option(64, "width of the contexts")
    num_layers: int = _option(8, "number of layers: how many hops a node can see")
    towers: int = _option(8, "groups of channels that do not mix, to save weights")
    epochs: int = _option(300, "passes over the training data")
    batch_size: int = _option(16, "graphs in a batch")
    extractor_channels: int = _option(32, "width of the extracted features")

    @classmethod
    def task_name(cls) -> str:
        return "properties"


@dataclass(frozen=True)
class RegressionOptions(TrainOptions):
    """What tasks have in common whose targets may be numbers."""

    objective: str = _option(
        "mae",
        "what regressions make small; with huber large errors weigh more",
        REGRESSION_OBJECTIVES,
    )
    message_residual: bool = _option(True, "add the neighbour's context to its message (smp)")


@dataclass(frozen=True)
class MolecularOptions(RegressionOptions):
    """The network for molecules: that of the best row of ZINC with at most 105,000 parameters."""

    hidden_channels: int = _option(48, "width of the contexts")
    num_layers: int = _option(6, "number of layers: how many hops a node can see")
    identifiers: str = _option("local", "rows of a context", IDENTIFIERS)
    features: str = _option("row", "rows of a context that hold node features at first", FEATURES)
    towers: int = _option(4, "groups of channels that do not mix, to save weights")
    shared_extractor: bool = _option(True, "one extractor after all layers, to save weights")
    extractor_channels: int = _option(64, "width of the extracted features")
    readout: str = _option("mean+scaled-sum", "how the nodes of a graph are joined", READOUTS)
    weight_decay: float = _option(1e-4, "weight decay")


@dataclass(frozen=True)
class ZincOptions(MolecularOptions):
    """Constrained solubility of molecules (ZINC)."""

    edge_features: bool = _option(True, "use the bond types")
    full: bool = _option(False, "all 250,000 molecules instead of the benchmark's 12,000")
    batch_size: int = _option(128, "graphs in a batch")
    lr: float = _option(4e-3, "learning rate")
    epochs: int = _option(400, "passes over the training data")

    @classmethod
    def task_name(cls) -> str:
        return "zinc"


@dataclass(frozen=True)
class TableOptions(RegressionOptions):
    """What training on data of one's own has in common."""

    targets: tuple[str, ...] = _option((), "names of the target columns or attributes")
    task: str = _option("auto", "what to predict", ("auto", "regression", "classification"))
    split: str = _option("random", "how to part the data", ("random", "scaffold"))
    split_column: str = _option("", "column that says train, val or test; overrides split")
    split_fractions: tuple[float, ...] = _option(
        (0.8, 0.1, 0.1), "shares of training, validation and test data"
    )
    edge_features: bool = _option(True, "use the features of edges or bonds")
    lr: float = _option(2e-3, "learning rate")


@dataclass(frozen=True)
class MoleculesOptions(MolecularOptions, TableOptions):
    """Properties of molecules, from a table of SMILES."""

    path: str = _option("", "CSV or Parquet file")
    smiles_column: str = _option("smiles", "name of the column with the SMILES")
    separator: str = _option("", "separator of a CSV file; found out where not given")
    # here own terms are a gain, for ZINC's bare atoms a loss: docs/training.md
    own_terms: bool = _option(True, "let all rows of a context see its own row")
    extractor_channels: int = _option(48, "width of the extracted features")
    lr: float = _option(2e-3, "learning rate")  # dataclasses would take that of the first base

    @classmethod
    def task_name(cls) -> str:
        return "molecules"


@dataclass(frozen=True)
class GraphsOptions(TableOptions):
    """Graphs of one's own, from a file or folder."""

    path: str = _option("", "file or folder of graphs (node-link JSON, GraphML, edge lists)")
    labels: str = _option("", "CSV table with the targets, one row a graph")
    level: str = _option("graph", "what the targets belong to", ("graph", "node"))
    identifiers: str = _option("neighborhood", "rows of a context", IDENTIFIERS)
    batch_size: int = _option(32, "graphs in a batch")

    @classmethod
    def task_name(cls) -> str:
        return "graphs"


TASKS: dict[str, type[TrainOptions]] = {
    cls.task_name(): cls
    for cls in (CyclesOptions, PropertiesOptions, ZincOptions, MoleculesOptions, GraphsOptions)
}

Options = TypeVar("Options", bound=TrainOptions)


def with_values(options: Options, values: dict[str, Any], where: str) -> Options:
    """These options with some values replaced, each checked; `where` names their origin."""
    hints = get_type_hints(type(options))
    known = {f.name: f for f in fields(options)}
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean '{near}'?" if near else f"known are: {', '.join(known)}."
            raise InputError(f"{where}: unknown key {quoted(name)}: {hint}")
        checked[name] = _checked(name, value, hints[name], known[name].metadata["choices"], where)
    return replace(options, **checked)


def read_config(path: str | Path) -> dict[str, Any]:
    """The keys and values of a YAML file."""
    return read_yaml(path)


def to_yaml(options: TrainOptions) -> str:
    """The options as a YAML file that `read_config` reads back."""
    import yaml

    values = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(options).items()
    }
    text: str = yaml.safe_dump({"task_type": options.task_name(), **values}, sort_keys=False)
    return text


def from_config(values: dict[str, Any], where: str) -> TrainOptions:
    """Options from the content of a config that names its `task_type`."""
    rest = dict(values)
    task = rest.pop("task_type", None)
    if not isinstance(task, str) or task not in TASKS:
        raise InputError(f"{where}: task_type must be one of {', '.join(TASKS)}, not {task!r}.")
    return with_values(TASKS[task](), rest, where)


_POSITIVE = (
    "hidden_channels",
    "context_radius",
    "epochs",
    "batch_size",
    "lr",
    "devices",
    "nodes",
    "towers",
    "decay",
    "decay_epochs",
    "train_samples",
    "test_samples",
)
_NOT_NEGATIVE = (
    "batch_rows",
    "weight_decay",
    "warmup_epochs",
    "clip",
    "patience",
    "min_lr",
    "num_layers",
    "extractor_channels",
    "dropout",
    "momentum",
    "average",
    "seed",
)
_BELOW = {"dropout": 1, "momentum": 1, "average": 1, "seed": 2**32}
#: What is certainly a slip, and would take all time or memory, or overflow, before anybody notices.
_AT_MOST = {
    "hidden_channels": 2**16,
    "extractor_channels": 2**16,
    "towers": 2**16,
    "num_layers": 1000,
    "context_radius": 10**9,
    "epochs": 10**9,
    "batch_size": 10**9,
    "batch_rows": 10**15,
    "train_samples": 10**7,
    "test_samples": 10**7,
    "lr": 1e3,
    "min_lr": 1e3,
    "weight_decay": 1e3,
    "set_scale": 1e6,
    "clip": 1e9,
    "decay": 1e3,
    "decay_epochs": 10**9,
    "warmup_epochs": 1e9,
    "patience": 10**9,
    "devices": 1000,
    "nodes": 10**5,
}


def _checked(name: str, value: Any, hint: Any, choices: tuple[str, ...], where: str) -> Any:
    wrong = InputError(f"{where}: {name} must be {_described(hint)}, not {quoted(value)}.")
    if hint is bool:
        if not isinstance(value, bool):
            raise wrong
    elif hint is int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong
    elif hint is float:
        if isinstance(value, str):  # YAML reads 1e-3 as text
            try:
                value = float(value)
            except ValueError as error:
                raise wrong from error
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong
        try:
            value = float(value)
        except OverflowError as error:  # a whole number of 400 digits
            raise wrong from error
        if not math.isfinite(value):
            raise wrong
    elif hint is str:
        value = "none" if value is None and "none" in choices else value
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(value, str) or not _is_text(value):
            raise wrong
    else:
        item = float if "float" in str(hint) else str
        values = [value] if isinstance(value, str | float | int) else value
        if not isinstance(values, list | tuple):
            raise wrong
        value = tuple(_checked(name, entry, item, (), where) for entry in values)
    if choices and value not in choices:
        raise InputError(
            f"{where}: {name} must be one of {', '.join(choices)}, not {quoted(value)}."
        )
    rule = ""
    if name in _POSITIVE and not value > 0:
        rule = "must be above 0"
    elif name in _NOT_NEGATIVE and value < 0:
        rule = "must not be negative"
    elif name in _BELOW and value >= _BELOW[name]:
        rule = f"must be below {_BELOW[name]}"
    elif name in _AT_MOST and abs(value) > _AT_MOST[name]:
        most = f"{_AT_MOST[name]:g}"
        rule = f"must be at least -{most}" if value < 0 else f"must be at most {most}"
    if rule:
        raise InputError(f"{where}: {name} {rule}, not {quoted(value)}.")
    return value


def _is_text(value: str) -> bool:
    """Whether it can be written to a file and may be the name of one."""
    try:
        value.encode()
    except UnicodeEncodeError:  # bytes of a command line that are not UTF-8
        return False
    return "\0" not in value


def _described(hint: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    return names.get(hint, "a list")
