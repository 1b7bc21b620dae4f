"""The logger of a run: one of Lightning's, which writes into the run folder."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from smpgnn.config.options import TrainOptions
from smpgnn.config.settings import plain
from smpgnn.errors import InputError
from smpgnn.training.processes import first_process

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger


@contextlib.contextmanager
def run_logger(options: TrainOptions, folder: Path) -> Iterator[Logger | bool]:
    """The logger that `options.logger` names, False for none; closed at the end.

    MLflow writes to `MLFLOW_TRACKING_URI` if that is set. Weights & Biases works offline unless
    `WANDB_API_KEY` or `WANDB_MODE` is set.
    """
    from pytorch_lightning import loggers

    kind, place = options.logger, folder.absolute()
    logger: Logger | None = None
    with contextlib.ExitStack() as ending:
        if kind == "tensorboard":
            logger = loggers.TensorBoardLogger(str(folder), name="", version="tensorboard")
        elif kind == "csv":
            logger = loggers.CSVLogger(str(folder), name="", version="csv")
        elif kind != "none":
            if importlib.util.find_spec(kind) is None:
                raise InputError(f"--logger {kind}: needs a package: pip install {kind}.")
            folder.mkdir(parents=True, exist_ok=True)
        if kind == "mlflow":
            logger = loggers.MLFlowLogger(
                "smpgnn",
                run_name=folder.name,
                tracking_uri=os.environ.get("MLFLOW_TRACKING_URI")
                or f"sqlite:///{place}/mlflow.db",
                artifact_location=(place / "mlflow").as_uri(),
            )
        elif kind == "wandb":
            import wandb

            online = {"WANDB_API_KEY", "WANDB_MODE"} & set(os.environ)
            logger = loggers.WandbLogger(
                folder.name, str(folder), project="smpgnn", offline=not online
            )
            ending.callback(wandb.finish)  # else the next run of this process continues it
        if logger is not None and kind != "tensorboard" and first_process():
            logger.log_hyperparams(plain(options))
        yield False if logger is None else logger
