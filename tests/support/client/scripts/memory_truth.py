"""Allocates memory in every way that PyTorch offers. Prints after each what the client reports, and what two
other sources show.

These are a walk over all Python objects, and the C library's figures of what is allocated.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import io
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from laneway.client.runtime import client
from laneway.client.session.shared_page import HELD_BYTES
from torch import Tensor, nn

NUMBERS = 4 << 20
"""In a tensor of 16 MiB."""
WATCHED_STEPS = 16


class MallocInformation(ctypes.Structure):
    """mallinfo2(3)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    ]


_libc = ctypes.CDLL(None)
_libc.mallinfo2.restype = MallocInformation


def allocated_bytes() -> int:
    """Returns what the C library has given to this process and not got back."""
    found = _libc.mallinfo2()
    return int(found.uordblks + found.hblkhd)


def found_bytes() -> int:
    """Returns the storages of all tensors known to Python."""
    storages = {}
    for candidate in gc.get_objects():
        if issubclass(type(candidate), Tensor):
            storage = candidate.untyped_storage()
            if storage.device.type == "cpu":  # the compiler keeps tensors without memory
                storages[storage._cdata] = storage.nbytes()
    return sum(storages.values())


class Training:
    """Small steps of a model, so that there are boundaries at which the client measures."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def step(self, within: Callable[[], object] | None = None) -> None:
        """Runs one iteration."""
        self.optimizer.zero_grad()
        loss = self.model(torch.ones(8, 512)).square().mean()
        if within is not None:
            within()
        loss.backward()
        self.optimizer.step()


class Ways:
    """The kept objects, by the way in which they were allocated; each way keeps or frees at least 16 MiB."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def view_of_what_is_gone(self) -> None:
        self.kept["view"] = torch.ones(NUMBERS)[::1024]

    def grown_in_place(self) -> None:
        tensor = torch.ones(8)
        tensor.resize_(NUMBERS).fill_(1)
        self.kept["resized"] = tensor

    def grown_for_a_result(self) -> None:
        result = torch.empty(0)
        torch.add(torch.ones(NUMBERS), 1, out=result)
        self.kept["result"] = result

    def grown_storage(self) -> None:
        tensor = torch.ones(8)
        tensor.untyped_storage().resize_(4 * NUMBERS)
        self.kept["storage"] = tensor

    def set_to_another_storage(self) -> None:
        tensor = torch.ones(8)
        tensor.set_(torch.ones(NUMBERS).untyped_storage())
        self.kept["set"] = tensor

    def kept_for_a_backward_pass(self) -> None:
        self.kept["graph"] = torch.ones(NUMBERS // 2, requires_grad=True).exp().sin().sum()

    def from_numpy(self) -> None:
        self.kept["numpy"] = torch.from_numpy(np.ones(NUMBERS, np.float32))
        self.kept["numpy"].add_(1)

    def loaded(self) -> None:
        file = io.BytesIO()
        torch.save(self.kept["numpy"], file)
        file.seek(0)
        self.kept["loaded"] = torch.load(file)

    def made_in_another_thread(self) -> None:
        def make() -> None:
            self.kept["thread"] = torch.ones(NUMBERS)

        _in_thread(make)
        # Uses what was saved: the cycle collector has made the client believe that it was gone.
        self.kept["thread"].add_(self.kept["numpy"])

    def freed_in_another_thread(self) -> None:
        _in_thread(lambda: [self.kept.pop(name) for name in ("view", "resized", "thread")])

    def shared(self) -> None:
        self.kept["shared"] = torch.ones(NUMBERS).share_memory_()

    def of_an_optimizer(self) -> None:
        """Its step is a boundary as well."""
        model = nn.Linear(2048, 2048, bias=False)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(1, 2048)).sum().backward()
        optimizer.step()
        self.kept["optimizer"] = optimizer

    def freed_all(self) -> None:
        self.kept.clear()


def _in_thread(call: Callable[[], object]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def ways(training: Training) -> Iterator[dict[str, Any]]:
    """Runs each way in an iteration of its own, all of which are traced."""
    tried = Ways()
    for name in [name for name in vars(Ways) if not name.startswith("_")]:
        before = _figures()
        training.step(getattr(tried, name))
        yield {"what": name, "before": before, "after": _figures()}


def unwatched(training: Training) -> Iterator[dict[str, Any]]:
    """A list that grows in untraced iterations and shrinks again."""
    for _ in range(2 * WATCHED_STEPS):
        training.step()
    kept: list[Tensor] = []
    before = _figures()
    for _ in range(64):
        training.step(lambda: kept.append(torch.ones(NUMBERS // 8)))
    yield {"what": "grows while nobody looks", "before": before, "after": _figures()}
    before = _figures()
    del kept[:32]
    for _ in range(2):
        training.step()
    yield {"what": "shrinks while nobody looks", "before": before, "after": _figures()}


def compiled(training: Training) -> Iterator[dict[str, Any]]:
    """A model that PyTorch's compiler traces, without a C++ compiler behind it."""
    from torch._dynamo.utils import counters

    training.model = torch.compile(training.model, backend="eager")
    kept = torch.ones(NUMBERS)
    for _ in range(8):
        training.step()
    yield {"compiled_frames": counters["frames"]["ok"], "after": _figures(), "kept": kept.nbytes}


def _figures() -> dict[str, int]:
    gc.collect()
    return {
        "client": client().guard.session.words[HELD_BYTES],
        "objects": found_bytes(),
        "malloc": allocated_bytes(),
    }


PARTS = {"ways": ways, "unwatched": unwatched, "compiled": compiled}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=PARTS)
    part = PARTS[parser.parse_args().part]
    torch.set_num_threads(1)
    training = Training()
    training.step()
    for line in part(training):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
