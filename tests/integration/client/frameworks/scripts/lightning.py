"""PyTorch Lightning's Trainer with data workers: automatic optimization with accumulation and validation, and
manual optimization."""

from __future__ import annotations

import argparse
import logging
import warnings
from typing import Any

import pytorch_lightning
import torch
from exact import has_session, say
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import DataLoader, Dataset, get_worker_info

logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="pytorch_lightning")


class Images(Dataset[tuple[Tensor, int]]):
    """Created on access, which happens in a worker."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        assert get_worker_info() is None or not has_session()
        return torch.randn(64, generator=torch.Generator().manual_seed(index)), index % 10


class Classifier(pytorch_lightning.LightningModule):
    """The optimizer's step calls `training_step` as its closure; it is no module's forward."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        hidden = [part for _ in range(layers) for part in (nn.Linear(64, 64), nn.Tanh())]
        self.net = nn.Sequential(*hidden, nn.Dropout(0.1), nn.Linear(64, 10))
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
    """Two models, each with its optimizer, stepped by hand."""

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
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
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
            model: Any = Classifier(arguments.layers)
            options.update(
                accumulate_grad_batches=2, gradient_clip_val=1.0, val_check_interval=8, limit_val_batches=2
            )
        else:
            model = Pair()
            options.update(accumulate_grad_batches=1, gradient_clip_val=None, val_check_interval=1.0)
        trainer = pytorch_lightning.Trainer(max_steps=arguments.steps, **options)
        batch = arguments.batch
        loaders = [DataLoader(Images(16 * batch), batch, num_workers=2)]
        if kind == "automatic":
            loaders.append(DataLoader(Images(2 * batch), batch))
        trainer.fit(model, *loaders)
        say(kind, model.losses, model.parameters(), steps=trainer.global_step)


if __name__ == "__main__":
    main()
