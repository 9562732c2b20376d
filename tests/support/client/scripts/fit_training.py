"""Trains a small network; prints exact losses and gradient norms, a hash of all gradients, and what the
client did."""

from __future__ import annotations

import argparse
import ctypes
import gc
import hashlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy
import torch
from fit_models import MODELS, batch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

CHANCE = "chance"


class Chance(nn.Module):
    """Draws from each random number generator that a script may use: PyTorch's, Python's and NumPy's."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.2)
        self.after = nn.Linear(width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.dropout(torch.tanh(self.before(inputs)))
        hidden = torch.sigmoid(hidden * random.uniform(0.5, 2.0))
        shift = torch.from_numpy(numpy.random.standard_normal(hidden.shape[1]))
        hidden = torch.tanh(hidden + shift.to(hidden.dtype))
        result: Tensor = inputs + self.after(hidden)
        return result


def build(name: str) -> nn.Module:
    if name == CHANCE:
        return nn.Sequential(*(Chance(64) for _ in range(5)), nn.Linear(64, 10))
    return MODELS[name][0]()


def slow_copies(bytes_per_second: float) -> None:
    """Simulates a slow bus: copies to a simulated GPU's host and back are delayed, and the client measures
    that."""
    move = ctypes.memmove

    def slowly(to: Any, source: Any, size: int) -> None:
        move(to, source, size)
        time.sleep(size / bytes_per_second)

    ctypes.memmove = slowly


def count_forwards(model: nn.Module) -> Counter[int]:
    """Counts the forwards of each module, as a side effect of them that nobody can take back."""
    counts: Counter[int] = Counter()

    def counted(forward: Callable[..., Any]) -> Callable[..., Any]:
        def count(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            counts[id(module)] += 1
            return forward(module, *args, **kwargs)

        return count

    for kind in {_class_with_forward(module) for module in model.modules()}:
        kind.forward = counted(kind.forward)
    return counts


def _class_with_forward(module: nn.Module) -> Any:
    return next(kind for kind in type(module).__mro__ if "forward" in vars(kind))


def what_was_done() -> dict[str, int]:
    """Returns the client's own counts; empty where there is no client, or where it has nothing to do."""
    module = sys.modules.get("laneway.client.fit.memory_fit")
    fits = [each for each in gc.get_objects() if type(each) is module.MemoryFit] if module is not None else []
    return {
        "modules_chosen": sum(len(fit.recomputed) for fit in fits),
        "computed_again": sum(fit.recompute_runs for fit in fits),
        "fetched_ahead": sum(fit.prefetched for fit in fits),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=[*sorted(MODELS), CHANCE])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--sizes", default="", help="sizes of the batches, in turn")
    parser.add_argument("--copy-bytes-per-second", type=float, default=0.0, help="0: as fast as memory is")
    arguments = parser.parse_args()
    if arguments.copy_bytes_per_second:
        slow_copies(arguments.copy_bytes_per_second)
    sizes = [int(size) for size in arguments.sizes.split(",") if size] or [None]
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    random.seed(1)
    numpy.random.seed(1)
    model = build(arguments.model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    digest = hashlib.sha256()
    forwards = count_forwards(model)
    most_forwards = 0
    for step in range(arguments.steps):
        data = "mlp" if arguments.model == CHANCE else arguments.model
        inputs, classes = batch(data, step, sizes[step % len(sizes)])
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), classes)
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        for gradient in gradients:
            digest.update(gradient.numpy().tobytes())
        norms = [gradient.norm().item() for gradient in gradients]
        optimizer.step()
        most_forwards = max(most_forwards, *forwards.values())
        forwards.clear()
        print(json.dumps({"loss": loss.item(), "norms": norms}), flush=True)
    for kept in model.state_dict().values():
        digest.update(kept.numpy().tobytes())
    buffers = [buffer.double().norm().item() for buffer in model.buffers()]
    print(json.dumps({"digest": digest.hexdigest(), "buffers": buffers}), flush=True)
    print(json.dumps({**what_was_done(), "most_forwards": most_forwards}), flush=True)


if __name__ == "__main__":
    main()
