"""Small networks and their training data; the same numbers in every process."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), num_layers=2, enable_nested_tensor=False
        )
        self.head = nn.Linear(32, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.head(self.encoder(self.embed(inputs.view(-1, 8, 8))).mean(dim=1))
        return out


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(96, 10))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def batch(step: int, size: int = 128) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(size, 64, generator=generator), torch.randint(10, (size,), generator=generator)
