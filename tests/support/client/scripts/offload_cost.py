"""A training whose memory is moved to the host and back: verifies all of it at each boundary, and prints the
cost of the move.

    offload_cost.py MEBIBYTES

MEBIBYTES is the total of parameters, gradients and Adam's two moments. Ends when the file `enough` is in the
working folder.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from laneway.client import iteration
from laneway.client.runtime import client
from torch import Tensor, nn

MEBIBYTE = 1 << 20
LAYERS = 16


class TimedMover:
    """The client's own mover with a wall clock and a CPU clock, and for comparison the copy alone of the same
    bytes."""

    def __init__(self, mover: Any, tensors: Callable[[], list[Tensor]]) -> None:
        self._mover = mover
        self._tensors = tensors
        self.found: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mover, name)

    def move_out(self) -> int:
        self.found = {"resident_before_bytes": resident_bytes()}
        self._copy_alone()
        with self._timed("offload"):
            freed = int(self._mover.move_out())
        self.found.update(freed_bytes=freed, held_away_bytes=self._mover.held_bytes())
        self.found["resident_away_bytes"] = resident_bytes()
        return freed

    def move_back(self) -> None:
        with self._timed("restore"):
            self._mover.move_back()
        self.found.update(held_bytes=self._mover.held_bytes(), resident_after_bytes=resident_bytes())

    def _copy_alone(self) -> None:
        """Copies into fresh memory that is then freed, and once more into existing memory: the minimum for
        any mover."""
        bytes_of_each = [tensor.detach().view(-1).view(torch.uint8) for tensor in self._tensors()]
        pieces = [tensor.numel() for tensor in bytes_of_each]
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        with self._timed("copy_to_new_memory"):
            memory = mmap.mmap(-1, sum(pieces), flags=flags)
            into = torch.frombuffer(memory, dtype=torch.uint8).split(pieces)
            for target, source in zip(into, bytes_of_each, strict=True):
                target.copy_(source)
        with self._timed("copy"):
            for target, source in zip(into, bytes_of_each, strict=True):
                target.copy_(source)
        del into, target
        memory.close()

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began, processor_began = time.perf_counter(), time.thread_time()
        yield
        self.found[f"{what}_seconds"] = time.perf_counter() - began
        self.found[f"{what}_processor_seconds"] = time.thread_time() - processor_began


def resident_bytes() -> int:
    """Returns this process's resident memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def lasting(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Returns all tensors that last over iterations."""
    tensors: list[Tensor] = [*model.state_dict().values()]
    tensors += [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for state in optimizer.state.values():
        tensors += [value for value in state.values() if torch.is_tensor(value)]
    return tensors


def checksum(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Returns a checksum of every bit of them."""
    found = 0
    for tensor in lasting(model, optimizer):
        # Uses a copy: PyTorch never resizes a storage that NumPy has seen, so it could not be emptied.
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
                mover = TimedMover(client().guard.offload.mover, lambda: lasting(model, optimizer))
                client().guard.offload.mover = mover
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
