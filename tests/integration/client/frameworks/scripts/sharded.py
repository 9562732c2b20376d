"""A rank of torchrun: FSDP on gloo. Each rank prints a hash of the whole parameters."""

from __future__ import annotations

import argparse
import atexit
import functools
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import without_libuv
from exact import say
from torch import nn
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, StateDictType
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

__all__ = ["without_libuv"]
WIDTH = 64


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(32, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4)
    )


def sharded() -> tuple[nn.Module, Callable[[], list[Any]]]:
    """Returns the model, and a function that collects its parameters from all ranks."""
    policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1000)
    model = FullyShardedDataParallel(network(), auto_wrap_policy=policy, device_id=torch.device("cpu"))

    def whole() -> list[Any]:
        settings = FullStateDictConfig(offload_to_cpu=False, rank0_only=False)
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, settings):
            return list(model.state_dict().values())

    return model, whole


def train(rank: int, steps: int) -> None:
    """Trains and prints the result."""
    model, whole = sharded()
    optimizer = torch.optim.Adam(model.parameters())
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(64, 32, generator=generator)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    say("fsdp", losses, whole(), rank=rank)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(dist.get_rank(), arguments.steps)
    # Gloo's threads free tensors, for which they need Python's lock. While Python shuts down, that aborts the process (SIGABRT); while
    # `destroy_process_group` waits for them with the lock, neither goes on (PyTorch 2.6). So the process ends without either.
    atexit._run_exitfuncs()
    os._exit(0)


if __name__ == "__main__":
    main()
