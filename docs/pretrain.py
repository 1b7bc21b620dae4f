"""Pretrain one general model of molecules on their RDKit descriptors, and write its model card.

    python docs/pretrain.py FOLDER        # the molecules of SMPGNN_DATA/pretrain; for a GPU
    python docs/pretrain.py FOLDER --rows 240000 --epochs 4 --precision bfloat16      # for a CPU

The same command continues: it keeps the table (FOLDER/targets.parquet) and resumes the run
(FOLDER/run) from its last epoch. With --minutes it stops after this time. At the end FOLDER/model
contains the weights, their record and the card; benchmarks/pretrained.py compares runs that start
from them with runs from scratch, and docs/ship.py copies them into the package.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray

import smpgnn
from smpgnn.checksums import file_digest
from smpgnn.config.options import MoleculesOptions
from smpgnn.config.settings import plain
from smpgnn.data.long_tables import descriptors_of
from smpgnn.data.molecule_features import RDKIT
from smpgnn.data.tables import existing_file
from smpgnn.errors import InputError, Terminated
from smpgnn.files import replacing, write_text
from smpgnn.training.run_folder import DATA, PLACE, RunFolder

#: Settings of the run; the others, such as the network, are the defaults of `molecules`.
EPOCHS = 20
SETTINGS: dict[str, Any] = {
    "task": "regression", "batch_size": 256, "lr": 4e-3, "warmup_epochs": 1.0, "metric": "r2",
    "baseline": False, "report": False, "seed": 0,
}  # fmt: skip
#: The validation part: this share of the molecules, at most so many.
SHARE, MOST = 0.05, 8192
#: Targets beyond these quantiles are set to them.
QUANTILES = (0.005, 0.995)
#: The largest share of unknown values of a target.
UNKNOWN = 0.01
NAME = "general"
#: The molecules that are pretrained on by default, in SMPGNN_DATA, and what their card says.
SOURCE = Path("pretrain", "smiles.txt.xz")
ORIGIN = (
    "Structures from public collections (PubChem, ChEMBL, ZINC, NCI, US EPA, QM9 and others; those "
    "derived from ChEMBL are CC BY-SA 3.0), without those of ESOL, FreeSolv, Lipophilicity, BACE, "
    "BBBP, ClinTox, SIDER, Tox21 and the validation and test parts of ZINC-12k, their tautomers "
    "and protonation forms; close analogues remain. Molecules of HIV, MUV, ToxCast, QM9, "
    "MoleculeACE and Biogen's ADME set are among them: do not evaluate a start from it on these."
)


def read_smiles(path: Path, rows: int = 0) -> list[str]:
    """The first `rows` SMILES of a file (0: all), one a line; also of .xz and .gz files."""
    openers: dict[str, Any] = {".xz": lzma.open, ".gz": gzip.open}
    try:
        with openers.get(path.suffix, open)(path, "rt", encoding="utf-8") as lines:
            found = [line.split()[0] for line in lines if line.strip()]
    except (OSError, lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}): name a file of SMILES.") from error
    return found[:rows] if rows else found


def chosen_targets(
    values: NDArray[np.float64], names: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The descriptors that are worth learning, and why each of the others is not.

    A few molecules have values a hundred times the standard deviation (charges, shape indices).
    They would set the scale of a target and dominate its error, so values are limited to the
    `QUANTILES`. What is constant then has nothing to teach.

    Shapes: values [rows, len(names)], NaN if unknown.
    """
    kept, left = {}, {}
    for name, column in zip(names, values.T, strict=True):
        if np.isnan(column).mean() > UNKNOWN:
            left[name] = "unknown for too many molecules"
            continue
        low, high = np.nanquantile(column, QUANTILES, method="nearest")
        limited = np.clip(column, low, high).astype(np.float32)
        if np.nanmin(limited) == np.nanmax(limited):
            left[name] = f"{low:g} for nearly all molecules"
        else:
            kept[name] = limited
    if not kept:
        raise InputError("no descriptor differs between the molecules: give other molecules.")
    return pd.DataFrame(kept), left


def make_table(folder: Path, source: Path, rows: int, origin: str = "") -> dict[str, Any]:
    """Write the table of targets unless it is there; the record of its content.

    `origin` says where the molecules come from.
    """
    table, about = folder / "targets.parquet", folder / "targets.json"
    known = {"source": source.name, "sha256": file_digest(existing_file(source)), "rows_read": rows}
    if about.exists():
        content: dict[str, Any] = json.loads(about.read_text(encoding="utf-8"))
        if {name: content.get(name) for name in known} != known:
            raise InputError(f"{about}: is of another file or --rows: name another folder.")
        return content
    smiles = read_smiles(source, rows)
    say(f"Computing descriptors of {len(smiles):,} molecules")
    values = descriptors_of(smiles)
    there = ~np.isnan(values).all(1)
    if there.sum() < 100:
        raise InputError(f"{source}: has only {there.sum()} molecules: give at least 100.")
    frame, left = chosen_targets(values[there], RDKIT)
    content = {
        **known,
        "origin": origin,
        "molecules": len(frame),
        "heavy_atoms": int(np.nanmax(values[:, RDKIT.index("NumHeavyAtoms")])),
        "targets": list(frame.columns),
        "left_out": left,
    }
    frame.insert(0, "smiles", [text for text, fine in zip(smiles, there, strict=True) if fine])
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(table) as beside:
        frame.to_parquet(beside, index=False)
    write_text(about, json.dumps(content, indent=1) + "\n")
    return content


def train(folder: Path, table: dict[str, Any], epochs: int, **machine: str) -> None:
    """Train, or continue the run; a finished one is left as it is."""
    run = RunFolder(folder / "run")
    if run.record.exists():
        return
    count = table["molecules"]
    order = np.random.default_rng(0).permutation(count)
    held = min(MOST, max(1, round(SHARE * count)))
    resume = run.config.exists()
    say(f"Reading {count:,} molecules to {'continue' if resume else 'start'} the run")
    smpgnn.train(
        "molecules",
        folder / "targets.parquet",
        train=np.sort(order[held:]).tolist(),
        val=np.sort(order[:held]).tolist(),
        targets=table["targets"],
        epochs=epochs,
        output=str(run.path),
        resume=resume,
        **machine,
        **SETTINGS,
    )


def write_model(folder: Path, table: dict[str, Any]) -> Path:
    """Copy the weights of the finished run, with their record and card; the folder of them."""
    run, made = RunFolder(folder / "run"), folder / "model"
    options, record = run.read_options(), run.read_record()
    assert isinstance(options, MoleculesOptions)
    left = (*PLACE, *DATA, "targets")
    settings = {name: value for name, value in plain(options).items() if name not in left}
    content = {"run": record, "config": {"task_type": "molecules", **settings}, "data": table}
    made.mkdir(exist_ok=True)
    weights = made / f"{NAME}.safetensors"
    with replacing(weights) as beside:
        beside.write_bytes(run.model.read_bytes())
    write_text(made / f"{NAME}.json", json.dumps(content, indent=1) + "\n")
    write_text(made / f"{NAME}.md", card(content, weights.stat().st_size, weights.name))
    return made


def card(content: dict[str, Any], size: int, word: str, results: str = "") -> str:
    """The model card, from the record of the run and the size of the weights in bytes.

    `word` names the model on the command line; `results` compares it with runs from scratch.
    """
    run, config, data = content["run"], content["config"], content["data"]
    metrics = {k: v for k, v in run["validation"].items() if k in ("mae", "rmse", "r2")}
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    lines = [
        f"# Model card: {NAME}",
        "",
        f"`docs/pretrain.py` writes this card from the record of the run, `{NAME}.json`.",
        "",
        "```",
        f"smpgnn train molecules data.csv --targets y --from {word}",
        f"smpgnn embed {word} data.csv -o vectors.parquet",
        "```",
        "",
        "**Purpose.** A start for training on small tables of molecules, and a vector for each "
        "molecule. Its own predictions are of no use: RDKit computes them exactly.",
        "",
        f"**Model.** The default network of `molecules` (`{config['model']}`): "
        f"{config['num_layers']} layers of width {config['hidden_channels']}; "
        f"{run['parameters']:,} parameters, {size / 1e6:.2f} MB.",
        "",
        f"**Targets.** {len(data['targets'])} RDKit descriptors, limited to their "
        f"{QUANTILES[0]:.1%} and {QUANTILES[1]:.1%} quantiles and standardised: "
        f"{', '.join(data['targets'])}.",
        "",
        f"**Data.** {data['molecules']:,} molecules of `{data['source']}` (SHA-256 "
        f"{data['sha256'][:16]}…). {data['origin'] + ' ' if data['origin'] else ''}"
        "A random part is for validation. The weights are those of the epoch with the best "
        f"validation metric (epoch {run['best_epoch']} of {run['epochs']}). There is no test part.",
        "",
        "| | " + " | ".join(metrics) + " |",
        "|---" * (1 + len(metrics)) + "|",
        "| validation | " + " | ".join(f"{value:.4f}" for value in metrics.values()) + " |",
        "",
        "(Means over the targets, in the units of RDKit.)",
        "",
        *(
            ["**As a start.**", "", "<!-- results: starts -->", results, "<!-- end -->", ""]
            if results
            else []
        ),
        f"**Limitations.** Trained on molecules of at most {data['heavy_atoms']} heavy atoms. It "
        "has seen structures only, no measured value.",
        "",
        f"**Training.** {run['wall_time_s'] / 60:.0f} minutes on {run['device']}; {versions}; "
        f"source at {run['commit'] or 'an unknown commit'}. All settings:",
        "",
        "```yaml",
        yaml.safe_dump(config, sort_keys=False).strip(),
        "```",
    ]
    return "\n".join(lines) + "\n"


def say(text: str) -> None:
    print(f"{text} …", file=sys.stderr, flush=True)


def end(*_: object) -> None:
    raise Terminated


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="for table, run and model")
    parser.add_argument("--smiles", metavar="FILE", type=Path, help="one SMILES a line")
    parser.add_argument("--rows", type=int, default=0, help="use the first N only; 0: all")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--precision", default="tf32", help="as of smpgnn train")
    parser.add_argument("--minutes", type=float, default=0, help="stop after; 0: at the end only")
    options = parser.parse_args()
    if options.rows < 0:
        parser.error("--rows: must be 0 or more.")
    source, origin = options.smiles, ""
    if source is None:
        if "SMPGNN_DATA" not in os.environ:
            parser.error("name the file with --smiles, or the data folder in SMPGNN_DATA.")
        source, origin = Path(os.environ["SMPGNN_DATA"]) / SOURCE, ORIGIN
    signal.signal(signal.SIGTERM, end)
    if options.minutes:
        timer = threading.Timer(60 * options.minutes, os.kill, (os.getpid(), signal.SIGTERM))
        timer.daemon = True
        timer.start()
    try:
        table = make_table(options.folder, source, options.rows, origin)
        machine = {"device": options.device, "precision": options.precision}
        train(options.folder, table, options.epochs, **machine)
        print(f"Wrote {write_model(options.folder, table)}.")
    except InputError as error:
        raise SystemExit(str(error)) from error
    except KeyboardInterrupt as stop:
        print("Stopped: the same command continues from the last epoch.", file=sys.stderr)
        raise SystemExit(143 if isinstance(stop, Terminated) else 130) from stop


if __name__ == "__main__":
    main()
