"""Your own training step as a CUDA graph: a model with its own head and loss, in two loops.

    python examples/captured_step.py

On a GPU, `CapturedStep` runs the first batches as they are, captures the step, and replays it for
all others. On a CPU it only calls the step. The same object serves a loop of your own and
PyTorch Lightning.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch_geometric.datasets import FakeDataset
from torch_geometric.loader import DataLoader

from smpgnn import SMP, CapturedStep


class Model(nn.Module):
    """SMP between an encoder and a head that predicts a mean and a variance."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(7, 16)
        self.smp = SMP(16, 32, hidden_channels=16, num_layers=3, identifiers="local", norm="batch")
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(32, 2))

    def forward(self, batch: Any) -> tuple[Tensor, Tensor]:
        x = self.encoder(batch.x)
        out = self.head(self.smp(x, batch.edge_index, batch=batch.batch))
        return out[:, 0], nn.functional.softplus(out[:, 1]) + 1e-3


def make_step(model: Model) -> CapturedStep:
    """Loss, gradients and clipping of a batch; the optimiser's step comes after it."""

    def step(batch: Any) -> Any:
        mean, variance = model(batch)
        # not F.gaussian_nll_loss: it asks the GPU whether a variance is negative
        loss = ((batch.y.float() - mean) ** 2 / variance + variance.log()).mean() / 2
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return loss

    return CapturedStep(step, model)


def own_loop(loader: DataLoader, device: str, epochs: int = 2) -> list[float]:
    """The mean loss of each epoch in a loop of your own."""
    model = Model().to(device)
    step, optimizer = make_step(model), torch.optim.AdamW(model.parameters(), lr=1e-2)
    means = []
    for _ in range(epochs):
        losses = []
        for batch in loader:
            optimizer.zero_grad()
            losses.append(step(batch))
            optimizer.step()
        means.append(float(torch.stack(losses).mean()))
    return means


class Module(pl.LightningModule):
    """The same under Lightning, with manual optimisation."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model = Model()

    def on_fit_start(self) -> None:
        self.step = make_step(self.model)

    def training_step(self, batch: Any, batch_idx: int) -> None:
        optimizer: Any = self.optimizers()
        optimizer.zero_grad()
        self.last_loss = self.step(batch)
        optimizer.step()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main() -> None:
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    graphs = FakeDataset(64, avg_num_nodes=12, avg_degree=3, num_channels=7, num_classes=5)
    loader = DataLoader(graphs, batch_size=16, shuffle=True, drop_last=True)
    for epoch, loss in enumerate(own_loop(loader, device)):
        print(f"own loop, epoch {epoch}: loss {loss:.3f}")
    module = Module()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = pl.Trainer(
            max_epochs=2,
            accelerator="gpu" if device == "cuda" else "cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(module, loader)
    print(f"Lightning, last batch: loss {float(module.last_loss):.3f}")


if __name__ == "__main__":
    main()
