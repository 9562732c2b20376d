"""Saves its parameters in its SIGTERM handler, as many scripts do."""

from __future__ import annotations

import json
import signal
import sys
import time
from types import FrameType

import torch
from torch import nn


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 128), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters())
    last: list[float] = []

    def save(number: int, frame: FrameType | None) -> None:
        numbers = [float(parameter.double().sum()) for parameter in model.parameters()]
        finite = all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())
        print(json.dumps({"finite": finite, "numbers": numbers, "expected": last}), flush=True)
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    for step in range(100_000):
        time.sleep(0.02)
        optimizer.zero_grad()
        model(torch.randn(32, 128)).square().mean().backward()
        optimizer.step()
        last[:] = [float(parameter.double().sum()) for parameter in model.parameters()]
        print(f"step {step}", flush=True)


if __name__ == "__main__":
    main()
