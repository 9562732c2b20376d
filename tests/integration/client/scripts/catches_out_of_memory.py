"""Halves its batch when it is out of memory, as scripts do."""

from __future__ import annotations

import torch
from torch import nn


def main() -> None:
    torch.set_num_threads(1)
    model = nn.Linear(256, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = 1 << 16
    while True:
        try:
            optimizer.zero_grad()
            model(torch.randn(batch, 256)).square().mean().backward()
            optimizer.step()
        except torch.OutOfMemoryError:
            if batch == 1 << 16:
                print("out of memory", flush=True)
            batch //= 2
        else:
            break
    print("went on with less", flush=True)


if __name__ == "__main__":
    main()
