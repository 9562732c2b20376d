"""A rank of DistributedDataParallel with gradients in its buckets. Prints each step, and at the end the exact
losses and a hash."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def everyone_has_enough() -> bool:
    """Returns whether the first rank's working folder has the file `enough`; all ranks get the same answer at
    the same step."""
    enough = torch.tensor([dist.get_rank() == 0 and os.path.exists("enough")], dtype=torch.uint8)
    dist.broadcast(enough, src=0)
    return bool(enough.item())


def main() -> None:
    steps, pace_seconds = int(sys.argv[1]) if sys.argv[1] != "enough" else None, float(sys.argv[2])
    os.environ.setdefault("USE_LIBUV", "0")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(128, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 4))
    model = DistributedDataParallel(layers, gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(model.parameters())
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for step in itertools.count():
        if step == steps or (steps is None and everyone_has_enough()):
            break
        time.sleep(pace_seconds)
        optimizer.zero_grad(set_to_none=False)
        loss = model(torch.randn(64, 128, generator=generator)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
        print(f"step {step}", flush=True)
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    print(json.dumps({"losses": losses, "state": digest.hexdigest()}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
