"""Looks at the process before anything is done for it: what lasts over iterations, and whether something there forbids meddling."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from typing import Any, Final

from laneway.client.tensor_storage import storage_of

COMPILED: Final = "parts of it are compiled (torch.compile), which plans its own memory"
_SHARDED: Final = ("FullyShardedDataParallel", "FSDPModule")


@dataclass(frozen=True)
class Ground:
    """What was found."""

    owned: dict[int, weakref.ref[Any]]
    """Storages of parameters and buffers, by their address."""
    obstacle: str
    """Why this process is left alone; empty: it need not be."""
    may_recompute: bool


def survey(torch: Any) -> Ground:
    """Looks at every object, which takes some tens of milliseconds."""
    owned: dict[int, weakref.ref[Any]] = {}
    obstacle = ""
    may_recompute = True
    for module in [each for each in gc.get_objects() if issubclass(type(each), torch.nn.Module)]:
        names = {kind.__name__ for kind in type(module).__mro__}
        if not names.isdisjoint(_SHARDED):
            obstacle = "its parameters are sharded (FSDP), and come and go by themselves"
        if "DistributedDataParallel" in names:
            may_recompute = False
        for table in ("_parameters", "_buffers"):
            for tensor in getattr(module, table, {}).values():
                _take_note(tensor, owned)
    return Ground(owned, obstacle, may_recompute)


def _take_note(tensor: Any, owned: dict[int, weakref.ref[Any]]) -> None:
    if tensor is None:
        return
    storage = storage_of(tensor)
    if storage is not None:
        owned[storage._cdata] = weakref.ref(storage)
