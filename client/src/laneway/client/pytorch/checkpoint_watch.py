"""Notices the checkpoints that a script writes and loads with the usual functions.

A write counts as a checkpoint if it
- is done by `torch.save`, `torch.distributed.checkpoint`, safetensors' `save_file` or Lightning, and returned
  without an error;
- holds at least as many numbers, in its tensors, as the largest optimizer trains. So metrics, caches and
  random states are none. A distributed checkpoint is not counted, because each rank holds a part of it;
- went to a file that outlives the container. A buffer in memory is no file.

Nothing is done per iteration. A failure here is not seen by the script.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.reporting.mounts import outlives_container
from laneway.client.runtime import client
from laneway.client.torch_import import AfterImport

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("laneway.client")

DISTRIBUTED: Final = "torch.distributed.checkpoint.state_dict_"
SAVES: Final = {
    "torch.serialization": ("save", "obj", "f"),
    f"{DISTRIBUTED}saver": ("_save_state_dict", "state_dict", "storage_writer"),
    "safetensors.torch": ("save_file", "tensors", "filename"),
    "lightning_fabric.utilities.cloud_io": ("_atomic_save", "checkpoint", "filepath"),
    "lightning.fabric.utilities.cloud_io": ("_atomic_save", "checkpoint", "filepath"),
}
"""By module: a function, and the names of its first two parameters, which are the content and the file.
Lightning writes through a buffer, so its own function is watched."""
LOADS: Final = {
    "torch.serialization": ("load", 0, "f"),
    f"{DISTRIBUTED}loader": ("_load_state_dict", 1, "storage_reader"),
    "safetensors.torch": ("load_file", 0, "filename"),
}
"""By module: a function, and the position and name of the parameter that is the file."""
EXPORTS: Final = {"torch.serialization": "torch"}
"""Modules that have another module's function under the same name."""
MOST_OBJECTS: Final = 100_000
"""Objects of one content that are looked at: some 10 ms."""


class CheckpointWatch:
    """Replaces the functions by such that note what they did."""

    def __init__(self, torch: Any, trained_elements: Callable[[], int]) -> None:
        """Watches the modules that are imported, and others once they are.

        Args:
            torch: the module `torch`.
            trained_elements: returns how many numbers the largest optimizer trains; 0 before its first step.
        """
        self._torch = torch
        self._trained_elements = trained_elements
        for name in dict.fromkeys([*SAVES, *LOADS]):
            if name in sys.modules:
                self._watch(sys.modules[name])
            else:
                sys.meta_path.insert(0, AfterImport(name, self._watch))

    def _watch(self, module: Any) -> None:
        name = module.__name__
        if name in SAVES:
            function, content, target = SAVES[name]
            self._replace(module, function, functools.partial(self._saving, content, target))
        if name in LOADS:
            function, position, source = LOADS[name]
            self._replace(module, function, functools.partial(self._loading, position, source))

    def _replace(self, module: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        function = getattr(module, name, None)
        if function is None:
            return  # another version
        wrapped = wrap(function)
        for holder in (module, sys.modules.get(EXPORTS.get(module.__name__, ""))):
            if getattr(holder, name, None) is function:
                setattr(holder, name, wrapped)

    def _saving(self, content: str, target: str, function: Any) -> Any:
        @functools.wraps(function)
        def save(*args: Any, **kwargs: Any) -> Any:
            began_at = time.time()
            result = function(*args, **kwargs)
            _guarded(
                self._note_save,
                _argument(args, kwargs, 0, content),
                _argument(args, kwargs, 1, target),
                began_at,
            )
            return result

        return save

    def _loading(self, position: int, source: str, function: Any) -> Any:
        @functools.wraps(function)
        def load(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            _guarded(self._note_load, result, _argument(args, kwargs, position, source))
            return result

        return load

    def _note_save(self, content: Any, target: Any, began_at: float) -> None:
        needed = self._trained_elements()
        path = path_of(target)
        if not needed or path is None or not outlives_container(path):
            return
        if not _is_sharded(target) and count_elements(self._torch, content, needed) < needed:
            return
        guard = client().guard
        guard.progress.note_save(began_at)

    def _note_load(self, content: Any, source: Any) -> None:
        saved_work = client().guard.progress.saved_work
        if not saved_work.expects_loads:
            return  # a worker process of a data loader may load a file per sample
        path = path_of(source)
        if path is None or not outlives_container(path):
            return
        elements = math.inf if _is_sharded(source) else count_elements(self._torch, content)
        if elements:
            saved_work.note_load(elements, os.stat(path).st_mtime)


def path_of(target: Any) -> Optional[str]:
    """Returns the path of what a function writes or reads: a path, a file, or a distributed storage; None for
    a buffer."""
    if not isinstance(target, (str, bytes, os.PathLike)):
        target = getattr(target, "path" if _is_sharded(target) else "name", None)
    return os.fsdecode(target) if isinstance(target, (str, bytes, os.PathLike)) else None


def count_elements(torch: Any, content: Any, enough: float = math.inf) -> int:
    """Returns how many numbers the tensors of a content hold; it stops at `enough`."""
    total, looked_at, left = 0, 0, [content]
    while left and total < enough and looked_at < MOST_OBJECTS:
        item = left.pop()
        looked_at += 1
        if isinstance(item, torch.Tensor):
            total += item.numel()
        elif isinstance(item, torch.nn.Module):
            left.extend(item.parameters())
        elif isinstance(item, Mapping):
            left.extend(item.values())
        elif isinstance(item, (list, tuple)) and len(item) < MOST_OBJECTS:
            left.extend(item)
    return total


def _is_sharded(target: Any) -> bool:
    return hasattr(target, "prepare_global_plan")


def _argument(args: tuple[Any, ...], kwargs: Mapping[str, Any], position: int, name: str) -> Any:
    return args[position] if len(args) > position else kwargs.get(name)


def _guarded(act: Callable[..., None], *arguments: Any) -> None:
    try:
        act(*arguments)
    except Exception as fault:  # of a foreign type, for example
        log.debug("a checkpoint could not be noticed: %r", fault)
