"""Time captured steps in a loop of one's own beside `smpgnn train`, and predictions on a GPU.

    python benchmarks/captured.py [--output captured.json]

All loops train the default network of ZINC on batches of 128 random molecules of ZINC's size, new
in each step: by the plain call and by `CapturedStep` on the batches of a PyG `DataLoader`, by
`CapturedStep` on graphs in memory (`data=…`), and by the step of `smpgnn train`. The loader is also
timed alone, and with PyG's GINE (12 layers of width 32). The loops alternate. Predictions are those
of `Model.predict_store` for the model that ships, from graphs in memory to a table.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from loader import make_store
from plain import Peer, default_network
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

import smpgnn
from smpgnn import CapturedStep
from smpgnn.capture.steps import can_capture
from smpgnn.config.options import ZincOptions
from smpgnn.data.store import GraphStore
from smpgnn.files import write_text
from smpgnn.training.objective import Objective
from smpgnn.training.steps import TrainingStep

BATCH, STEPS = 128, 40


def as_data(store: GraphStore) -> list[Data]:
    """The graphs of a store, one by one, on the CPU."""
    found = []
    for number in range(len(store)):
        one = store.batch(torch.tensor([number]))
        found.append(Data(x=one.x, edge_index=one.edge_index, edge_attr=one.edge_attr, y=one.y))
    return found


def forever(loader: DataLoader) -> Iterator[Any]:
    while True:
        yield from loader


def loops(store: GraphStore, device: torch.device) -> dict[str, Callable[[], object]]:
    """One step of each loop, by name."""
    data, generator = as_data(store), torch.Generator().manual_seed(0)
    fused = True if device.type == "cuda" else None

    def loader(workers: int = 0) -> Iterator[Any]:
        return forever(
            DataLoader(
                data,
                BATCH,
                shuffle=True,
                drop_last=True,
                num_workers=workers,
                persistent_workers=workers > 0,
            )
        )

    def graphs() -> Tensor:
        return torch.randperm(len(store), generator=generator)[:BATCH]

    def call(model: nn.Module, batch: Any) -> Tensor:
        out: Tensor = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
        return out

    def with_optimiser(model: nn.Module, step: Callable[[], object]) -> Callable[[], object]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused)

        def whole() -> None:
            optimizer.zero_grad(set_to_none=True)
            step()
            optimizer.step()

        return whole

    def of_batch(model: nn.Module) -> Callable[[Any], Tensor]:
        def step(batch: Any) -> Tensor:
            loss = nn.functional.l1_loss(call(model, batch), batch.y)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        return step

    def fed_by(step: Callable[[Any], object], batches: Iterator[Any]) -> Callable[[], object]:
        return lambda: step(next(batches).to(device))

    found: dict[str, Callable[[], object]] = {}
    for name, workers in (("loader alone", 0), ("loader with 2 workers alone", 2)):
        found[name] = partial(next, loader(workers))
    for name in ("GINE", "plain call"):
        torch.manual_seed(0)
        network = Peer("gine", 32, 12) if name == "GINE" else default_network()
        model = network.to(device)
        found[f"loader, {name}"] = with_optimiser(model, fed_by(of_batch(model), loader()))
    model = default_network().to(device)
    captured = CapturedStep(of_batch(model), model)
    for name, workers in (("loader, CapturedStep", 0), ("loader with 2 workers, CapturedStep", 2)):
        found[name] = with_optimiser(model, fed_by(captured, loader(workers)))
    other = default_network().to(device)
    held = CapturedStep(of_batch(other), other, data=store, batch_size=BATCH)
    found["graphs in memory, CapturedStep"] = with_optimiser(other, lambda: held(graphs()))
    ours = default_network().to(device)
    options = replace(ZincOptions(), clip=0.0)
    training = TrainingStep(
        ours,
        Objective(lambda output, batch: (output - batch.y).abs().mean()),
        store.to(device),
        options,
        capture=can_capture(ours, device),
    )
    found["smpgnn train"] = with_optimiser(ours, lambda: training(graphs()))
    return found


def measure(device: torch.device, graphs: int, rounds: int) -> dict[str, float]:
    """Milliseconds per step of each loop, the median of the rounds."""
    times: dict[str, list[float]] = {}
    found = loops(make_store(graphs, 1), device)
    for step in found.values():
        for _ in range(8):
            step()
    for _ in range(rounds):
        for name, step in found.items():
            _wait(device)
            start = time.perf_counter()
            for _ in range(STEPS if device.type == "cuda" else 2):
                step()
            _wait(device)
            seconds = time.perf_counter() - start
            times.setdefault(name, []).append(
                1000 * seconds / (STEPS if device.type == "cuda" else 2)
            )
    return {name: statistics.median(values) for name, values in times.items()}


def predictions(device: torch.device, count: int) -> float:
    """Molecules per second of the model that ships, from graphs in memory to a table."""
    model = smpgnn.load("zinc", device=device.type)
    store = make_store(1000, max(1, count // 1000))
    rates = []
    for _ in range(3):
        _wait(device)
        start = time.perf_counter()
        frame = model.predict_store(store)
        rates.append(len(frame) / (time.perf_counter() - start))
    return max(rates)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--predict", type=int, default=200_000, help="molecules to predict")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    device = torch.device(options.device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or "CPU"
    print(f"{name}, torch {torch.__version__}, {BATCH} molecules per batch\n")
    found = measure(device, options.graphs, options.rounds)
    for loop, ms in found.items():
        print(f"{loop:<36}{ms:>9.2f} ms")
    rate = predictions(device, options.predict)
    print(f"\npredictions: {rate:,.0f} molecules per second")
    if options.output:
        record = {
            "device": name,
            "torch": torch.__version__,
            "graphs": BATCH,
            "step_ms": found,
            "predicted": options.predict,
            "molecules_per_s": rate,
        }
        write_text(options.output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
