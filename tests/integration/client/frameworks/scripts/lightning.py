"""PyTorch Lightning's Trainer, with workers that load its data: automatic optimization with accumulation and validation, and manual with two optimizers."""

from __future__ import annotations

import argparse
import logging
import warnings
from typing import Any

import pytorch_lightning
import torch
from exact import say
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="pytorch_lightning")


def data(workers: int, seed: int = 0) -> DataLoader[tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(512, 64, generator=generator)
    classes = torch.randint(10, (512,), generator=generator)
    return DataLoader(TensorDataset(images, classes), batch_size=32, num_workers=workers)


class Classifier(pytorch_lightning.LightningModule):
    """`training_step` is called by the optimizer's step, as its closure; it is no module's forward."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers = [part for _ in range(6) for part in (nn.Linear(width, width), nn.Tanh())]
        self.net = nn.Sequential(nn.Linear(64, width), *layers, nn.Dropout(0.1), nn.Linear(width, 10))
        self.losses: list[float] = []

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        loss = cross_entropy(self.net(batch[0]), batch[1])
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], index: int) -> None:
        self.losses.append(cross_entropy(self.net(batch[0]), batch[1]).item())

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters())
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


class Pair(pytorch_lightning.LightningModule):
    """Two models that each have their optimizer, stepped by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.encoder, self.decoder = nn.Linear(64, 16), nn.Linear(16, 64)
        self.losses: list[float] = []

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> None:
        images, _ = batch
        for optimizer, part in zip(self.optimizers(), (self.encoder, self.decoder), strict=True):
            optimizer.zero_grad()
            loss = mse_loss(self.decoder(self.encoder(images)), images) + 0 * part.weight.sum()
            self.manual_backward(loss)
            optimizer.step()
            self.losses.append(loss.item())

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(part.parameters(), lr=0.1) for part in (self.encoder, self.decoder)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="+")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    options: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    for kind in arguments.kinds:
        torch.manual_seed(1)
        if kind == "automatic":
            model: Any = Classifier(arguments.width)
            options.update(
                accumulate_grad_batches=2, gradient_clip_val=1.0, val_check_interval=8, limit_val_batches=2
            )
        else:
            model = Pair()
            options.update(accumulate_grad_batches=1, gradient_clip_val=None, val_check_interval=1.0)
        fitted = torch.compile(model, backend="aot_eager") if arguments.compile else model
        trainer = pytorch_lightning.Trainer(max_steps=arguments.steps, **options)
        validation = [data(0, seed=1)] if kind == "automatic" else []
        trainer.fit(fitted, data(2), *validation)
        say(kind, model.losses, model.parameters(), steps=trainer.global_step)


if __name__ == "__main__":
    main()
