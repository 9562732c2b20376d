"""DistributedDataParallel over several pods, on gloo: a plain PyTorch script, without any knowledge of
Laneway.

The rendezvous comes from the environment, as with torchrun: MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK.
"""

from __future__ import annotations

import argparse
import json
import os

import torch
import torch.distributed as dist
from digits_model import NoisyBatches, accuracy, build, load
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Trains together with the other workers; each prints the accuracy, which is the same for all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=1024, help="of each worker")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=3)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    os.environ.setdefault("USE_LIBUV", "0")  # Debian's PyTorch is built without libuv
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {world_size} is here", flush=True)

    torch.manual_seed(0)
    images, labels, test_images, test_labels = load()
    batches = NoisyBatches(images, labels, seed=rank)
    model = DistributedDataParallel(build(arguments.width, arguments.blocks))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    for step in range(1, arguments.steps + 1):
        inputs, targets = batches.draw(arguments.batch)
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if rank == 0 and (step % 10 == 0 or step == arguments.steps):
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    reached = accuracy(model.module, test_images, test_labels)
    dist.barrier()
    dist.destroy_process_group()
    print(f"accuracy: {reached:.2f}")
    print(
        json.dumps(
            {"accuracy": round(reached, 4), "steps": arguments.steps, "rank": rank, "workers": world_size}
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
