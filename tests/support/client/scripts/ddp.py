"""Ten steps of DistributedDataParallel; prints a hash of the parameters, which is the same on all ranks."""

from __future__ import annotations

import hashlib
import json
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    os.environ.setdefault("USE_LIBUV", "0")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)))
    optimizer = torch.optim.Adam(model.parameters())
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(64, 32, generator=generator)).square().mean().backward()
        optimizer.step()
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    result = json.dumps({"rank": dist.get_rank(), "parameters": digest.hexdigest()})
    os.write(1, f"{result}\n".encode())  # one write: ranks of one container share the pipe
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
