"""Lightning's Trainer and its loggers: made for the options of a run, started, and kept quiet."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning import loggers
from pytorch_lightning.loggers import Logger

from smpgnn.config.options import TrainOptions
from smpgnn.config.settings import plain
from smpgnn.errors import InputError, Terminated
from smpgnn.training.callbacks import Terminator
from smpgnn.training.module import GraphModule
from smpgnn.training.processes import first_process
from smpgnn.training.resume import damaged


def make_trainer(
    options: TrainOptions, device: torch.device, logger: Logger | bool, callbacks: list[pl.Callback]
) -> pl.Trainer:
    """The trainer of a run; refuses options that do not fit the environment."""
    if options.precision == "tf32" and device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    several = options.devices * options.nodes > 1
    try:
        trainer = pl.Trainer(
            accelerator="gpu" if device.type == "cuda" else device.type,
            devices=options.devices,
            num_nodes=options.nodes,
            strategy="ddp" if several else "auto",
            max_epochs=options.epochs,
            deterministic=True if device.type == "cpu" else "warn",
            # batches by rows: their number changes from epoch to epoch
            reload_dataloaders_every_n_epochs=1 if options.batch_rows else 0,
            callbacks=callbacks,
            logger=logger,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            log_every_n_steps=10**9,
            use_distributed_sampler=False,
        )
        environment = getattr(trainer.strategy, "cluster_environment", None)
        if environment is not None:
            environment.validate_settings(num_devices=options.devices, num_nodes=options.nodes)
    except (ValueError, RuntimeError, KeyError, MisconfigurationException) as error:
        # the environment of Slurm or torchrun does not fit the options
        detail = " ".join(str(error).split())
        raise InputError(
            f"--devices {options.devices} --nodes {options.nodes}: {detail}"
        ) from error
    return trainer


def fit(
    trainer: pl.Trainer,
    module: GraphModule,
    start: Path | None,
    terminator: Terminator,
    checked: bool,
) -> None:
    """Train from the checkpoint `start`, if there is one; `checked`: its checksum matches."""
    try:
        if trainer.num_nodes > 1:
            terminator.waiting()
        trainer.fit(module, ckpt_path=start, weights_only=True)
    except SystemExit as stop:
        if trainer.interrupted:  # Lightning exits on every interrupt
            ended = terminator.called or isinstance(stop.__context__, Terminated)
            raise Terminated if ended else KeyboardInterrupt from None
        raise
    except torch.OutOfMemoryError as error:
        raise InputError(
            f"out of memory on {trainer.strategy.root_device}: start a new run with a lower "
            f"--batch-size (now {module.options.batch_size}) or --batch-rows, or with fewer layers."
        ) from error
    except Exception as error:
        if start is None or terminator.began:
            raise
        if not checked:
            raise damaged(start) from error
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
        raise InputError(
            f"{start}: cannot be resumed ({reason}): delete it to restart the run."
        ) from error
    finally:
        terminator.met()


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Silence Lightning, and restore what it sets for the whole process."""
    strict = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    precision = torch.get_float32_matmul_precision()
    handler = signal.getsignal(signal.SIGINT)
    for name in ("pytorch_lightning", "lightning.pytorch", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pytorch_lightning.*")
        warnings.filterwarnings("ignore", module="lightning_fabric.*")
        warnings.filterwarnings("ignore", message=".*deterministic.*", category=UserWarning)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=warn_only)
            torch.set_float32_matmul_precision(precision)
            if signal.getsignal(signal.SIGINT) is not handler:
                signal.signal(signal.SIGINT, handler)


@contextlib.contextmanager
def run_logger(options: TrainOptions, folder: Path) -> Iterator[Logger | bool]:
    """The logger that `options.logger` names, False for none; closed at the end.

    MLflow writes to `MLFLOW_TRACKING_URI` if that is set. Weights & Biases works offline unless
    `WANDB_API_KEY` or `WANDB_MODE` is set.
    """
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
