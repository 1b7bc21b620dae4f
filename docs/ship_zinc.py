"""Ship a model trained on ZINC, and write its card.

python docs/ship_zinc.py RUN_FOLDER   # weights and record into the package, docs/models/zinc.md
python docs/ship_zinc.py MODEL.safetensors --record results/…/…-seed0.json   # one of a table
python docs/ship_zinc.py              # the card of the model that ships, anew
python docs/ship_zinc.py --check      # exit 1 where the card is not what the record says

The run, of `smpgnn train zinc` or `smpgnn paper reproduce`, is to be chosen by its validation
metric. A table's record says how its model was made; the weights are those that the run left
behind.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import yaml

from smpgnn.config.options import ZincOptions
from smpgnn.config.settings import plain
from smpgnn.errors import InputError
from smpgnn.files import replacing, write_text
from smpgnn.paper.experiments.records import read_record
from smpgnn.paper.experiments.tables import TABLES
from smpgnn.training.run_folder import PLACE, RunFolder
from smpgnn.training.saved import load_model

ROOT = Path(__file__).resolve().parent.parent
MOST = 2_000_000  # bytes
WEIGHTS = Path("src/smpgnn/pretrained/zinc.safetensors")
RECORD = WEIGHTS.with_suffix(".json")
CARD = Path("docs/models/zinc.md")


def of_run(run: Path) -> tuple[Path, dict[str, Any]]:
    """The weights that a run left behind, and what is to be known of it."""
    folder = RunFolder(run)
    options, record = folder.read_options(), folder.read_record()
    if not isinstance(options, ZincOptions):
        raise InputError(f"{run}: is a run of '{options.task_name()}', not of 'zinc'.")
    if not record:
        raise InputError(f"{run}: is not finished: go on with it by --resume first.")
    settings = {name: value for name, value in plain(options).items() if name not in PLACE}
    return folder.model, {"run": record, "config": {"task_type": "zinc", **settings}}


def of_table(path: Path) -> dict[str, Any]:
    """What is to be known of a model, from the record of its cell."""
    record = read_record(path)
    table = TABLES.get(record.table)
    if table is None or table.task != "zinc":
        raise InputError(f"{path}: is a record of the table '{record.table}', not of ZINC.")
    kept = ("parameters", "epochs", "best_epoch", "seed", "device", "wall_time_s", "versions")
    run = {
        **{name: getattr(record, name) for name in kept},
        "commit": record.commit,
        "validation": {"mae": record.validation},
        "test": {"mae": record.value},
        "record": f"{record.table}: {record.row}, {record.cell}, seed {record.seed}",
    }
    return {"run": run, "config": {"task_type": "zinc", **record.config}}


def ship(weights: Path, content: dict[str, Any], root: Path) -> None:
    """Copy the weights, write the record and the card."""
    network = load_model(weights).network  # what cannot be read is not shipped
    size = weights.stat().st_size
    if size >= MOST:
        raise InputError(f"{weights}: has {size:,} bytes; a model to ship has below {MOST:,}.")
    count, said = sum(p.numel() for p in network.parameters()), content["run"]["parameters"]
    if count != said:
        raise InputError(f"{weights}: has {count:,} parameters, but the record says {said:,}.")
    for path in (WEIGHTS, CARD):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
    with replacing(root / WEIGHTS) as beside:
        beside.write_bytes(weights.read_bytes())
    write_text(root / RECORD, json.dumps(content, indent=1) + "\n")
    write_text(root / CARD, card(content, size))


def card(content: dict[str, Any], size: int) -> str:
    """The model card, from the record of the run and the size of the weights in bytes."""
    run, config = content["run"], content["config"]
    edges = "with" if config["edge_features"] else "without"
    data = "all of ZINC" if config["full"] else "ZINC-12k, the benchmark's three parts"
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
        "Written by `docs/ship_zinc.py` from `src/smpgnn/pretrained/zinc.json`; nothing here is "
        "typed by hand.",
        "",
        "```",
        "smpgnn predict zinc molecules.csv -o predictions.csv   # needs rdkit: pip install "
        "'smpgnn[chem]'",
        "smpgnn explain zinc molecules.csv -o atoms.csv         # what each atom adds",
        "smpgnn info pretrained",
        "```",
        "",
        "**What it is.** Structural message-passing "
        f"(`{config['model']}`), {config['num_layers']} layers of width "
        f"{config['hidden_channels']}, {edges} bond types; {run['parameters']:,} parameters, "
        f"{size / 1e6:.2f} MB. No expert features and no positional encodings.",
        "",
        "**What it predicts.** The target `y` of the benchmark, the penalised logP of a molecule "
        "(the paper: constrained solubility), from its graph of heavy atoms. A number computed "
        "from the structure, not a measurement: the model shows how well such a network learns "
        "it, and is no tool to decide on a substance by.",
        "",
        f"**Data.** {data}. The weights are those of the best epoch on the validation part (epoch "
        f"{run['best_epoch']} of {run['epochs']}); the test part took no part in any choice.",
        "",
        "| | " + " | ".join(names) + " |",
        "|---" * (1 + len(names)) + "|",
        *results,
        "",
        f"One run, {run.get('record', 'seed ' + str(run['seed']))}; the spread over seeds is in "
        "the results of the tables (`smpgnn paper report`).",
        "",
        "**Limits.** Atoms are described by the types that the benchmark has: a molecule with "
        "another one gets no prediction, and the column `error` says so. Molecules unlike those of "
        "ZINC, much larger ones above all, are outside of what was tested. Stereochemistry is not "
        "seen.",
        "",
        f"**How it was made.** On {run['device']}, {run['wall_time_s'] / 60:.0f} minutes; "
        f"{versions}; source at {run['commit'] or 'an unknown commit'}. All settings:",
        "",
        "```yaml",
        settings,
        "```",
    ]
    return "\n".join(lines) + "\n"


def shipped_card(root: Path) -> str:
    """The card of the model that ships."""
    content = json.loads((root / RECORD).read_text(encoding="utf-8"))
    return card(content, (root / WEIGHTS).stat().st_size)


def check(root: Path) -> None:
    """Refuse a card that is not the one of the shipped model."""
    if not (root / WEIGHTS).exists():
        return
    expected = shipped_card(root)
    if (root / CARD).read_text(encoding="utf-8") != expected:
        raise SystemExit(f"{CARD} is not what {RECORD} says: run docs/ship_zinc.py again.")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", metavar="RUN_FOLDER", nargs="?", type=Path)
    parser.add_argument("--record", metavar="FILE", type=Path, help="of a table: RUN is its model")
    parser.add_argument("--check", action="store_true", help="compare the card with the record")
    parser.add_argument("--root", metavar="D", type=Path, default=ROOT, help="where to ship to")
    arguments = parser.parse_args()
    if arguments.check:
        check(arguments.root)
        return
    if arguments.run is None:
        if not (arguments.root / WEIGHTS).exists():
            parser.error("no model ships yet: name the folder of a run.")
        write_text(arguments.root / CARD, shipped_card(arguments.root))
        print(f"{CARD} is written.")
        return
    try:
        if arguments.record is None:
            weights, content = of_run(arguments.run)
        else:
            weights, content = arguments.run, of_table(arguments.record)
        ship(weights, content, arguments.root)
    except InputError as error:
        raise SystemExit(str(error)) from error
    print(f"{WEIGHTS}, {RECORD} and {CARD} are written.")


if __name__ == "__main__":
    main()
