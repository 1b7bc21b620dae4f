"""Time the assembly of batches beside the training step that uses them.

    python benchmarks/loader.py [--device cuda] [--output loader.json]

The script assembles batches of 128 molecules of ZINC's size from a store of 10,000, and trains the
paper's ZINC network on them. The loader should be at least three times as fast as the step.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from step import make_step
from workloads import Workload, zinc

from smpgnn.contexts.topology import pointer
from smpgnn.data.store import GraphStore
from smpgnn.training.loader import BatchLoader


def make_store(graphs: int = 1000, copies: int = 10) -> GraphStore:
    """Molecule-like graphs with features, each copied several times to save time."""
    work = zinc(graphs)
    assert work.x is not None
    assert work.edge_attr is not None
    sizes = torch.bincount(work.batch)
    node_ptr = pointer(sizes)
    edge_graph = work.batch[work.edge_index[1]]
    edges = torch.bincount(edge_graph, minlength=graphs)
    store = GraphStore(
        node_ptr=node_ptr,
        edge_ptr=pointer(edges),
        edge_index=work.edge_index - node_ptr[edge_graph],
        x=work.x.to(torch.uint8),
        edge_attr=work.edge_attr.to(torch.uint8),
        y=torch.randn(graphs, 1),
    )
    return store.select(torch.arange(graphs).repeat(copies))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time batch assembly and training step.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    store = make_store().to(options.device)
    made = []
    batches = iter(BatchLoader(store, 128, seed=0))
    for _ in range(70):
        start = time.perf_counter()
        batch = store.batch(next(batches))
        if options.device == "cuda":
            torch.cuda.synchronize()
        made.append(1000 * (time.perf_counter() - start))
    work = Workload(
        "zinc",
        zinc(1).make,
        batch.x,
        batch.edge_index,
        batch.edge_attr,
        batch.batch,
        batch.num_graphs,
    )
    step = make_step(work.make().to(options.device), work)
    taken = []
    for _ in range(7):
        start = time.perf_counter()
        step()
        if options.device == "cuda":
            torch.cuda.synchronize()
        taken.append(1000 * (time.perf_counter() - start))
    load_ms, step_ms = statistics.median(made[5:]), statistics.median(taken[2:])
    print(
        f"batch of 128: {load_ms:.2f} ms, training step: {step_ms:.1f} ms, "
        f"loader {step_ms / load_ms:.0f} times as fast ({options.device})"
    )
    if options.output:
        record = {"device": options.device, "batch_ms": load_ms, "step_ms": step_ms}
        options.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
