"""A training that runs a given number of steps and prints how long each took; run where PyTorch is.

    timed_steps.py NETWORK BATCH plain|laneway|hooks

BATCH 0: finds the batch for which a step takes 20 ms, and prints it. The numbers of steps come line by line
from the pipe `go` in the working folder, with `without` for those without the client's hooks. Each is
answered with a line of JSON. `hooks`: the client measures as on a GPU, with a fake allocator whose statistics
take as long as PyTorch's.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

STEP_SECONDS = 0.02
WARM_STEPS = 40
STATISTICS_SECONDS = 50e-6


class Blocks(nn.Module):
    """A small transformer: many small operations, so that the cost at each of them shows."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(16, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=4, enable_nested_tensor=False)
        self.head = nn.Linear(64, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.head(self.encoder(self.embed(inputs.view(-1, 16, 16))).mean(dim=1))
        return out


def convolutions() -> nn.Module:
    layers: list[nn.Module] = [nn.Unflatten(1, (1, 16, 16))]
    for into, out in ((1, 16), (16, 16), (16, 32)):
        layers += [nn.Conv2d(into, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


NETWORKS = {"transformer": Blocks, "cnn": convolutions}


class Allocator:
    """What the client uses of `torch.cuda`."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: 0

    def is_initialized(self) -> bool:
        return True

    def mem_get_info(self, device: int) -> tuple[int, int]:
        return 1 << 34, 1 << 34

    def memory_allocated(self, device: object = None) -> int:
        return self._spin(1 << 30)

    def max_memory_allocated(self, device: object = None) -> int:
        return self._spin(1 << 31)

    def _spin(self, answer: int) -> int:
        until = time.perf_counter() + STATISTICS_SECONDS
        while time.perf_counter() < until:
            pass
        return answer


def measure_as_on_a_gpu() -> None:
    """Called before the first module is made."""
    from laneway.client.memory.cuda_meter import CudaMeter
    from laneway.client.pytorch import hooks as torch_hooks

    device = SimpleNamespace(cuda=Allocator(), _C=SimpleNamespace())
    setattr(torch_hooks, "CpuMeter", lambda _: CudaMeter(device))  # noqa: B010 - it is the module's own import


class Hooks:
    """Switches the client's hooks off and on: without them a step meets nothing of the client, in the same
    process and memory."""

    def __init__(self) -> None:
        modules, optimizer = torch.nn.modules.module, importlib.import_module("torch.optim.optimizer")
        self._registries: list[dict[int, Any]] = [
            modules._global_forward_pre_hooks,
            modules._global_forward_hooks,
            modules._global_parameter_registration_hooks,
            optimizer._global_optimizer_pre_hooks,
            optimizer._global_optimizer_post_hooks,
        ]

    @contextmanager
    def taken_out(self) -> Iterator[None]:
        """Called between two iterations."""
        from laneway.client.runtime import client

        assert client().guard.iteration_session is None, "the iteration before goes on"
        kept = [dict(registry) for registry in self._registries]
        for registry in self._registries:
            registry.clear()
        yield
        for registry, hooks in zip(self._registries, kept, strict=True):
            registry.update(hooks)


class Training:
    """A training of one network with one batch."""

    def __init__(self, network: str, batch: int) -> None:
        torch.manual_seed(0)
        self.model = NETWORKS[network]()
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.resize(batch)

    def resize(self, batch: int) -> None:
        """Trains with another batch from now on."""
        self.inputs = torch.randn(batch, 256)
        self.targets = torch.randint(10, (batch,))

    def step(self) -> tuple[int, int, bool]:
        """Returns wall time and CPU time of all threads in nanoseconds, and whether the client traced every
        operation."""
        began_ns, processor_ns = time.perf_counter_ns(), time.process_time_ns()
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(self.inputs), self.targets)
        watched = torch._C._len_torch_dispatch_stack() > 0
        loss.backward()
        self.optimizer.step()
        return time.perf_counter_ns() - began_ns, time.process_time_ns() - processor_ns, watched

    def median_seconds(self) -> float:
        """Returns the median CPU time of a few steps."""
        return statistics.median(self.step()[1] for _ in range(9)) / 1e9

    def fit_batch(self) -> int:
        """Finds the batch for which a step takes 20 ms."""
        batch = 8
        while True:
            self.resize(batch)
            self.median_seconds()
            seconds = self.median_seconds()
            if seconds > STEP_SECONDS / 2 or batch > 4096:
                return max(1, round(batch * STEP_SECONDS / seconds))
            batch *= 2


def main() -> None:
    network, batch, way = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    if way == "hooks":
        measure_as_on_a_gpu()
    training = Training(network, batch or 1)
    if not batch:
        print(json.dumps({"batch": training.fit_batch()}), flush=True)
        return
    for _ in range(WARM_STEPS):
        training.step()
    with_client = "laneway.client.runtime" in sys.modules
    assert with_client == (way != "plain"), "the client is where it should not be, or is not where it should"
    if with_client:
        from laneway.client.runtime import client

        assert client().guard.session.has_agent, "no session with the agent"
    os.sched_setaffinity(
        0, {max(os.sched_getaffinity(0))}
    )  # all processes that are compared on the same core
    print(json.dumps({"ready": True}), flush=True)
    hooks = Hooks()
    with open("go", encoding="ascii") as orders:
        for line in orders:
            number, *without = line.split()
            with hooks.taken_out() if without else nullcontext():
                steps = [training.step() for _ in range(int(number))]
            print(json.dumps(steps), flush=True)


if __name__ == "__main__":
    main()
