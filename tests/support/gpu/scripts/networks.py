"""The networks that are trained on GPUs here, in plain PyTorch, so that nothing beside it has to be installed.

ResNet-50 is that of He et al. (CVPR 2016, table 1), with the stride on the 3×3 convolution, as everybody has it today; the
transformer is a small GPT. `small` and `deep` are for tests that compare to the bit: all of their operations have deterministic versions on CUDA.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu, scaled_dot_product_attention


class Bottleneck(nn.Module):
    """1×1, 3×3, 1×1, and the way around them."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.narrow = nn.Sequential(nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.look = nn.Sequential(
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.widen = nn.Sequential(nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.around: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = relu(self.widen(self.look(self.narrow(images))) + self.around(images))
        return out


def resnet50(width: int = 64, classes: int = 1000) -> nn.Module:
    """Four stages of 3, 4, 6 and 3 blocks; 25.6 million parameters at the full width."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    inputs = width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width << stage, 2 if stage and not block else 1))
            inputs = 4 * (width << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class Block(nn.Module):
    """Causal attention and an MLP of two layers, each after a layer normalisation and with a residual connection."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(size), nn.LayerNorm(size)
        self.ask = nn.Linear(size, 3 * size)
        self.mix = nn.Linear(size, size)
        self.think = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, words: Tensor) -> Tensor:
        batch, length, size = words.shape
        parts = self.ask(self.before(words)).view(batch, length, 3, self.heads, size // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        words = words + self.mix(seen.transpose(1, 2).reshape(batch, length, size))
        out: Tensor = words + self.think(self.between(words))
        return out


class Transformer(nn.Module):
    """Predicts the next word."""

    def __init__(self, words: int, length: int, size: int, heads: int, layers: int) -> None:
        super().__init__()
        self.word, self.place = nn.Embedding(words, size), nn.Embedding(length, size)
        self.blocks = nn.Sequential(*(Block(size, heads) for _ in range(layers)))
        self.last = nn.LayerNorm(size)
        self.head = nn.Linear(size, words, bias=False)
        self.head.weight = self.word.weight

    def forward(self, words: Tensor) -> Tensor:
        places = torch.arange(words.shape[1], device=words.device)
        out: Tensor = self.head(self.last(self.blocks(self.word(words) + self.place(places)))).flatten(0, 1)
        return out


def small() -> nn.Module:
    """Convolutions and normalisations."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
        layers += [
            nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 4 * 4, 256), nn.ReLU(), nn.Linear(256, 10))


def deep() -> nn.Module:
    """Blocks of one size; each keeps the same amount for the backward pass."""
    blocks = [
        nn.Sequential(nn.Conv2d(inputs, 16, 3, stride, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        for inputs, stride in [(3, 2), *[(16, 1)] * 7]
    ]
    return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(16 * 16 * 16, 10))


@dataclass(frozen=True)
class Task:
    """A training with batches that are made once, because loading data is not measured."""

    network: nn.Module
    batches: tuple[tuple[Tensor, Tensor], ...]

    def loss(self, step: int) -> Tensor:
        """The forward pass of a step."""
        inputs, targets = self.batches[step % len(self.batches)]
        return cross_entropy(self.network(inputs), targets)


BATCHES = 4


def make_task(name: str, size: str, batch: int, device: str, seed: int) -> Task:
    """Build a network and its batches; the same for the same seed on any device.

    Args:
        name: `resnet50`, `transformer`, `small` or `deep`.
        size: `full`, or `tiny` for a CPU.
        batch: examples of a step.
        device: where it is trained.
        seed: of weights and batches.
    """
    torch.manual_seed(seed)
    full = size == "full"
    if name == "transformer":
        words, length = (8192, 256) if full else (256, 32)
        network: nn.Module = (
            Transformer(words, length, 512, 8, 6) if full else Transformer(words, length, 32, 4, 2)
        )
        texts = [torch.randint(words, (batch, length + 1)) for _ in range(BATCHES)]
        pairs = [(text[:, :-1].contiguous(), text[:, 1:].flatten()) for text in texts]
    else:
        edge, classes = (224, 1000) if full and name == "resnet50" else (32, 10)
        small_ones = {"small": small, "deep": deep}
        network = small_ones[name]() if name in small_ones else resnet50(64 if full else 8, classes)
        pairs = [
            (torch.randn(batch, 3, edge, edge), torch.randint(classes, (batch,))) for _ in range(BATCHES)
        ]
    return Task(
        network.to(device), tuple((inputs.to(device), targets.to(device)) for inputs, targets in pairs)
    )
