"""A training with everything that a checkpoint holds, in one or several processes; writes a line with the
exact loss of each step to `steps.<rank>`."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
from typing import Any

import numpy
import torch
import torch.distributed as dist
from laneway.client import checkpoint
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Noisy(Dataset[Any]):
    """Items with random augmentation: Python's, NumPy's and PyTorch's numbers are drawn in the process that
    loads."""

    def __init__(self, still: bool) -> None:
        generator = torch.Generator().manual_seed(0)
        self.inputs = torch.randn(96, 16, generator=generator)
        self.labels = torch.randint(4, (96,), generator=generator)
        self.still = still
        self.loaded = 0

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.loaded += 1
        noise = torch.randn(16) * random.random() * float(numpy.random.rand())
        return self.inputs[index] + (0.0 if self.still else noise), self.labels[index]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--every-steps", type=int)
    parser.add_argument("--every-seconds", type=float)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--persistent", action="store_true", help="the same worker processes in all epochs")
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--own-generator", action="store_true")
    parser.add_argument("--die-at", type=int, default=-1, help="the step in which SIGKILL comes")
    parser.add_argument(
        "--stop-at", type=int, default=-1, help="the step in which SIGTERM comes, to rank --stop-rank"
    )
    parser.add_argument("--stop-rank", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    arguments = options()
    torch.set_num_threads(1)
    rank = int(os.environ.get("RANK", "0"))
    distributed = "WORLD_SIZE" in os.environ
    if distributed:
        os.environ.setdefault("USE_LIBUV", "0")  # Debian's PyTorch is built without libuv
        dist.init_process_group("gloo")
    torch.manual_seed(rank)
    random.seed(rank)
    numpy.random.seed(rank)
    data = Noisy(still=arguments.workers > 0 and not arguments.replay)
    model: nn.Module = nn.Sequential(
        nn.Linear(16, arguments.width), nn.Dropout(0.2), nn.Linear(arguments.width, 4)
    )
    if distributed:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2])
    scaler = torch.amp.GradScaler("cpu")
    loader: DataLoader[Any] = DataLoader(
        data,
        batch_size=8,
        sampler=DistributedSampler(data) if distributed else None,
        shuffle=None if distributed else True,
        num_workers=arguments.workers,
        persistent_workers=arguments.persistent,
        generator=torch.Generator().manual_seed(5) if arguments.own_generator else None,
    )

    state = checkpoint.Checkpoint(
        "checkpoints",
        every_steps=arguments.every_steps,
        every_seconds=arguments.every_seconds,
        model=model,
        optimizer=optimizer,
        scheduler=scheduler,
        scaler=scaler,
    )
    state.resume()
    log = open(f"steps.{rank}", "a", encoding="utf-8")  # noqa: SIM115 - a process that is killed closes nothing
    print(json.dumps({"event": "start", "step": state.step}), flush=True)
    for epoch in state.epochs(arguments.epochs):
        crop = random.random()
        for inputs, labels in state.batches(loader, accumulate=arguments.accumulate, replay=arguments.replay):
            if state.step == arguments.die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if state.step == arguments.stop_at and rank == arguments.stop_rank:
                os.kill(os.getpid(), signal.SIGTERM)
            loss = cross_entropy(model(inputs + crop), labels)
            scaler.scale(loss).backward()
            if (state.batch + 1) % arguments.accumulate == 0 or state.batch + 1 == len(loader):
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            state.values["mean"] = 0.9 * state.values.get("mean", 0.0) + 0.1 * loss.item()
            entry = {
                "step": state.step,
                "epoch": epoch,
                "loss": loss.item().hex(),
                "mean": state.values["mean"].hex(),
            }
            log.write(json.dumps(entry) + "\n")
            log.flush()
        scheduler.step()
        noise = torch.randn(1).item() if rank == 0 else 0.0  # what an evaluation draws
        log.write(json.dumps({"epoch": epoch, "noise": noise.hex()}) + "\n")
        log.flush()
    print(json.dumps({"event": "end", "step": state.step, "loaded": data.loaded, "rank": rank}), flush=True)
    if distributed:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
