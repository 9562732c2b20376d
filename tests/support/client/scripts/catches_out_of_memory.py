"""Halves its batch when it is out of memory, as scripts do.

With a number: only after it has trained that many iterations, with small inputs throughout.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn


def main() -> None:
    torch.set_num_threads(1)
    iterations_before = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    model: nn.Module = nn.Embedding(16, 4096) if iterations_before else nn.Linear(256, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def inputs(batch: int) -> Tensor:
        return torch.arange(batch) % 16 if iterations_before else torch.randn(batch, 256)

    def step(batch: int) -> None:
        optimizer.zero_grad()
        model(inputs(batch)).square().mean().backward()
        optimizer.step()

    for _ in range(iterations_before):
        step(16)
    largest = batch = 1 << 16
    while True:
        try:
            step(batch)
        except torch.OutOfMemoryError:
            if batch == largest:
                print("out of memory", flush=True)
            batch //= 2
        else:
            break
    print("went on with less", flush=True)


if __name__ == "__main__":
    main()
