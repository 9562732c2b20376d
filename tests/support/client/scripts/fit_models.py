"""Four small networks with large activations, and a batch for each, for tests and benchmarks of memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class Dense(nn.Module):
    """A layer of the MLP, with the activations that it keeps."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1), nn.Linear(width, width), nn.Tanh()
        )

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + self.layers(inputs)


class Residual(nn.Module):
    """A block of the ResNet, with the usual in-place operations."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = (
            nn.Conv2d(channels_in, channels, 1, stride, bias=False)
            if stride != 1 or channels_in != channels
            else nn.Identity()
        )

    def forward(self, inputs: Tensor) -> Tensor:
        out = self.relu(self.first_norm(self.first(inputs)))
        out = self.second_norm(self.second(out))
        out += self.shortcut(inputs)
        result: Tensor = self.relu(out)
        return result


class Convolution(nn.Sequential):
    """A block of the CNN."""

    def __init__(self, channels_in: int, channels: int, last: nn.Module) -> None:
        super().__init__(
            nn.Conv2d(channels_in, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            last,
        )


class Transformer(nn.Module):
    """Reads tokens, returns a class."""

    def __init__(self, width: int = 32, layers: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(256, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.embed(inputs)
        for block in self.blocks:
            hidden = block(hidden)
        logits: Tensor = self.head(hidden.mean(dim=1))
        return logits


def mlp() -> nn.Module:
    return nn.Sequential(*(Dense(64) for _ in range(5)), nn.Linear(64, 10))


def cnn() -> nn.Module:
    return nn.Sequential(
        Convolution(3, 8, nn.ReLU()),
        Convolution(8, 8, nn.ReLU()),
        Convolution(8, 8, nn.MaxPool2d(2)),
        Convolution(8, 16, nn.ReLU()),
        Convolution(16, 16, nn.MaxPool2d(2)),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(16 * 64, 10),
    )


def resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        Residual(8, 8, 1),
        Residual(8, 8, 1),
        Residual(8, 16, 2),
        Residual(16, 16, 1),
        Residual(16, 32, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def _vectors(size: int, generator: torch.Generator) -> Tensor:
    return torch.randn(size, 64, generator=generator)


def _images(size: int, generator: torch.Generator) -> Tensor:
    return torch.randn(size, 3, 32, 32, generator=generator)


def _tokens(size: int, generator: torch.Generator) -> Tensor:
    return torch.randint(256, (size, 64), generator=generator)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int, torch.Generator], Tensor], int]] = {
    "mlp": (mlp, _vectors, 1024),
    "cnn": (cnn, _images, 16),
    "resnet": (resnet, _images, 16),
    "transformer": (Transformer, _tokens, 12),
}
"""By name: how to build it, its inputs, and a batch size."""


def blocks(model: nn.Module) -> list[nn.Module]:
    """Returns the blocks that one would wrap in `torch.utils.checkpoint` by hand."""
    kinds = (Dense, Residual, Convolution, nn.TransformerEncoderLayer)
    return [module for module in model.modules() if isinstance(module, kinds)]


def batch(name: str, step: int, size: int | None = None) -> tuple[Tensor, Tensor]:
    """Returns the batch of a step: inputs and classes."""
    _, inputs, usual = MODELS[name]
    size = usual if size is None else size
    generator = torch.Generator().manual_seed(step)
    return inputs(size, generator), torch.randint(10, (size,), generator=generator)
