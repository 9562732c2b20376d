"""A training that writes files of many kinds, and prints for each whether the client takes it for a checkpoint.
With the argument `resume` it first loads the one that an earlier run wrote."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed.checkpoint as dcp
from laneway.client.runtime import client
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 10))
OPTIMIZER = torch.optim.Adam(MODEL.parameters(), lr=0.1)
BEFORE = torch.save
KEPT = "kept.pt"
IN_MEMORY = f"/dev/shm/laneway-test-{os.getpid()}.pt"


def state() -> dict[str, Any]:
    return {"step": 3, "parts": [{"model": MODEL.state_dict()}, {"optimizer": OPTIMIZER.state_dict()}]}


def to_file() -> None:
    with open("file.pt", "wb") as file:
        torch.save(state(), file)


def refused() -> None:
    with contextlib.suppress(RuntimeError):
        torch.save(state(), "missing/folder.pt")


WRITTEN_AT: list[float] = []
"""When a save wrote the content that notes it."""


def overlapping() -> None:
    """What is trained during the save is not in it."""
    torch.save({**state(), "noted": Noted()}, "slow.pt")


class Noted:
    """Notes when it is written. What is trained from then on may be missing in the file."""

    def __reduce__(self) -> tuple[Callable[[], object], tuple[()]]:
        WRITTEN_AT.append(time.time())
        return (object, ())


KINDS: dict[str, Callable[[], object]] = {
    "state dict": lambda: torch.save(MODEL.state_dict(), "model.pt"),
    "nested": lambda: torch.save(obj=state(), f=Path(KEPT)),
    "to a file": to_file,
    "whole module": lambda: torch.save(MODEL, "module.pt"),
    "imported before": lambda: BEFORE(state(), "before.pt"),
    "distributed": lambda: dcp.save(MODEL.state_dict(), checkpoint_id="distributed"),
    "slow": overlapping,
    "buffer": lambda: torch.save(state(), io.BytesIO()),
    "metrics": lambda: torch.save({"loss": torch.zeros(100), "names": ["a"] * 1000}, "metrics.pt"),
    "one tensor": lambda: torch.save(torch.zeros(5), "tensor.pt"),
    "refused": refused,
    "in memory": lambda: torch.save(state(), IN_MEMORY),
}


def train(steps: int) -> None:
    for _ in range(steps):
        OPTIMIZER.zero_grad()
        MODEL(torch.randn(4, 8)).sum().backward()
        OPTIMIZER.step()


def main() -> None:
    saved_work = client().guard.progress.saved_work
    if sys.argv[1:] == ["resume"]:
        torch.load("metrics.pt")
        MODEL.load_state_dict(torch.load(KEPT)["parts"][0]["model"])
        train(2)
        assert saved_work.loaded_from == os.stat(KEPT).st_mtime
        print(json.dumps({"loaded": saved_work.loaded_from}), flush=True)
        return
    torch.save(MODEL.state_dict(), "untrained.pt")
    assert saved_work.saved_at is None
    train(3)
    for kind, write in KINDS.items():
        began_at, saved_work.saved_at = time.time(), None
        write()
        saved_at = saved_work.saved_at
        ended_at = WRITTEN_AT.pop() if WRITTEN_AT else time.time()
        late = saved_at is not None and not began_at <= saved_at <= ended_at
        print(json.dumps({"kind": kind, "counted": saved_at is not None, "late": late}), flush=True)
    os.unlink(IN_MEMORY)
    began_at = time.time()
    torch.save(state(), KEPT)
    print(json.dumps({"began": began_at, "ended": time.time()}), flush=True)
    train(1)


if __name__ == "__main__":
    main()
