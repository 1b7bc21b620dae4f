"""smpgnn export."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from smpgnn.cli.arguments import add_model, add_output
from smpgnn.cli.interrupts import importing


def add_export(verbs: Any) -> None:
    parser = verbs.add_parser(
        "export",
        help="write a trained model as a file that runs without smpgnn",
        description="Write a trained model as an AOTInductor package, which torch runs, or as an "
        "ONNX file, which ONNX Runtime runs. Both take graph tensors and give the numbers and "
        "probabilities of 'smpgnn predict' (docs/export.md).",
        epilog="examples:\n  smpgnn export runs/logS -o model.pt2\n"
        "  smpgnn export runs/logS -o model.onnx",
    )
    add_model(parser.add_argument_group("model"))
    add_output(parser, "file to write: .pt2 or .onnx")
    parser.add_argument_group("hardware").add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="where a .pt2 package runs; default: cpu",
    )
    parser.set_defaults(parser=parser, command=export)


def export(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.inference.export import export_model
        from smpgnn.inference.predict import load

    model = load(arguments.run, arguments.device)
    done = export_model(model, arguments.output, _show)
    print(f"{done.path} written. Inputs:")
    for name, shape in done.inputs.items():
        print(f"  {name} [{', '.join(str(size) for size in shape)}]")
    print(f"Output columns: {', '.join(done.columns)}")
    print(f"Largest difference from the network on test graphs: {done.difference:.1e}")
    return 0


def _show(text: str) -> None:
    print(f"smpgnn export: {text} …", file=sys.stderr, flush=True)
