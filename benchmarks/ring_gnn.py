"""Ring-GNN whose operations all start alike, and whose broadcasting operations start at 0.

    python benchmarks/ring_gnn.py [--part walks start twins training] [--output ring-gnn.json]

Walks: for each cell of Table 1a, the test accuracy of a logistic regression on the numbers of
nodes and of walks of 1, …, k steps, which rows and columns of a matrix can count without a value
for each pair. Start: the share of the variance of entries (i, j), i ≠ j, that is not a value of i
plus a value of j, in the factors and products of a fresh network. Twins: how far the outputs of a
fresh network for a graph with the cycle and its twin without (`balance='matched'`) are apart.
Training: the loss of a short training in the smallest cell that earlier versions did not learn
with every seed. 'alike' starts all 15 operations with the same bound, as these versions did.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from torch import Tensor, nn

from smpgnn import ContextIndex, Topology
from smpgnn.baselines.pairs import PairIndex, PairNetwork
from smpgnn.baselines.ppgn import PPGN
from smpgnn.baselines.ring_gnn import PairLinear, RingGNN
from smpgnn.data.cycles import CYCLE_SIZES, cycle_graphs, cycle_splits
from smpgnn.data.store import GraphStore
from smpgnn.files import write_text

NETWORKS = ("PPGN", "Ring-GNN", "Ring-GNN, alike")


def network(name: str, width: int, num_layers: int) -> PairNetwork:
    """A fresh network as in Table 1a."""
    torch.manual_seed(0)
    kind = PPGN if name == "PPGN" else RingGNN
    model = kind(0, 2, width, num_layers, norm="batch", residual=True)
    if name == "Ring-GNN, alike":
        for module in model.modules():
            if isinstance(module, PairLinear):
                bound = 1 / math.sqrt(15 * module.weight.size(1))
                nn.init.uniform_(module.weight, -bound, bound)
    return model


def walk_counts(store: GraphStore, steps: int) -> tuple[Tensor, Tensor]:
    """The numbers of nodes and of walks of 1, …, `steps` steps, [G, 1 + steps], and the labels."""
    batch = store.batch()
    assert batch.y is not None
    sender, receiver = batch.edge_index
    walks = torch.ones(batch.num_nodes, dtype=torch.float64)
    counts = [store.num_nodes.double()]
    for _ in range(steps):
        walks = torch.zeros_like(walks).index_add(0, receiver, walks[sender])
        counts.append(torch.zeros_like(counts[0]).index_add(0, batch.batch, walks))
    return torch.stack(counts, dim=1), batch.y.flatten()


def walks(k: int, n: int) -> dict[str, Any]:
    """The test accuracy of a regression on walk counts and their products; data of seed 0."""
    splits = cycle_splits(k, n, seed=0)
    model = make_pipeline(
        StandardScaler(), PolynomialFeatures(2), StandardScaler(), LogisticRegression(max_iter=300)
    )
    model.fit(*walk_counts(splits.train, k))
    accuracy = model.score(*walk_counts(splits.test, k))
    return {"k": k, "n": n, "accuracy": 100 * float(accuracy)}


def own_share(rows: Tensor, sizes: list[int]) -> float:
    """The share of the variance that is not a value of i plus a value of j, mean over channels."""
    whole, own = torch.zeros(2, rows.size(1))
    for matrix in torch.split(rows, [size**2 for size in sizes]):
        n = math.isqrt(len(matrix))
        apart = ~torch.eye(n, dtype=torch.bool)
        t = matrix.view(n, n, -1)
        t = t - t.mean((0, 1))
        rest = t - t.mean(0, keepdim=True) - t.mean(1, keepdim=True)
        whole += t[apart].square().sum(0)
        own += rest[apart].square().sum(0)
    return float((own / whole.clamp(min=1e-30)).mean())


class Watched(PairIndex):
    """Notes the shares of the factors and products of each layer."""

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        result = super().product(left, right)
        sizes = self.topology.graph_size.tolist()
        SHARES.append([own_share(rows, sizes) for rows in (left, result)])
        return result


SHARES: list[list[float]] = []


@torch.no_grad()
def start(name: str, k: int, n: int) -> dict[str, Any]:
    """The shares in each layer of a fresh network on 8 graphs."""
    batch = cycle_graphs(k, n, 8, seed=0).batch()
    topology = Topology.checked(batch.edge_index, batch.batch)
    model = network(name, 32, k)
    SHARES.clear()
    model.backbone(None, None, Watched.of(ContextIndex.build(topology, "onehot", k)))
    factors, products = zip(*SHARES, strict=True)
    return {"network": name, "k": k, "n": n, "factors": factors, "products": products}


@torch.no_grad()
def twins(name: str, k: int, n: int) -> dict[str, Any]:
    """The difference of twins relative to the standard deviation over 32 graphs, in float64."""
    batch = cycle_graphs(k, n, 32, balance="matched", seed=0).batch()
    model = network(name, 32, k).double()
    out = model(None, batch.edge_index, batch=batch.batch, batch_size=batch.num_graphs)
    apart = (out[0::2] - out[1::2]).square().mean().sqrt() / out.std(0).mean()
    return {"network": name, "k": k, "n": n, "difference": float(apart)}


def training(name: str, k: int, n: int, steps: int) -> dict[str, Any]:
    """The training loss, in means of 100 steps."""
    begin = time.process_time()
    store = cycle_graphs(k, n, 10_000, seed=0)
    model = network(name, 16, k).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, 1.0, total_iters=200)
    losses = []
    for _ in range(steps):
        batch = store.batch(torch.randint(len(store), (32,)))
        assert batch.y is not None
        out = model(None, batch.edge_index, batch=batch.batch, batch_size=batch.num_graphs)
        loss = nn.functional.cross_entropy(out, batch.y.flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warm_up.step()
        losses.append(loss.item())
    curve = torch.tensor(losses).view(-1, 100).mean(1).tolist()
    seconds = round(time.process_time() - begin)
    return {
        "network": name, "k": k, "n": n, "steps": steps, "loss": curve, "processor_s": seconds
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parts = ("walks", "start", "twins", "training")
    parser.add_argument("--part", nargs="+", choices=parts, default=parts)
    parser.add_argument("--steps", type=int, default=2000, help="of a training: hundreds")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cells = [(k, n) for k, sizes in CYCLE_SIZES.items() for n in sizes]
    record: dict[str, Any] = {"torch": torch.__version__}
    if "walks" in options.part:
        record["walks"] = [walks(*cell) for cell in cells]
    if "start" in options.part:
        record["start"] = [start(name, *cell) for cell in cells for name in NETWORKS]
    if "twins" in options.part:
        record["twins"] = [twins(name, *cell) for cell in cells for name in NETWORKS]
    if "training" in options.part:
        record["training"] = [training(name, 6, 20, options.steps) for name in NETWORKS[1:]]
    text = json.dumps(record, indent=1)
    print(text)
    if options.output:
        write_text(options.output, text + "\n")


if __name__ == "__main__":
    main()
