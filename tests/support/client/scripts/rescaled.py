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
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
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
    parser.add_argument(
        "stages",
        nargs="+",
        help="RANKS, or RANKS:STEP, at which SIGKILL comes, or RANKS:STEP:RANK, "
        "which SIGKILL ends while it saves that step",
    )
    parser.add_argument("--kind", choices=("ddp", "fsdp", "fsdp2", "tensor"), default="ddp")
    parser.add_argument(
        "--optimizer",
        choices=("adam", "sgd"),
        default="adam",
        help="sgd: with momentum, two groups, a schedule and a frozen parameter",
    )
    parser.add_argument("--samples", type=int, default=108)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--local-batch", type=int, help="instead of the same batch of all ranks together")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--same-seed", action="store_true", help="on all ranks")
    return parser.parse_args()


def wrapped(kind: str, ranks: int, frozen: bool) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    model[0].bias.requires_grad_(not frozen)
    if kind == "fsdp":
        return FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=frozen)
    if kind == "fsdp2":
        # PyTorch 2.6 calls these for its streams of a CPU, which lack them. They order nothing there.
        torch.cpu.Stream.record_event = lambda stream, event=None: torch.cpu.Event()
        torch.cpu.Stream.wait_event = lambda stream, event: None
        mesh = init_device_mesh("cpu", (ranks,))
        for part in (model[0], model[2], model):
            fully_shard(part, mesh=mesh, reshard_after_forward=False)  # True fails on a CPU with PyTorch 2.6
        return model
    if kind == "tensor":
        plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        return parallelize_module(model, init_device_mesh("cpu", (ranks,)), plan)
    return DistributedDataParallel(model) if ranks > 1 else model


def trainer(kind: str, model: nn.Module) -> tuple[torch.optim.Optimizer, dict[str, Any]]:
    """Returns an optimizer, and what a script saves with it."""
    if kind == "adam":
        return torch.optim.Adam(model.parameters(), lr=1e-2), {}
    named = dict(model.named_parameters())
    groups = [
        {"params": [each for name, each in named.items() if name.endswith(end)], "lr": rate}
        for end, rate in (("weight", 0.1), ("bias", 0.05))
    ]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
    return optimizer, {"scheduler": scheduler}


def die_in_save(state: Checkpoint, step: int) -> None:
    """Ends this rank when the first file of a step's checkpoint is about to be complete."""
    flush = os.fsync

    def flush_or_die(descriptor: int) -> None:
        if state.step == step:
            os.kill(os.getpid(), signal.SIGKILL)
        flush(descriptor)

    os.fsync = flush_or_die


def train(arguments: argparse.Namespace, rank: int, ranks: int, die_at: int, saving_rank: int) -> None:
    model = wrapped(arguments.kind, ranks, frozen=arguments.optimizer == "sgd")
    seed = 1 if arguments.same_seed else 1 + rank
    torch.manual_seed(seed)
    random.seed(seed)
    optimizer, parts = trainer(arguments.optimizer, model)
    data = Samples(arguments.samples)
    parts_of_data = 1 if arguments.kind == "tensor" else ranks
    sampler: Any = DistributedSampler(data, num_replicas=parts_of_data, rank=rank % parts_of_data)
    local_batch = arguments.local_batch or BATCH // parts_of_data
    loader: Any = DataLoader(data, batch_size=local_batch, sampler=sampler)

    def saved(_: int) -> None:
        assert all(each.grad is None for each in model.parameters()), "gradients are not saved"

    state = Checkpoint(
        "checkpoints",
        every_steps=3,
        every_seconds=None,
        on_save=saved,
        model=model,
        optimizer=optimizer,
        **parts,
    )
    state.resume()
    if rank == saving_rank:
        die_in_save(state, die_at)
    with open(f"steps.{rank}", "a", encoding="utf-8") as log:
        for epoch in state.epochs(arguments.epochs):
            for samples, inputs, labels in state.batches(loader, accumulate=arguments.accumulate):
                if state.step == die_at and saving_rank < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                loss = cross_entropy(model(inputs), labels)
                # PyTorch 2.6 has gloo add up FSDP 2's gradients where it asks for the mean.
                (loss / ranks if arguments.kind == "fsdp2" else loss).backward()
                if state.ends_step:
                    optimizer.step()
                    optimizer.zero_grad()
                if "scheduler" in parts:
                    parts["scheduler"].step()
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


def stage(
    arguments: argparse.Namespace, port: str, ranks: int, die_at: int = -1, saving_rank: int = -1
) -> list[int]:
    """Runs the ranks in children; returns their statuses. Where one dies alone, the others are killed, too."""
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child:
            children.append(child)
            continue
        os.environ.update(USE_LIBUV="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        if ranks > 1 or arguments.kind != "ddp":
            dist.init_process_group("gloo", rank=rank, world_size=ranks)
        train(arguments, rank, ranks, die_at, saving_rank)
        if dist.is_initialized():
            dist.barrier()
            gc.collect()
            dist.destroy_process_group()
        sys.stdout.flush()
        os._exit(0)
    if saving_rank >= 0:
        os.waitid(os.P_PID, children[saving_rank], os.WEXITED | os.WNOWAIT)
        for child in children:
            os.kill(child, signal.SIGKILL)
    return [os.waitpid(child, 0)[1] for child in children]


def main() -> None:
    arguments = options()
    torch.set_num_threads(1)
    for text, port in zip(arguments.stages, os.environ["PORTS"].split(","), strict=False):
        numbers = [int(word) for word in text.split(":")]
        statuses = stage(arguments, port, *numbers)
        print(json.dumps({"ranks": numbers[0], "statuses": statuses}), flush=True)


if __name__ == "__main__":
    main()
