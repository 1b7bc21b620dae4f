"""Add a pretrained model, `zinc` or `general`, to the package, and write its model card.

python docs/ship.py RUN_FOLDER   # zinc: copy weights and record, write docs/models/zinc.md
python docs/ship.py MODEL.safetensors --record results/…/…-seed0.json   # zinc, of a table
python docs/ship.py FOLDER/model # general: what docs/pretrain.py FOLDER left
python docs/ship.py              # rewrite the cards of the pretrained models
python docs/ship.py --check      # exit 1 if a card does not match its record

Choose the run of `smpgnn train zinc` or `smpgnn paper reproduce` by its validation metric.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pretrain
import yaml
from fill_benchmarks import starts

from smpgnn.config.options import ZincOptions
from smpgnn.config.settings import plain
from smpgnn.errors import InputError
from smpgnn.files import replacing, write_text
from smpgnn.paper.experiments.records import read_record
from smpgnn.paper.experiments.tables import TABLES
from smpgnn.pretrained import NAMES
from smpgnn.training.run_folder import PLACE, RunFolder
from smpgnn.training.saved import load_model

ROOT = Path(__file__).resolve().parent.parent
MOST = 2_000_000  # bytes
#: The model of each task.
NAME_OF = {"zinc": "zinc", "molecules": pretrain.NAME}


def files(name: str) -> tuple[Path, Path, Path]:
    """Weights, record and card of a pretrained model, in the repository."""
    weights = Path("src/smpgnn/pretrained") / f"{name}.safetensors"
    return weights, weights.with_suffix(".json"), Path("docs/models") / f"{name}.md"


def of_run(run: Path) -> tuple[Path, dict[str, Any]]:
    """The weights of a run, and the content of its record."""
    folder = RunFolder(run)
    options, record = folder.read_options(), folder.read_record()
    if not isinstance(options, ZincOptions):
        raise InputError(f"{run}: this is a run of '{options.task_name()}', not of 'zinc'.")
    if not record:
        raise InputError(f"{run}: this run is not finished: complete it with --resume first.")
    settings = {name: value for name, value in plain(options).items() if name not in PLACE}
    return folder.model, {"run": record, "config": {"task_type": "zinc", **settings}}


def of_table(path: Path) -> dict[str, Any]:
    """The content of the record of a table, for its model."""
    record = read_record(path)
    table = TABLES.get(record.table)
    if table is None or table.task != "zinc":
        raise InputError(f"{path}: this is a record of the table '{record.table}', not of ZINC.")
    kept = ("parameters", "epochs", "best_epoch", "seed", "device", "wall_time_s", "versions")
    run = {
        **{name: getattr(record, name) for name in kept},
        "commit": record.commit,
        "validation": {"mae": record.validation},
        "test": {"mae": record.value},
        "record": f"{record.table}: {record.row}, {record.cell}, seed {record.seed}",
    }
    return {"run": run, "config": {"task_type": "zinc", **record.config}}


def of_general(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The weights that docs/pretrain.py left, and the content of their record."""
    weights = folder / f"{pretrain.NAME}.safetensors"
    content: dict[str, Any] = json.loads(weights.with_suffix(".json").read_text(encoding="utf-8"))
    means = {k: v for k, v in content["run"]["validation"].items() if " " not in k}
    return weights, {**content, "run": {**content["run"], "validation": means}}


def ship(weights: Path, content: dict[str, Any], root: Path) -> tuple[Path, Path, Path]:
    """Copy the weights, write the record and the card; the files."""
    network = load_model(weights).network  # raises if the file cannot be read
    size = weights.stat().st_size
    if size >= MOST:
        raise InputError(
            f"{weights}: {size:,} bytes are too many; a pretrained model must have fewer than "
            f"{MOST:,}."
        )
    count, said = sum(p.numel() for p in network.parameters()), content["run"]["parameters"]
    if count != said:
        raise InputError(
            f"{weights}: the model has {count:,} parameters, but the record says {said:,}."
        )
    made = files(NAME_OF[content["config"]["task_type"]])
    for path in made:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
    with replacing(root / made[0]) as beside:
        beside.write_bytes(weights.read_bytes())
    write_text(root / made[1], json.dumps(content, indent=1) + "\n")
    write_text(root / made[2], card(content, size))
    return made


def card(content: dict[str, Any], size: int) -> str:
    """The model card, from the record of the run and the size of the weights in bytes."""
    if content["config"]["task_type"] == "zinc":
        return zinc_card(content, size)
    return pretrain.card(content, size, pretrain.NAME, starts())


def zinc_card(content: dict[str, Any], size: int) -> str:
    """The model card of `zinc`."""
    run, config = content["run"], content["config"]
    edges = "with" if config["edge_features"] else "without"
    data = "all of ZINC" if config["full"] else "ZINC-12k with the split of the benchmark"
    results = [
        f"| {part} | " + " | ".join(f"{value:.4f}" for value in run[part].values()) + " |"
        for part in ("validation", "test")
    ]
    names = list(run["test"])
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    settings = yaml.safe_dump(config, sort_keys=False).strip()
    lines = [
        "# Model card: zinc",
        "",
        "`docs/ship.py` writes this card from `src/smpgnn/pretrained/zinc.json`.",
        "",
        "```",
        "smpgnn predict zinc molecules.csv -o predictions.csv   # needs rdkit: pip install "
        "'smpgnn[chem]'",
        "smpgnn explain zinc molecules.csv -o atoms.csv         # contribution of each atom",
        "smpgnn info pretrained",
        "```",
        "",
        f"**Model.** Structural message-passing (`{config['model']}`), {config['num_layers']} "
        f"layers of width {config['hidden_channels']}, {edges} bond types; "
        f"{run['parameters']:,} parameters, {size / 1e6:.2f} MB. It uses no expert features and "
        "no positional encodings.",
        "",
        "**Target.** The target `y` of the benchmark: the penalised logP of a molecule (called "
        "constrained solubility in the paper), predicted from its graph of heavy atoms. This "
        "number is computed from the structure, not measured. Do not use the model to decide on "
        "a substance.",
        "",
        f"**Data.** {data}. The weights are those of the epoch with the best validation metric "
        f"(epoch {run['best_epoch']} of {run['epochs']}). Test data were not used for any choice.",
        "",
        "| | " + " | ".join(names) + " |",
        "|---" * (1 + len(names)) + "|",
        *results,
        "",
        f"One run, {run.get('record', 'seed ' + str(run['seed']))}; `smpgnn paper report` shows "
        "the spread over seeds.",
        "",
        "**Limitations.** The model knows the atom types of the benchmark only: a molecule with "
        "another type gets no prediction, and the column `error` says so. It was not tested on "
        "molecules unlike those of ZINC, such as much larger ones. It ignores stereochemistry.",
        "",
        f"**Training.** {run['wall_time_s'] / 60:.0f} minutes on {run['device']}; {versions}; "
        f"source at {run['commit'] or 'an unknown commit'}. All settings:",
        "",
        "```yaml",
        settings,
        "```",
    ]
    return "\n".join(lines) + "\n"


def shipped_cards(root: Path) -> dict[Path, str]:
    """The cards of the pretrained models."""
    cards = {}
    for name in NAMES:
        weights, record, path = files(name)
        if (root / weights).exists():
            content = json.loads((root / record).read_text(encoding="utf-8"))
            cards[path] = card(content, (root / weights).stat().st_size)
    return cards


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", metavar="RUN_FOLDER", nargs="?", type=Path)
    parser.add_argument(
        "--record", metavar="FILE", type=Path, help="record of a table; RUN_FOLDER is its model"
    )
    parser.add_argument("--check", action="store_true", help="compare the card with the record")
    parser.add_argument(
        "--root", metavar="D", type=Path, default=ROOT, help="repository to write to"
    )
    arguments = parser.parse_args()
    if arguments.check:
        for path, text in shipped_cards(arguments.root).items():
            if (arguments.root / path).read_text(encoding="utf-8") != text:
                raise SystemExit(f"{path} does not match its record: run docs/ship.py again.")
        return
    if arguments.run is None:
        cards = shipped_cards(arguments.root)
        if not cards:
            parser.error("there is no pretrained model yet: pass a run folder.")
        for path, text in cards.items():
            write_text(arguments.root / path, text)
            print(f"Wrote {path}.")
        return
    try:
        if arguments.record is not None:
            weights, content = arguments.run, of_table(arguments.record)
        elif (arguments.run / f"{pretrain.NAME}.json").exists():
            weights, content = of_general(arguments.run)
        else:
            weights, content = of_run(arguments.run)
        made = ship(weights, content, arguments.root)
    except InputError as error:
        raise SystemExit(str(error)) from error
    print("Wrote {}, {} and {}.".format(*made))


if __name__ == "__main__":
    main()
