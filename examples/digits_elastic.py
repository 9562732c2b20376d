"""A job whose number of workers may change while it trains: DistributedDataParallel with any number of
workers, one included.

When that number changes, all workers stop after the same step, save, and exit with status 143. The next
ones resume in the middle of the epoch. The batch of all workers together stays the same, and each sample of
an epoch is trained once, so the loss curve does not depend on the number of workers.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
from digits_model import accuracy, build, load
from laneway.client import Checkpoint, batch_size
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    """Trains up to the last epoch, over as many runs as it takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=100, help="the target, over all runs")
    parser.add_argument("--batch", type=int, default=300, help="of all workers together")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--checkpoint-dir", type=Path, required=True, help="the same for all workers")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    os.environ.setdefault("USE_LIBUV", "0")  # Debian's PyTorch is built without libuv
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(0)
    images, labels, test_images, test_labels = load()
    data = TensorDataset(images, labels)
    batch = batch_size(arguments.batch)
    loader = DataLoader(data, batch_size=batch.local, sampler=DistributedSampler(data))
    model = DistributedDataParallel(build(arguments.width, arguments.blocks))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    state = Checkpoint(
        arguments.checkpoint_dir,
        model=model,
        optimizer=optimizer,
        on_save=lambda step: tell("checkpoint", rank, step=step),
    )
    state.resume()
    tell("start", rank, step=state.step, target=arguments.epochs * len(loader), workers=world_size)
    for _ in state.epochs(arguments.epochs):
        for inputs, targets in state.batches(loader):
            optimizer.zero_grad()
            loss = cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            if rank == 0 and (state.step + 1) % 25 == 0:
                print(f"step {state.step + 1} loss {loss.item():.4f}", flush=True)

    reached = accuracy(model.module, test_images, test_labels)
    dist.barrier()
    dist.destroy_process_group()
    tell("end", rank, step=state.step, accuracy=round(reached, 4))


def tell(event: str, rank: int, **fields: float) -> None:
    """Prints a line of JSON, for programs that read the log."""
    print(json.dumps({"event": event, "rank": rank, **fields}), flush=True)


if __name__ == "__main__":
    main()
