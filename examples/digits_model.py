"""The data and the model of the examples: scikit-learn's digits (1,797 images of 8 × 8 pixels), and a small
residual MLP."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn


def load() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns training images and labels, test images and labels; an image is 64 floats from 0 to 1."""
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target, dtype=torch.int64)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[:1500], order[1500:]
    return images[train], labels[train], images[test], labels[test]


class Block(nn.Module):
    """A residual block. What it keeps for the backward pass is its ephemeral memory: several times its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Maps [batch, width] to the same shape."""
        return inputs + self.dropout(torch.tanh(self.linear(self.norm(inputs))))


def build(width: int, blocks: int) -> nn.Module:
    """Returns the model: 64 pixels in, 10 classes out."""
    return nn.Sequential(nn.Linear(64, width), *(Block(width) for _ in range(blocks)), nn.Linear(width, 10))


class NoisyBatches:
    """Batches of any size from few images: drawn at random, with noise on each pixel. The same seed gives the
    same batches."""

    def __init__(self, images: Tensor, labels: Tensor, seed: int) -> None:
        self._images = images
        self._labels = labels
        self._generator = torch.Generator().manual_seed(seed)

    def draw(self, size: int) -> tuple[Tensor, Tensor]:
        """Draws a batch: images [size, 64], labels [size]."""
        chosen = torch.randint(len(self._labels), (size,), generator=self._generator)
        noise = torch.randn(size, 64, generator=self._generator)
        return self._images[chosen] + 0.1 * noise, self._labels[chosen]

    def get_state(self) -> Tensor:
        """Returns the state of the random numbers."""
        return self._generator.get_state()

    def set_state(self, state: Tensor) -> None:
        """Restores the state of the random numbers."""
        self._generator.set_state(state)


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Returns the part of the images that the model classifies correctly."""
    model.eval()
    right = (model(images).argmax(dim=1) == labels).float().mean().item()
    model.train()
    return float(right)
