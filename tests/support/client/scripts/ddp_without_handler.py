"""DistributedDataParallel until it is stopped. Has no SIGTERM handler, but a `finally` that prints how far it
came."""

from __future__ import annotations

import json
import os
import signal

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    os.environ.setdefault("USE_LIBUV", "0")  # Debian's PyTorch is built without libuv
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(64, 64))
    optimizer = torch.optim.Adam(model.parameters())
    inside, steps = False, 0
    try:
        while True:
            output = model(torch.randn(256, 64))
            inside = True
            optimizer.zero_grad()
            output.square().mean().backward()
            optimizer.step()
            inside = False
            steps += 1
            if steps == 20 and dist.get_rank() == int(os.environ["STOPPED_RANK"]):
                os.kill(os.getpid(), signal.SIGTERM)
    finally:
        print(json.dumps({"inside": inside, "steps": steps}), flush=True)


if __name__ == "__main__":
    main()
