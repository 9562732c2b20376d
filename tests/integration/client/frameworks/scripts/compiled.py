"""Small trainings in which PyTorch's compiler compiles the model, a function around it, the optimizer's step,
or a whole step.

Prints for each the exact losses, a hash of the parameters, and what the compiler did.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

import torch
from exact import say
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.nn.functional import cross_entropy

Losses = list[float]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Dropout(0.2), nn.Linear(96, 10))


def batch(step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(128, 64, generator=generator), torch.randint(10, (128,), generator=generator)


def model(backend: str, steps: int) -> tuple[nn.Module, Losses]:
    """The ordinary case, with evaluations."""
    net = network()
    compiled = torch.compile(net, backend=backend, fullgraph=True)
    optimizer = torch.optim.AdamW(net.parameters())
    losses = []
    for step in range(steps):
        inputs, targets = batch(step)
        optimizer.zero_grad()
        loss = cross_entropy(compiled(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    net.eval()
    with torch.no_grad():
        for step in range(2):
            inputs, targets = batch(1000 + step)
            losses.append(cross_entropy(compiled(inputs), targets).item())
    return net, losses


def function(backend: str, steps: int) -> tuple[nn.Module, Losses]:
    """No module is called outside compiled code."""
    net = network()

    @torch.compile(backend=backend, fullgraph=True)
    def loss_of(inputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(net(inputs), targets)

    optimizer = torch.optim.AdamW(net.parameters())
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(*batch(step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    net.eval()
    with torch.no_grad():
        losses += [loss_of(*batch(1000 + step)).item() for step in range(2)]
    return net, losses


def optimizer(backend: str, steps: int) -> tuple[nn.Module, Losses]:
    """The optimizer's step is compiled, the model is not."""
    net = network()
    adam = torch.optim.Adam(net.parameters())

    @torch.compile(backend=backend)
    def update() -> None:
        adam.step()

    losses = []
    for step in range(steps):
        inputs, targets = batch(step)
        adam.zero_grad()
        loss = cross_entropy(net(inputs), targets)
        loss.backward()
        update()
        losses.append(loss.item())
    return net, losses


def whole(backend: str, steps: int) -> tuple[nn.Module, Losses]:
    """Forward pass, backward pass and optimizer's step in one function."""
    net = network()
    adam = torch.optim.Adam(net.parameters())

    @torch.compile(backend=backend)
    def train(inputs: Tensor, targets: Tensor) -> Tensor:
        adam.zero_grad()
        loss = cross_entropy(net(inputs), targets)
        loss.backward()
        adam.step()
        return loss

    return net, [train(*batch(step)).item() for step in range(steps)]


KINDS: dict[str, Callable[[str, int], tuple[nn.Module, Losses]]] = {
    "model": model,
    "function": function,
    "optimizer": optimizer,
    "whole": whole,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="+", help="KIND:BACKEND")
    parser.add_argument("--steps", type=int, default=6)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.abspath("inductor")
    for run in arguments.runs:
        kind, backend = run.split(":")
        torch._dynamo.reset()
        counters.clear()
        torch.manual_seed(0)
        net, losses = KINDS[kind](backend, arguments.steps)
        say(
            run,
            losses,
            net.parameters(),
            graphs=counters["stats"]["unique_graphs"],
            cached=counters["inductor"]["fxgraph_cache_hit"] > 0,
        )


if __name__ == "__main__":
    main()
