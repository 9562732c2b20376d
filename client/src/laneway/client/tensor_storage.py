"""The storage behind a tensor: the memory itself, which views share."""

from __future__ import annotations

from typing import Any


def storage_of(tensor: Any) -> Any:
    """A tensor's storage; None where it has none of its own: sparse, functional, fake, of another backend, not initialised yet."""
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError, ValueError):
        return None
