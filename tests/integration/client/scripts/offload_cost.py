"""A training whose memory is moved to the host and back by order: checks at each boundary that all of it is as it was, and tells what the move took.

    offload_cost.py MEBIBYTES

So large are parameters, gradients and Adam's two moments together. Ends when the file `enough` is in the working folder.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from typing import Any

import torch
from laneway.client import iteration
from laneway.client.runtime import client
from torch import Tensor, nn

MEBIBYTE = 1 << 20
LAYERS = 16


class TimedMover:
    """The client's own mover, with a clock."""

    def __init__(self, mover: Any) -> None:
        self._mover = mover
        self.found: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mover, name)

    def move_out(self) -> int:
        self.found = {"resident_before_bytes": resident_bytes()}
        began = time.perf_counter()
        freed = int(self._mover.move_out())
        self.found["offload_seconds"] = time.perf_counter() - began
        self.found.update(freed_bytes=freed, held_away_bytes=self._mover.held_bytes())
        self.found["resident_away_bytes"] = resident_bytes()
        return freed

    def move_back(self) -> None:
        began = time.perf_counter()
        self._mover.move_back()
        self.found["restore_seconds"] = time.perf_counter() - began
        self.found.update(held_bytes=self._mover.held_bytes(), resident_after_bytes=resident_bytes())


def resident_bytes() -> int:
    """This process's, of the machine's memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def checksum(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Of every bit that lasts over iterations."""
    tensors: list[Tensor] = [*model.state_dict().values()]
    tensors += [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for state in optimizer.state.values():
        tensors += [value for value in state.values() if torch.is_tensor(value)]
    found = 0
    for tensor in tensors:
        # Of a copy: PyTorch never resizes a storage again that NumPy has seen, so it could not be emptied.
        found = zlib.crc32(tensor.clone().numpy(), found)
    return found


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    numbers = int(sys.argv[1]) * MEBIBYTE // 4 // 4 // LAYERS
    width = int(numbers**0.5)
    model = nn.Sequential(*[nn.Linear(width, numbers // width, bias=False) for _ in range(LAYERS)])
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    inputs = torch.randn(2, width)
    mover: TimedMover | None = None
    while not os.path.exists("enough"):
        before = checksum(model, optimizer)
        with iteration():
            if mover is None:
                mover = TimedMover(client().gate.offload.mover)
                client().gate.offload.mover = mover
            same = checksum(model, optimizer) == before
            if mover.found:
                print(json.dumps({**mover.found, "same": same}), flush=True)
                mover.found = {}
            optimizer.zero_grad()
            loss = torch.stack([layer(inputs).square().mean() for layer in model]).sum()
            loss.backward()
            optimizer.step()
        print("trained", flush=True)


if __name__ == "__main__":
    main()
