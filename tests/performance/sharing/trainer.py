"""What the jobs of the sharing benchmark run: a PyTorch script that waits for its input, then computes on its GPU.

It is mounted with the simulated device beside it. Parameters are environment variables; jobs of one kind have the same ones, so they
are of one template. The loader reads each batch from a slow store, a wait that needs no CPU; forward and backward compute on a small
model, and on the device for the time that the kind's real model would. Jobs on one GPU compute on one device, which slices its time
between them. Prints a JSON object a line. On SIGTERM it saves a checkpoint and ends with status 143.
"""

import json
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

told_to_stop: list[int] = []
# Installed before the slow imports: the kernel drops a SIGTERM to a container's first process if it has no handler for it.
signal.signal(signal.SIGTERM, lambda number, frame: told_to_stop.append(number))


def say(event: str, **fields: object) -> None:
    """Print an event and when it was."""
    print(json.dumps({"event": event, "seconds": time.time(), **fields}), flush=True)


say("began")

import torch  # noqa: E402  # it takes seconds, which are no training
from simulated_device import SimulatedDevice  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

STEPS = int(os.environ["STEPS"])
INPUT_SECONDS = float(os.environ["INPUT_SECONDS"])
DEVICE_SECONDS = float(os.environ["DEVICE_SECONDS"])
PERSISTENT_BYTES = int(os.environ["PERSISTENT_MIB"]) << 20
EPHEMERAL_BYTES = int(os.environ["EPHEMERAL_MIB"]) << 20
SHARED = Path(os.environ["SHARED"])
CHECKPOINT = SHARED / f"{socket.gethostname()}.pt"
FEATURES, CLASSES, BATCH, WIDTH = 64, 10, 64, 32
FORWARD = 1 / 3
"""The part of an iteration's device time in the forward pass; the backward pass computes twice as much."""

INPUT_SPREAD, DEVICE_SPREAD = 0.2, 0.05
SAY_SECONDS = 5.0


class Stream(IterableDataset):  # type: ignore[misc]  # torch is not there when types are checked
    """Batches of noisy points around ten centres from a store that takes a while for each."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(0))

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for step in range(self._first, STEPS):
            generator = torch.Generator().manual_seed(step)
            labels = torch.randint(CLASSES, (BATCH,), generator=generator)
            time.sleep(varied(INPUT_SECONDS, INPUT_SPREAD))
            yield self._centres[labels] + torch.randn(BATCH, FEATURES, generator=generator), labels


class OnDevice(torch.autograd.Function):  # type: ignore[misc]
    """Computes on the simulated device, and keeps activations from the forward to the backward pass."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor) -> torch.Tensor:
        """Pass values on after the forward part of an iteration's device time."""
        device().run(varied(DEVICE_SECONDS * FORWARD, DEVICE_SPREAD))
        context.activations = torch.empty(EPHEMERAL_BYTES, dtype=torch.uint8)
        return values.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Pass gradients on after the rest of it."""
        device().run(varied(DEVICE_SECONDS * (1 - FORWARD), DEVICE_SPREAD))
        del context.activations
        return gradient


class Model(torch.nn.Module):  # type: ignore[misc]
    """A small network on a device that takes as long as a large one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(FEATURES, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, CLASSES)
        )
        self.register_buffer("weights", torch.empty(PERSISTENT_BYTES, dtype=torch.uint8), persistent=False)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Map points to classes."""
        scores: torch.Tensor = OnDevice.apply(self.layers(points))
        return scores


@cache
def gpu() -> str:
    """Return the uuid of the GPU. A script on a real one computes there without asking; here only the client knows it."""
    from laneway.client.runtime import client

    return str(client().guard.session.settings.gpu)


@cache
def device() -> SimulatedDevice:
    """Return the device of the GPU, which all jobs on it open."""
    return SimulatedDevice(SHARED / f"device-{gpu()}")


def varied(seconds: float, spread: float) -> float:
    """Return a time that varies from one iteration to the next, as reads and kernels do."""
    return seconds * random.uniform(1 - spread, 1 + spread)


def main() -> int:
    """Train; return the exit status."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = 0
    if CHECKPOINT.exists():
        saved = torch.load(CHECKPOINT, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    first, said_seconds, cpu_seconds = step, time.monotonic(), time.process_time()
    say("start", step=step)

    for points, labels in DataLoader(Stream(step), batch_size=None):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(points), labels)
        loss.backward()
        optimizer.step()
        step += 1
        if step == first + 1:
            say("first", step=step, gpu=gpu())
        if told_to_stop and step < STEPS:
            save(model, optimizer, step)
            say("stop", step=step, cpu_seconds=time.process_time() - cpu_seconds)
            return 128 + signal.SIGTERM
        if time.monotonic() - said_seconds >= SAY_SECONDS:
            said_seconds = time.monotonic()
            say("progress", step=step)
    say("end", step=step, cpu_seconds=time.process_time() - cpu_seconds)
    return 0


def save(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Write the checkpoint whole or not at all."""
    partial = CHECKPOINT.with_suffix(".new")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, partial)
    partial.replace(CHECKPOINT)


sys.exit(main())
