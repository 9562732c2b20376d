"""A training that reports until it has done enough, and prints its last report. Its data is slow; half of its
model is frozen."""

from __future__ import annotations

import json
import os
import time

import torch
from laneway.client import report
from torch import nn
from torch.nn.functional import cross_entropy

STEPS = 10**6
WIDTH = 64
DATA_SECONDS = 0.002


def main() -> None:
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = 0
    while not os.path.exists("enough"):
        time.sleep(DATA_SECONDS)
        inputs, targets = torch.randn(32, 8), torch.randint(10, (32,))
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        step += 1
        report(loss=loss, step=step, steps=STEPS, epoch=step / 1000)
    report(loss=float("nan"))
    print(json.dumps({"step": step, "graph": loss.grad_fn is not None}), flush=True)


if __name__ == "__main__":
    main()
