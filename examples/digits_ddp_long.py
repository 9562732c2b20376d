"""DistributedDataParallel over several pods that may be stopped at any time and resume from Laneway's
checkpoints.

It is ``digits_ddp.py`` with a ``Checkpoint``: the ranks agree on the step after which they stop, save, and
exit with status 143.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
from digits_model import NoisyBatches, accuracy, build, load
from laneway.client import Checkpoint
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Trains up to the target, over as many runs as it takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600, help="the target, over all runs")
    parser.add_argument("--batch", type=int, default=1024, help="of each worker")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--checkpoint-dir", type=Path, required=True, help="the same for all workers")
    parser.add_argument("--checkpoint-every", type=int, default=100)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    os.environ.setdefault("USE_LIBUV", "0")  # Debian's PyTorch is built without libuv
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(0)
    images, labels, test_images, test_labels = load()
    batches = NoisyBatches(images, labels, seed=rank)
    model = DistributedDataParallel(build(arguments.width, arguments.blocks))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    state = Checkpoint(
        arguments.checkpoint_dir,
        model=model,
        optimizer=optimizer,
        per_rank={"batches": batches},  # each rank draws its own
        every_steps=arguments.checkpoint_every,
    )
    state.resume()
    tell("start", rank, step=state.step, workers=world_size)
    for step in state.steps(arguments.steps):
        inputs, targets = batches.draw(arguments.batch)
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if rank == 0 and (step + 1) % 50 == 0:
            print(f"step {step + 1} loss {loss.item():.4f}", flush=True)

    reached = accuracy(model.module, test_images, test_labels)
    dist.barrier()
    dist.destroy_process_group()
    tell("end", rank, step=state.step, accuracy=round(reached, 4))


def tell(event: str, rank: int, **fields: float) -> None:
    """Prints a line of JSON, for programs that read the log."""
    print(json.dumps({"event": event, "rank": rank, **fields}), flush=True)


if __name__ == "__main__":
    main()
