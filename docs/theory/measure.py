"""Write the records of four programs of `smpgnn paper theory` to results/theory.

python docs/theory/measure.py                  # about two minutes on one core
python docs/theory/measure.py mpnn coloring    # some of them
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from smpgnn.files import write_text
from smpgnn.paper.theory import coloring, expressivity, mpnn, ppgn
from smpgnn.paper.theory.programs import Settings

FOLDER = Path(__file__).resolve().parents[2] / "results" / "theory"

RECORDS: dict[str, Callable[[], Any]] = {
    "mpnn": lambda: asdict(mpnn.measure()),
    "ppgn": lambda: asdict(ppgn.measure()),
    "coloring": lambda: {"rows": [asdict(row) for row in coloring.measure()]},
    "expressivity": lambda: asdict(expressivity.measure(Settings())),
}


def main() -> None:
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or RECORDS:
        text = json.dumps(RECORDS[name](), indent=1, ensure_ascii=False) + "\n"
        write_text(FOLDER / f"{name}.json", text)
        print(f"results/theory/{name}.json")


if __name__ == "__main__":
    main()
