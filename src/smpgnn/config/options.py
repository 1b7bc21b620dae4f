"""All settings of a training run, shared by the command line, YAML files and Python.

This module does not import torch, so help and errors appear at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from smpgnn.config.metrics import LOSSES, METRICS
from smpgnn.config.network import NetworkOptions
from smpgnn.config.setting import DATA, HARDWARE, OPTIMISER, RUN, advanced, option
from smpgnn.config.settings import Options, nested, plain, with_values
from smpgnn.errors import InputError
from smpgnn.yaml_files import read_yaml

#: Multi-task loss: mean of the squared errors of the targets, or of their logarithms.
OBJECTIVES = ("mse", "log-mse")
#: Loss of ZINC: mean absolute error, or its sum with a Huber loss.
REGRESSION_OBJECTIVES = ("mae", "mae+huber")
#: Ways to split the user's own data.
SPLITS = ("random", "stratified", "scaffold", "butina", "time")
#: Where a network runs; auto: on a GPU if there is one.
DEVICES = ("auto", "cpu", "cuda", "mps")
#: Loggers of Lightning, in the run folder.
LOGGERS = ("tensorboard", "csv", "mlflow", "wandb", "none")
#: Limits of counts; larger ones are surely mistakes that would use up all time or memory.
_COUNT: Any = {"at_least": 1, "at_most": 10**9}
_SAMPLES: Any = {"at_least": 1, "at_most": 10**7}


def _default(name: str, default: Any, **changes: Any) -> Any:
    """The setting `name` of `TrainOptions` with another default for one task."""
    before = TrainOptions.__dataclass_fields__[name].metadata
    return field(default=default, metadata={**before, **changes})


@dataclass(frozen=True)
class TrainOptions(Options):
    """Settings of every training run."""

    network: NetworkOptions = nested(NetworkOptions(), norm="batch", residual=True)
    epochs: int = option(100, RUN, "maximum number of epochs", **_COUNT)
    batch_size: int = option(64, OPTIMISER, "graphs per batch", **_COUNT)
    batch_rows: int = advanced(
        0, HARDWARE, "maximum context rows per batch; 0: no limit", at_least=0, at_most=10**15
    )
    auto_batch: bool = option(False, HARDWARE, "choose batches that fit free memory")
    lr: float = option(1e-3, OPTIMISER, "learning rate", above=0, at_most=1000)
    optimizer: str = advanced("adamw", OPTIMISER, "optimiser", ("adamw", "adam", "sgd"))
    momentum: float = advanced(0.9, OPTIMISER, "momentum of sgd", at_least=0, below=1)
    weight_decay: float = option(1e-5, OPTIMISER, "weight decay", at_least=0, at_most=1000)
    schedule: str = advanced(
        "cosine", OPTIMISER, "learning rate schedule",
        ("cosine", "plateau", "step", "exponential", "constant"),
    )  # fmt: skip
    warmup_epochs: float = advanced(
        2.0, OPTIMISER, "warm-up epochs (cosine)", at_least=0, at_most=10**9
    )
    decay: float = advanced(
        0.5, OPTIMISER, "factor on the learning rate (plateau, step, exponential)",
        above=0, at_most=1000,
    )  # fmt: skip
    decay_epochs: int = advanced(
        20, OPTIMISER, "epochs between decays; for plateau: epochs without improvement", **_COUNT
    )
    min_lr: float = advanced(
        0.0, OPTIMISER, "stop when the learning rate falls below this (plateau)",
        at_least=0, at_most=1000,
    )  # fmt: skip
    clip: float = advanced(
        1.0, OPTIMISER, "maximum gradient norm; 0: no clipping", at_least=0, at_most=10**9
    )
    keep: str = advanced(
        "best", RUN, "weights to keep: of the best epoch by validation, or of the last",
        ("best", "last"),
    )  # fmt: skip
    patience: int = option(
        0, RUN, "stop after N epochs without improvement; 0: never", at_least=0, at_most=10**9
    )
    cuda_graphs: bool = advanced(True, HARDWARE, "capture training steps as CUDA graphs")
    seed: int = option(0, RUN, "random seed", at_least=0, below=2**32)
    device: str = option("auto", HARDWARE, "where to train", DEVICES)
    devices: int = advanced(
        1, HARDWARE, "processes per machine, one per GPU", at_least=1, at_most=1000
    )
    nodes: int = advanced(1, HARDWARE, "number of machines", at_least=1, at_most=10**5)
    precision: str = advanced(
        "tf32", HARDWARE, "precision on a GPU: TF32 matmuls, full float32, or bfloat16 autocast",
        ("tf32", "float32", "bfloat16"),
    )  # fmt: skip
    data_dir: str = advanced(
        "", DATA, "folder of the benchmark data; default: SMPGNN_DATA, else a cache"
    )
    output: str = option("", RUN, "run folder; default: runs/TASK-MODEL-TIME")
    report: bool = advanced(True, RUN, "write a page about the run, report.html")
    logger: str = advanced(
        "tensorboard", RUN, "where metrics are logged, besides metrics.csv", LOGGERS
    )

    _task: ClassVar[str] = ""

    def __init_subclass__(cls, task_name: str = "") -> None:
        cls._task = task_name

    @classmethod
    def task_name(cls) -> str:
        return cls._task


@dataclass(frozen=True)
class CyclesOptions(TrainOptions, task_name="cycles"):
    """Predict whether a graph contains a cycle of length k."""

    k: int = option(4, DATA, "length of the cycle: 4, 6 or 8")
    n: int = option(36, DATA, "nominal number of nodes, one of the paper's sizes for k")
    balance: str = option(
        "independent", DATA, "how to balance the classes", ("independent", "matched")
    )
    ood: bool = option(False, DATA, "train, validate and test on growing sizes; ignores --n")
    train_samples: int = option(10000, DATA, "number of training graphs", **_SAMPLES)
    test_samples: int = option(10000, DATA, "number of test graphs", **_SAMPLES)
    network: NetworkOptions = nested(
        TrainOptions.network,
        {"num_layers": "number of layers; 0: k"},
        model="fast-smp",
        num_layers=0,
        set_scale=0.1,
        readout="max",
    )
    epochs: int = _default("epochs", 50)


@dataclass(frozen=True)
class PropertiesOptions(TrainOptions, task_name="properties"):
    """Predict three node properties and three graph properties (the benchmark of PNA)."""

    connected: str = option("published", DATA, "label of connectivity", ("published", "correct"))
    objective: str = option(
        "mse", OPTIMISER, "loss: mean squared error or its logarithm", OBJECTIVES
    )
    network: NetworkOptions = nested(
        TrainOptions.network, hidden_channels=64, num_layers=8, towers=8, extractor_channels=32
    )
    epochs: int = _default("epochs", 300)
    batch_size: int = _default("batch_size", 16)


#: The default network for molecules: our best on ZINC with at most 105,000 parameters.
_MOLECULES = TrainOptions.network.changed(
    message_residual=True,
    hidden_channels=48,
    num_layers=6,
    identifiers="local",
    features="row",
    towers=4,
    shared_extractor=True,
    extractor_channels=64,
    readout="mean+scaled-sum",
)


@dataclass(frozen=True)
class ZincOptions(TrainOptions, task_name="zinc"):
    """Predict the penalised logP of molecules (ZINC)."""

    objective: str = option(
        "mae", OPTIMISER, "loss; huber adds weight to large errors", REGRESSION_OBJECTIVES
    )
    edge_features: bool = option(True, DATA, "use the bond types")
    full: bool = option(False, DATA, "use all 250,000 molecules instead of 12,000")
    data_dir: str = _default("data_dir", "", advanced=False)
    network: NetworkOptions = nested(_MOLECULES)
    batch_size: int = _default("batch_size", 128)
    lr: float = _default("lr", 4e-3)
    weight_decay: float = _default("weight_decay", 1e-4)
    epochs: int = _default("epochs", 400)


@dataclass(frozen=True)
class CountingOptions(TrainOptions, task_name="counting"):
    """Count cycles and chordal cycles in random graphs."""

    substructure: str = option(
        "cycle6", DATA, "what to count",
        ("cycle3", "cycle4", "cycle5", "cycle6", "cycle7", "cycle8", "chordal4", "chordal5"),
    )  # fmt: skip
    level: str = option(
        "graph", DATA, "counts of graphs, or of the cycles through each node", ("graph", "node")
    )
    data_dir: str = _default("data_dir", "", advanced=False)
    network: NetworkOptions = nested(
        TrainOptions.network, hidden_channels=64, num_layers=5, norm="none", readout="scaled-sum"
    )
    epochs: int = _default("epochs", 1200)
    batch_size: int = _default("batch_size", 512)
    optimizer: str = _default("optimizer", "adam")
    weight_decay: float = _default("weight_decay", 0.0)
    schedule: str = _default("schedule", "plateau")
    decay: float = _default("decay", 0.9)
    decay_epochs: int = _default("decay_epochs", 10)
    clip: float = _default("clip", 0.0)
    keep: str = _default("keep", "last")


@dataclass(frozen=True)
class TableOptions(TrainOptions):
    """Settings of training on your own data."""

    loss: str = option(
        "auto", OPTIMISER, "loss (auto: mae or cross-entropy)",
        ("auto", *LOSSES["regression"], *LOSSES["classification"]),
    )  # fmt: skip
    class_weight: str = advanced(
        "none", OPTIMISER, "weights of the classes in the loss; balanced: all count alike",
        ("none", "balanced"),
    )  # fmt: skip
    metric: str = option(
        "auto", RUN, "validation metric that chooses the model (auto: rmse or auc)",
        ("auto", *METRICS["regression"], *METRICS["classification"]),
    )  # fmt: skip
    targets: tuple[str, ...] = option((), DATA, "names of the target columns or attributes")
    task: str = option("auto", DATA, "type of task", ("auto", "regression", "classification"))
    log_target: bool = option(False, DATA, "learn log10 of the numbers")
    split: str = option("random", DATA, "how to split the data", SPLITS)
    split_time: str = option("", DATA, "column of dates or numbers, for --split time")
    split_column: str = option("", DATA, "column of train, val, test; overrides --split")
    split_fractions: tuple[float, ...] = option((0.8, 0.1, 0.1), DATA, "train, val, test fractions")
    folds: int = option(0, RUN, "folds of a cross-validation; 0: none", at_least=0, at_most=1000)
    repeats: int = advanced(
        1, RUN, "cross-validations, each with other folds", at_least=1, at_most=1000
    )
    ensemble: int = option(1, RUN, "models to train and average", at_least=1, at_most=1000)
    calibration: float = option(0.0, RUN, "share of rows for intervals", at_least=0, below=1)
    jobs: int = advanced(
        0, HARDWARE, "members trained side by side; 0: as many as fit the processors",
        at_least=0, at_most=1000,
    )  # fmt: skip
    weight_column: str = advanced("", DATA, "column with the weight of each row in the loss")
    edge_features: bool = advanced(True, DATA, "use edge or bond features")
    network: NetworkOptions = nested(TrainOptions.network, message_residual=True)
    lr: float = _default("lr", 2e-3)


@dataclass(frozen=True)
class MoleculesOptions(TableOptions, task_name="molecules"):
    """Predict properties of molecules from a table of SMILES."""

    path: str = option("", DATA, "CSV, Parquet, SDF or Mol file")
    smiles_column: str = option("smiles", DATA, "name of the SMILES column")
    standardize: bool = option(False, DATA, "use the largest organic fragment, neutralised")
    replicates: str = option(
        "keep", DATA, "rows of one molecule: keep them in one split, or average them",
        ("keep", "mean"),
    )  # fmt: skip
    separator: str = advanced("", DATA, "separator of a CSV file; default: detected")
    descriptors: tuple[str, ...] = option(
        (), DATA, "features of whole molecules: rdkit (a set of descriptors) and names of columns"
    )
    from_run: str = option(
        "", RUN, "start from the weights of a trained model: run folder, model file, or 'general'",
        flag="--from",
    )  # fmt: skip
    freeze: bool = advanced(False, RUN, "train only the head of the network (with --from)")
    baseline: bool = advanced(
        True, RUN, "also fit boosted trees on fingerprints and descriptors, to compare with"
    )
    # own_terms improves results here but not on ZINC, whose atoms have few features:
    # docs/training.md
    network: NetworkOptions = nested(_MOLECULES, own_terms=True, extractor_channels=48)
    weight_decay: float = _default("weight_decay", 1e-4)


@dataclass(frozen=True)
class GraphsOptions(TableOptions, task_name="graphs"):
    """Predict properties of your own graphs, from a file or folder."""

    path: str = option("", DATA, "file or folder of graphs (node-link JSON, GraphML, edge lists)")
    labels: str = option("", DATA, "CSV table with the targets, one row per graph")
    level: str = option("graph", DATA, "predict graph or node targets", ("graph", "node"))
    integers: str = advanced(
        "numbers", DATA, "integer features of graphs from Python, where categories is the default",
        ("numbers", "categories"),
    )  # fmt: skip
    network: NetworkOptions = nested(TableOptions.network, identifiers="neighborhood")
    batch_size: int = _default("batch_size", 32)


TASKS: dict[str, type[TrainOptions]] = {
    cls.task_name(): cls
    for cls in (
        CyclesOptions,
        PropertiesOptions,
        ZincOptions,
        CountingOptions,
        MoleculesOptions,
        GraphsOptions,
    )
}


def read_config(path: str | Path) -> dict[str, Any]:
    """Read the keys and values of a YAML file."""
    return read_yaml(path)


def to_yaml(options: TrainOptions) -> str:
    """The options as YAML text that `read_config` can read."""
    import yaml

    values = {"task_type": options.task_name(), **plain(options)}
    text: str = yaml.safe_dump(values, sort_keys=False)
    return text


def from_config(values: dict[str, Any], where: str) -> TrainOptions:
    """Options from the content of a config file with a `task_type`."""
    rest = dict(values)
    task = rest.pop("task_type", None)
    if not isinstance(task, str) or task not in TASKS:
        raise InputError(f"{where}: task_type must be one of {', '.join(TASKS)}, not {task!r}.")
    return with_values(TASKS[task](), rest, where)
