"""All training settings as dataclasses, shared by the command line, YAML files and Python.

This module does not import torch, so help and errors appear at once.
"""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
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

#: Titles of the option groups in the order in which the help shows them.
GROUPS = ("data", "training run", "network", "optimiser", "hardware and memory")
DATA, RUN, NETWORK, OPTIMISER, HARDWARE = GROUPS


def _option(
    default: Any, group: str, help: str, choices: tuple[str, ...] = (), *, advanced: bool = False
) -> Any:
    """A setting; only `--help-all` shows an `advanced` one."""
    metadata = {"group": group, "help": help, "choices": choices, "advanced": advanced}
    return field(default=default, metadata=metadata)


_advanced = partial(_option, advanced=True)


def _default(name: str, default: Any, **changes: Any) -> Any:
    """The setting `name` of `TrainOptions` with another default for one task."""
    before = TrainOptions.__dataclass_fields__[name].metadata
    return field(default=default, metadata={**before, **changes})


@dataclass(frozen=True)
class TrainOptions:
    """Settings of every training run."""

    model: str = _option("smp", NETWORK, "network to train", MODELS)
    hidden_channels: int = _option(32, NETWORK, "width of the layers")
    num_layers: int = _option(4, NETWORK, "number of layers; each reaches one hop further")
    identifiers: str = _option("onehot", NETWORK, "type of local contexts", IDENTIFIERS)
    context_radius: int = _option(3, NETWORK, "radius in hops (--identifiers local)")
    dropout: float = _option(0.0, NETWORK, "dropout probability before the last linear layer")
    norm: str = _advanced("batch", NETWORK, "normalisation layer", ("batch", "layer", "none"))
    norm_place: str = _advanced("before", NETWORK, "normalise before or after a layer", NORM_PLACES)
    residual: bool = _advanced(True, NETWORK, "residual connection around each layer")
    towers: int = _advanced(1, NETWORK, "independent channel groups; more need fewer weights")
    set_scale: float = _advanced(1.0, NETWORK, "factor on the initial weights W2 and W3")
    set_terms: bool = _advanced(True, NETWORK, "W2 and W3, which add the mean row of the context")
    own_terms: bool = _advanced(False, NETWORK, "add the context's own row to all its rows")
    features: str = _advanced(
        "own", NETWORK, "where node features enter the initial contexts", FEATURES
    )
    message_residual: bool = _advanced(
        False, NETWORK, "add the neighbour's context to its message (smp)"
    )
    update_residual: bool = _advanced(
        False, NETWORK, "add the transformed context to the update (smp)"
    )
    divide_update: bool = _advanced(False, NETWORK, "divide the whole update by the average degree")
    shared_extractor: bool = _advanced(
        False, NETWORK, "one extractor after the last layer instead of one per layer"
    )
    extractor_channels: int = _advanced(
        0, NETWORK, "width of the extracted features; 0: four times the layer width"
    )
    readout: str = _option("mean", NETWORK, "pooling of the nodes of a graph", READOUTS)
    checkpoint: bool = _advanced(False, HARDWARE, "gradient checkpointing: less memory, more time")
    epochs: int = _option(100, RUN, "maximum number of epochs")
    batch_size: int = _option(64, OPTIMISER, "graphs per batch")
    batch_rows: int = _advanced(0, HARDWARE, "maximum context rows per batch; 0: no limit")
    auto_batch: bool = _option(False, HARDWARE, "choose batches that fit the free memory")
    lr: float = _option(1e-3, OPTIMISER, "learning rate")
    optimizer: str = _advanced("adamw", OPTIMISER, "optimiser", ("adamw", "adam", "sgd"))
    momentum: float = _advanced(0.9, OPTIMISER, "momentum of sgd")
    weight_decay: float = _option(1e-5, OPTIMISER, "weight decay")
    schedule: str = _advanced(
        "cosine",
        OPTIMISER,
        "learning rate schedule",
        ("cosine", "plateau", "step", "exponential", "constant"),
    )
    warmup_epochs: float = _advanced(2.0, OPTIMISER, "warm-up epochs (cosine)")
    decay: float = _advanced(
        0.5, OPTIMISER, "factor on the learning rate (plateau, step, exponential)"
    )
    decay_epochs: int = _advanced(
        20, OPTIMISER, "epochs between decays; for plateau: epochs without improvement"
    )
    min_lr: float = _advanced(
        0.0, OPTIMISER, "stop when the learning rate falls below this (plateau)"
    )
    clip: float = _advanced(1.0, OPTIMISER, "maximum gradient norm; 0: no clipping")
    patience: int = _option(0, RUN, "stop after N epochs without improvement; 0: never")
    cuda_graphs: bool = _advanced(True, HARDWARE, "capture training steps as CUDA graphs")
    seed: int = _option(0, RUN, "random seed")
    device: str = _option("auto", HARDWARE, "where to train", ("auto", "cpu", "cuda"))
    devices: int = _advanced(1, HARDWARE, "processes per machine, one per GPU")
    nodes: int = _advanced(1, HARDWARE, "number of machines")
    precision: str = _advanced(
        "tf32",
        HARDWARE,
        "precision on a GPU: TF32 matmuls, full float32, or bfloat16 autocast",
        ("tf32", "float32", "bfloat16"),
    )
    data_dir: str = _advanced(
        "", DATA, "folder of the benchmark data; default: SMPGNN_DATA, else a cache"
    )
    output: str = _option("", RUN, "run folder; default: runs/TASK-MODEL-TIME")

    @classmethod
    def task_name(cls) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class CyclesOptions(TrainOptions):
    """Predict whether a graph contains a cycle of length k."""

    k: int = _option(4, DATA, "length of the cycle: 4, 6 or 8")
    n: int = _option(36, DATA, "nominal number of nodes, one of the paper's sizes for k")
    balance: str = _option(
        "independent", DATA, "how to balance the classes", ("independent", "matched")
    )
    ood: bool = _option(False, DATA, "train, validate and test on growing sizes; ignores --n")
    train_samples: int = _option(10000, DATA, "number of training graphs")
    test_samples: int = _option(10000, DATA, "number of test graphs")
    model: str = _default("model", "fast-smp")
    num_layers: int = _default("num_layers", 0, help="number of layers; 0: k")
    epochs: int = _default("epochs", 50)
    set_scale: float = _default("set_scale", 0.1)
    readout: str = _default("readout", "max")

    @classmethod
    def task_name(cls) -> str:
        return "cycles"


@dataclass(frozen=True)
class PropertiesOptions(TrainOptions):
    """Predict three node properties and three graph properties (the benchmark of PNA)."""

    connected: str = _option("published", DATA, "label of connectivity", ("published", "correct"))
    objective: str = _option(
        "mse", OPTIMISER, "loss: mean squared error or its logarithm", OBJECTIVES
    )
    hidden_channels: int = _default("hidden_channels", 64)
    num_layers: int = _default("num_layers", 8)
    towers: int = _default("towers", 8)
    epochs: int = _default("epochs", 300)
    batch_size: int = _default("batch_size", 16)
    extractor_channels: int = _default("extractor_channels", 32)

    @classmethod
    def task_name(cls) -> str:
        return "properties"


@dataclass(frozen=True)
class RegressionOptions(TrainOptions):
    """Settings of tasks that may be regressions."""

    objective: str = _option(
        "mae", OPTIMISER, "regression loss; huber adds weight to large errors",
        REGRESSION_OBJECTIVES,
    )  # fmt: skip
    message_residual: bool = _default("message_residual", True)


@dataclass(frozen=True)
class MolecularOptions(RegressionOptions):
    """The default network for molecules: our best on ZINC with at most 105,000 parameters."""

    hidden_channels: int = _default("hidden_channels", 48)
    num_layers: int = _default("num_layers", 6)
    identifiers: str = _default("identifiers", "local")
    features: str = _default("features", "row")
    towers: int = _default("towers", 4)
    shared_extractor: bool = _default("shared_extractor", True)
    extractor_channels: int = _default("extractor_channels", 64)
    readout: str = _default("readout", "mean+scaled-sum")
    weight_decay: float = _default("weight_decay", 1e-4)


@dataclass(frozen=True)
class ZincOptions(MolecularOptions):
    """Predict the penalised logP of molecules (ZINC)."""

    edge_features: bool = _option(True, DATA, "use the bond types")
    full: bool = _option(False, DATA, "use all 250,000 molecules instead of 12,000")
    data_dir: str = _default("data_dir", "", advanced=False)
    batch_size: int = _default("batch_size", 128)
    lr: float = _default("lr", 4e-3)
    epochs: int = _default("epochs", 400)

    @classmethod
    def task_name(cls) -> str:
        return "zinc"


@dataclass(frozen=True)
class TableOptions(RegressionOptions):
    """Settings of training on your own data."""

    targets: tuple[str, ...] = _option((), DATA, "names of the target columns or attributes")
    task: str = _option("auto", DATA, "type of task", ("auto", "regression", "classification"))
    split: str = _option("random", DATA, "how to split the data", ("random", "scaffold"))
    split_column: str = _option("", DATA, "column of train, val, test; overrides --split")
    split_fractions: tuple[float, ...] = _option(
        (0.8, 0.1, 0.1), DATA, "train, validation and test fractions"
    )
    edge_features: bool = _advanced(True, DATA, "use edge or bond features")
    lr: float = _default("lr", 2e-3)


@dataclass(frozen=True)
class MoleculesOptions(MolecularOptions, TableOptions):
    """Predict properties of molecules from a table of SMILES."""

    path: str = _option("", DATA, "CSV or Parquet file")
    smiles_column: str = _option("smiles", DATA, "name of the SMILES column")
    separator: str = _advanced("", DATA, "separator of a CSV file; default: detected")
    # own terms improve results here but not on ZINC, whose atoms have few features:
    # docs/training.md
    own_terms: bool = _default("own_terms", True)
    extractor_channels: int = _default("extractor_channels", 48)
    lr: float = _default("lr", 2e-3)  # without it, MolecularOptions' default would win

    @classmethod
    def task_name(cls) -> str:
        return "molecules"


@dataclass(frozen=True)
class GraphsOptions(TableOptions):
    """Predict properties of your own graphs, from a file or folder."""

    path: str = _option("", DATA, "file or folder of graphs (node-link JSON, GraphML, edge lists)")
    labels: str = _option("", DATA, "CSV table with the targets, one row per graph")
    level: str = _option("graph", DATA, "predict graph or node targets", ("graph", "node"))
    identifiers: str = _default("identifiers", "neighborhood")
    batch_size: int = _default("batch_size", 32)

    @classmethod
    def task_name(cls) -> str:
        return "graphs"


TASKS: dict[str, type[TrainOptions]] = {
    cls.task_name(): cls
    for cls in (CyclesOptions, PropertiesOptions, ZincOptions, MoleculesOptions, GraphsOptions)
}

Options = TypeVar("Options", bound=TrainOptions)


def with_values(options: Options, values: dict[str, Any], where: str) -> Options:
    """Replace some values of the options and check each; `where` names their origin in errors."""
    hints = get_type_hints(type(options))
    known = {f.name: f for f in fields(options)}
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean '{near}'?" if near else f"known keys are {', '.join(known)}."
            raise InputError(f"{where}: unknown key {quoted(name)}: {hint}")
        checked[name] = _checked(name, value, hints[name], known[name].metadata["choices"], where)
    return replace(options, **checked)


def read_config(path: str | Path) -> dict[str, Any]:
    """Read the keys and values of a YAML file."""
    return read_yaml(path)


def to_yaml(options: TrainOptions) -> str:
    """The options as YAML text that `read_config` can read."""
    import yaml

    values = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(options).items()
    }
    text: str = yaml.safe_dump({"task_type": options.task_name(), **values}, sort_keys=False)
    return text


def from_config(values: dict[str, Any], where: str) -> TrainOptions:
    """Options from the content of a config file with a `task_type`."""
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
    "seed",
)
_BELOW = {"dropout": 1, "momentum": 1, "seed": 2**32}
#: Larger values are surely mistakes that would use up all time or memory, or overflow.
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
        except OverflowError as error:  # an integer with 400 digits
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
    """Whether a text can be written to a file and be a file name."""
    try:
        value.encode()
    except UnicodeEncodeError:  # the command line contained bytes that are not UTF-8
        return False
    return "\0" not in value


def _described(hint: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    return names.get(hint, "a list")
