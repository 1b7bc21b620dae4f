"""Write the figures of results/ into the README, between its markers.

python docs/fill_readme.py           # rewrite
python docs/fill_readme.py --check   # exit 1 where it would change
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def read(path: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / "results" / path).read_text(encoding="utf-8"))
    return content


def demo() -> str:
    lines = ["| | parameters | test accuracy | training time |", "|---|---|---|---|"]
    for model, name in (("fast-smp", "Fast SMP"), ("gin", "GIN, same frame")):
        run = read(f"demo/{model}/run.json")
        lines.append(
            f"| {name} | {run['parameters']:,} | {100 * run['test']['accuracy']:.2f}% "
            f"| {run['wall_time_s']:.0f} s |"
        )
    run = read("demo/fast-smp/run.json")
    lines.append("")
    lines.append(f"({run['device']}; seed {run['seed']}; records in `results/demo`.)")
    return "\n".join(lines)


def step() -> str:
    lines = [
        "| | case | ours | naive | faster | ours, peak | naive, peak | smaller |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for file in ("step-cpu.json", "step-h200.json"):
        record = read(f"benchmarks/{file}")
        for row in record["rows"]:
            lines.append(
                f"| {record['device']} | {row['case']} | {row['ours_ms']:.0f} ms "
                f"| {row['naive_ms']:.0f} ms | {row['naive_ms'] / row['ours_ms']:.1f}× "
                f"| {row['ours_mib']:.0f} MiB | {row['naive_mib']:.0f} MiB "
                f"| {row['naive_mib'] / row['ours_mib']:.1f}× |"
            )
    return "\n".join(lines)


def complexity() -> str:
    record = read("benchmarks/complexity.json")
    lines = [
        "| one layer | memory | measured | time | measured |",
        "|---|---|---|---|---|",
    ]
    for row in record["results"]:
        lines.append(
            f"| {row['method']} | {row['memory']} | n^{row['measured_memory_exponent']:.2f} "
            f"| {row['time']} | n^{row['measured_time_exponent']:.2f} |"
        )
    return "\n".join(lines)


BLOCKS = {"demo": demo, "step": step, "complexity": complexity}


def filled(text: str) -> str:
    """The README with every block written anew."""
    for name, write in BLOCKS.items():
        pattern = re.compile(rf"(<!-- results: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"README.md: there is no block '{name}'.")
        body = write()
        text = pattern.sub(lambda found, body=body: f"{found[1]}{body}\n{found[2]}", text)
    return text


def main() -> None:
    path = ROOT / "README.md"
    before = path.read_text(encoding="utf-8")
    after = filled(before)
    if "--check" in sys.argv[1:]:
        raise SystemExit(
            0 if before == after else "README.md is not what results/ say: run docs/fill_readme.py."
        )
    path.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
