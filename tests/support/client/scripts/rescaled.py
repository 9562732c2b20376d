"""A training that is killed and goes on with other numbers of ranks, mid-epoch, from its checkpoints.

Ranks are forked, so PyTorch is imported once. Writes for each step of each rank its samples, and the loss of the
whole batch, to `steps.<rank>`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import signal
import sys
from typing import Any

import torch
import torch.distributed as dist
from laneway.client import Checkpoint
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

WIDTH = 12  # divisible by the numbers of ranks, as FSDP on gloo needs it
BATCH = 12


class Samples(Dataset[Any]):
    """Items that say which one they are."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.inputs = torch.randn(count, 16, generator=generator)
        self.labels = torch.randint(WIDTH, (count,), generator=generator)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor, torch.Tensor]:
        return index, self.inputs[index], self.labels[index]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stages", nargs="+", help="RANKS or RANKS:STEP, at which SIGKILL comes")
    parser.add_argument("--kind", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--samples", type=int, default=108)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--local-batch", type=int, help="instead of the same batch of all ranks together")
    parser.add_argument("--same-seed", action="store_true", help="on all ranks")
    return parser.parse_args()


def wrapped(kind: str, ranks: int) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    if kind == "fsdp":
        return FullyShardedDataParallel(model, device_id=torch.device("cpu"))
    return DistributedDataParallel(model) if ranks > 1 else model


def train(arguments: argparse.Namespace, rank: int, ranks: int, die_at: int) -> None:
    model = wrapped(arguments.kind, ranks)
    seed = 1 if arguments.same_seed else 1 + rank
    torch.manual_seed(seed)
    random.seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    data = Samples(arguments.samples)
    sampler: Any = DistributedSampler(data, num_replicas=ranks, rank=rank)
    loader: Any = DataLoader(data, batch_size=arguments.local_batch or BATCH // ranks, sampler=sampler)
    state = Checkpoint("checkpoints", every_steps=3, every_seconds=None, model=model, optimizer=optimizer)
    state.resume()
    with open(f"steps.{rank}", "a", encoding="utf-8") as log:
        for epoch in state.epochs(arguments.epochs):
            for samples, inputs, labels in state.batches(loader):
                if state.step == die_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                loss = cross_entropy(model(inputs), labels)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                mean = loss.detach().clone()
                if ranks > 1:
                    dist.all_reduce(mean)
                entry = {
                    "step": state.step,
                    "epoch": epoch,
                    "ranks": ranks,
                    "samples": samples.tolist(),
                    "loss": mean.item() / ranks,
                    "batches": [state.batch + 1, len(loader)],
                    "drawn": random.random() + torch.rand(1).item(),
                }
                log.write(json.dumps(entry) + "\n")
                log.flush()


def stage(arguments: argparse.Namespace, port: str, ranks: int, die_at: int) -> list[int]:
    """Runs the ranks in children; returns their statuses."""
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child:
            children.append(child)
            continue
        os.environ.update(USE_LIBUV="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        if ranks > 1 or arguments.kind == "fsdp":
            dist.init_process_group("gloo", rank=rank, world_size=ranks)
        train(arguments, rank, ranks, die_at)
        if dist.is_initialized():
            dist.barrier()
            gc.collect()
            dist.destroy_process_group()
        sys.stdout.flush()
        os._exit(0)
    return [os.waitpid(child, 0)[1] for child in children]


def main() -> None:
    arguments = options()
    torch.set_num_threads(1)
    for text, port in zip(arguments.stages, os.environ["PORTS"].split(","), strict=False):
        ranks, _, die_at = text.partition(":")
        statuses = stage(arguments, port, int(ranks), int(die_at or -1))
        print(json.dumps({"ranks": int(ranks), "statuses": statuses}), flush=True)


if __name__ == "__main__":
    main()
