"""Write the records of the programs of `smpgnn paper theory` to results/theory.

python docs/theory/measure.py                  # about an hour on one core
python docs/theory/measure.py mpnn coloring    # some of them, in minutes

`ladder` (refinements on BREC) and `brec` (networks on BREC) need the folder SMPGNN_DATA.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from smpgnn.data.brec import brec_file, brec_pairs
from smpgnn.data.brec_parts import BREC
from smpgnn.files import write_text
from smpgnn.paper.theory import coloring, expressivity, mpnn, ppgn
from smpgnn.paper.theory.ladder import REFINEMENTS
from smpgnn.paper.theory.programs import Settings
from smpgnn.paper.theory.refinement import told_apart

#: The networks measured on all pairs of BREC.
MEMBERS = ("smp", "smp-distance", "smp-inside", "smp-inside-folklore", "smp-marks-1")
FOLDER = Path(__file__).resolve().parents[2] / "results" / "theory"

RECORDS: dict[str, Callable[[], Any]] = {
    "mpnn": lambda: asdict(mpnn.measure()),
    "ppgn": lambda: asdict(ppgn.measure()),
    "coloring": lambda: {"rows": [asdict(row) for row in coloring.measure()]},
    "expressivity": lambda: asdict(expressivity.measure(Settings())),
    "ladder": lambda: {"rungs": [_rung(name) for name in REFINEMENTS]},
    "brec": lambda: asdict(_on_brec()),
}


def _rung(refinement: str) -> dict[str, Any]:
    """The pairs of BREC that a refinement distinguishes, by number and counted by category."""
    pairs, rows = brec_pairs(), REFINEMENTS[refinement]
    apart = [k for k, pair in enumerate(pairs) if told_apart(pair.first, pair.second, rows)]
    counts = Counter(pairs[k].category for k in apart)
    return {
        "refinement": refinement,
        "told_apart": len(apart),
        "by_category": {name: counts[name] for name in BREC},
        "pairs": apart,
    }


def _on_brec() -> expressivity.Report:
    """The networks on BREC; the record names the file without its folder."""
    settings = Settings(
        models=MEMBERS, families=(), pairs=(str(brec_file()),), seeds=1, relabelings=1, width=32
    )
    found = expressivity.measure(settings)
    return replace(found, settings=replace(settings, pairs=("brec/pairs.tsv",)))


def main() -> None:
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or RECORDS:
        text = json.dumps(RECORDS[name](), indent=1, ensure_ascii=False) + "\n"
        write_text(FOLDER / f"{name}.json", text)
        print(f"results/theory/{name}.json")


if __name__ == "__main__":
    main()
