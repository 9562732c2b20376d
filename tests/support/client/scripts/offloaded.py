"""Trainings whose memory is worth moving. Prints each step, and at the end the exact losses and a hash of all
state."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


class Tied(nn.Module):
    """The last layer shares the first one's weights, as in language models; and a view of them is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(512, 256)
        self.mix = nn.Linear(256, 256)
        self.head = nn.Linear(256, 512, bias=False)
        self.head.weight = self.embed.weight
        self.first_rows = self.embed.weight.detach()[:16]

    def forward(self, words: Tensor) -> Tensor:
        out: Tensor = self.head(torch.tanh(self.mix(self.embed(words)))) + self.first_rows.sum()
        return out


def words(step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    drawn = torch.randint(512, (2, 64), generator=generator)
    return drawn[0], drawn[1]


def images(step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(64, 256, generator=generator), torch.randint(10, (64,), generator=generator)


def normalised() -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(3):
        layers += [nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(256, 10))


def sgd(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def adam(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, amsgrad=True)


Batch = Callable[[int], tuple[Tensor, Tensor]]
KINDS: dict[str, tuple[Callable[[], nn.Module], Batch, Callable[..., torch.optim.Optimizer]]] = {
    "tied-sgd": (Tied, words, sgd),
    "tied-adam": (Tied, words, adam),
    "batchnorm-sgd": (normalised, images, sgd),
    "batchnorm-adam": (normalised, images, adam),
}


def state_hash(model: nn.Module, optimizer: torch.optim.Optimizer) -> str:
    digest = hashlib.sha256()
    tensors = [*model.state_dict().values()]
    tensors += [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for state in optimizer.state.values():
        tensors += [value for value in state.values() if torch.is_tensor(value)]
    for tensor in tensors:
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument(
        "--steps", type=int, help="how many; else until the file `enough` is in the working folder"
    )
    parser.add_argument("--pace", type=float, default=0.0, help="seconds that loading a batch takes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    build, batch, optimize = KINDS[arguments.kind]
    model = build()
    optimizer = optimize(list(model.parameters()))
    addresses = [id(tensor) for tensor in model.state_dict(keep_vars=True).values()]
    losses = []
    for step in itertools.count():
        if step == arguments.steps or (arguments.steps is None and os.path.exists("enough")):
            break
        time.sleep(arguments.pace)
        inputs, targets = batch(step)
        optimizer.zero_grad(set_to_none=False)
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
        print(f"step {step}", flush=True)
    assert addresses == [id(tensor) for tensor in model.state_dict(keep_vars=True).values()]
    print(json.dumps({"losses": losses, "state": state_hash(model, optimizer)}), flush=True)


if __name__ == "__main__":
    main()
