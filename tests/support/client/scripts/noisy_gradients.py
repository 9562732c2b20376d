"""Trains on samples whose gradients are known: sample i has the gradient mean + noise, so the noise scale is
the variance of the noise by the squared norm of the mean. Prints what the client found, by rank.

Ranks are forked, so PyTorch is imported once.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from laneway.client import batch_size
from laneway.client.goodput import meter
from laneway.client.runtime import client
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

WIDTH = 400
LEARNING_RATE = 1e-6
MEAN = 0.1
NOISE_SCALE = 1 / MEAN**2
"""With noise of variance 1 in each component, as every component of the mean is MEAN."""


class Product(nn.Module):
    """The product of its weights with the input; an unused parameter if asked for."""

    def __init__(self, rows: int, unused: bool) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(3)) if unused else None
        self.weights = nn.Parameter(torch.zeros(rows, WIDTH // rows))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs @ self.weights.flatten()


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("ddp", "fsdp", "fsdp2"), default="ddp")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--rows", type=int, default=WIDTH, help="of the parameter; FSDP 2 divides them")
    parser.add_argument("--scaler", action="store_true")
    parser.add_argument("--unused", action="store_true")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--rule", help="scales the learning rate of a batch that grows with the ranks")
    parser.add_argument("--max-local", type=int, help="of that batch")
    parser.add_argument("--steps", type=int, default=600)
    return parser.parse_args()


def train(arguments: argparse.Namespace, rank: int) -> None:
    generator = torch.Generator().manual_seed(rank)
    model: Any = Product(arguments.rows, arguments.unused)
    if arguments.kind == "fsdp":
        model = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
    elif arguments.kind == "fsdp2":
        # PyTorch 2.6 calls these for its streams of a CPU, which lack them. They order nothing there.
        torch.cpu.Stream.record_event = lambda stream, event=None: torch.cpu.Event()
        torch.cpu.Stream.wait_event = lambda stream, event: None
        fully_shard(model, mesh=init_device_mesh("cpu", (arguments.ranks,)), reshard_after_forward=False)
    elif arguments.ranks > 1:
        model = DistributedDataParallel(model, find_unused_parameters=arguments.unused)
    if arguments.compiled:
        model = torch.compile(model, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    local, passes = 8, arguments.passes
    batch = batch_size(8, max_total=1024, max_local=arguments.max_local) if arguments.rule else None
    if batch is not None:
        local, passes = batch.local, batch.accumulate
        batch.scale_learning_rate(optimizer, arguments.rule)
    rates = [0.0]
    optimizer.register_step_pre_hook(lambda *_: rates.append(optimizer.param_groups[0]["lr"]))
    scaler = torch.amp.GradScaler("cpu", enabled=arguments.scaler)
    for _ in range(arguments.steps):
        optimizer.zero_grad()
        for number in range(passes):
            inputs = MEAN + torch.randn(local, WIDTH, generator=generator)
            waits = arguments.kind == "ddp" and arguments.ranks > 1 and number + 1 < passes
            with model.no_sync() if waits else contextlib.nullcontext():
                scaler.scale(model(inputs).mean() / passes).backward()
        scaler.step(optimizer)
        scaler.update()
    assert optimizer.param_groups[0]["lr"] == LEARNING_RATE
    # A forked process takes part once it has stepped an optimizer.
    assert client().guard.iterations == arguments.steps - (arguments.ranks > 1)
    found = {"rank": rank, "gain": rates[-1] / LEARNING_RATE, **client().guard.progress.batch.fields()}
    os.write(1, (json.dumps(found) + "\n").encode())  # in one piece, as the ranks share the pipe


def main() -> None:
    arguments = options()
    torch.set_num_threads(1)
    meter.OVERHEAD_RATIO, meter.MIN_INTERVAL = 0, 4  # otherwise so short steps are sampled rarely
    if arguments.ranks == 1:
        train(arguments, 0)
        return
    children = []
    for rank in range(arguments.ranks):
        child = os.fork()
        if child:
            children.append(child)
            continue
        os.environ.update(USE_LIBUV="0", MASTER_ADDR="127.0.0.1")
        dist.init_process_group("gloo", rank=rank, world_size=arguments.ranks)
        train(arguments, rank)
        dist.barrier()
        gc.collect()
        dist.destroy_process_group()
        sys.stdout.flush()
        os._exit(0)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
