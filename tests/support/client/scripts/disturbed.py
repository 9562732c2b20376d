"""Trains until it is told to stop, then with a broken client; prints whether the losses are those of an
undisturbed training."""

from __future__ import annotations

import itertools
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import torch
from small_models import batch, mlp
from torch.nn.functional import cross_entropy


class Training:
    """The same numbers each time."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.model = mlp()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.losses: list[str] = []

    def step(self) -> None:
        inputs, targets = batch(len(self.losses))
        self.optimizer.zero_grad()
        loss = cross_entropy(self.model(inputs), targets)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item().hex())


class MadError(Exception):
    """An internal error of the client."""


def go_mad(*_: Any, **__: Any) -> None:
    raise MadError("at the end of an iteration")


def main() -> None:
    torch.set_num_threads(1)
    training = Training()
    for step in itertools.count(1):
        training.step()
        # It repeats later what it does now, so it should not do much while another job starts.
        time.sleep(0.002)
        if step % 50 == 0:
            print(step, flush=True)
            if Path("enough").exists():
                break
    client: Any = sys.modules["laneway.client.runtime"]
    logging.getLogger("laneway.client").addHandler(logging.StreamHandler(sys.stdout))
    client.client().guard.end = go_mad
    for _ in range(5):
        training.step()
    peaceful = Training()
    for _ in training.losses:
        peaceful.step()
    print(json.dumps({"same": peaceful.losses == training.losses, "steps": len(peaceful.losses)}))


if __name__ == "__main__":
    main()
