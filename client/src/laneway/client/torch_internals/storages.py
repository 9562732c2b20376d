"""The storages behind tensors: the memory itself, which views share."""

from __future__ import annotations

import gc
from itertools import compress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def storage_of(tensor: Any) -> Any:
    """Returns a tensor's storage, or None if it has none: sparse, functional, fake, foreign or uninitialised
    tensors."""
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError, ValueError):
        return None


def cpu_storages(torch: Any) -> Iterator[Any]:
    """Yields the storages of all CPU tensors known to Python, possibly more than once, by inspecting every
    object.

    That takes some tens of milliseconds, and misses only what C++ alone holds. Subclasses of Tensor are
    skipped, because they may have no memory (fake tensors).
    """
    own_types = {torch.Tensor, torch.nn.Parameter}
    objects = gc.get_objects()
    tensors = list(compress(objects, map(own_types.__contains__, map(type, objects))))
    del objects  # a reference to everything
    for tensor in tensors:
        if tensor.is_cpu:
            storage = storage_of(tensor)
            if storage is not None:
                yield storage
