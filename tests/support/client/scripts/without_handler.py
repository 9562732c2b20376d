"""Trains until it is stopped. Has no SIGTERM handler, but a `finally` that prints how far it came."""

from __future__ import annotations

import json

import torch
from torch import nn


def main() -> None:
    torch.set_num_threads(1)
    model = nn.Linear(64, 64)
    optimizer = torch.optim.Adam(model.parameters())
    inside, steps = False, 0
    try:
        while True:
            inputs = torch.randn(4096, 64)
            output = model(inputs)
            inside = True
            optimizer.zero_grad()
            output.square().mean().backward()
            optimizer.step()
            inside = False
            steps += 1
            if steps == 5:
                print("running", flush=True)
    finally:
        print(json.dumps({"inside": inside, "steps": steps}), flush=True)


if __name__ == "__main__":
    main()
