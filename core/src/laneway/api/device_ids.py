"""Ids that the kubelet hands out, and what they say.

An id is ``<gpu uuid>::<slot>`` and stands for one hundredth of that GPU, so the ids that the kubelet picked decide the
physical GPU. The kubelet limits an id to 63 characters.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

_SEPARATOR = "::"


def device_id(gpu: str, slot: int) -> str:
    """Return the id of the slot-th hundredth of a GPU."""
    return f"{gpu}{_SEPARATOR}{slot}"


def gpu_of(identifier: str) -> str:
    """Return the uuid of the GPU that an id belongs to.

    Raises:
        ValueError: the text is not one of our ids.
    """
    gpu, separator, slot = identifier.rpartition(_SEPARATOR)
    if not (gpu and separator and slot.isdigit()):
        raise ValueError(
            f"{identifier!r} is not a Laneway device id; expected '<gpu uuid>{_SEPARATOR}<slot>'"
        )
    return gpu


def shares_of(identifiers: Iterable[str]) -> dict[str, int]:
    """Return how many percent of each GPU a set of ids stands for, by GPU uuid."""
    return dict(Counter(gpu_of(identifier) for identifier in identifiers))


def container_key(identifiers: Iterable[str]) -> str:
    """Return the name of the folder of the container that holds these ids (16 hex digits).

    Ids are exclusive while a container lives, so no two living containers have the same key.
    """
    return hashlib.sha256("\n".join(sorted(identifiers)).encode()).hexdigest()[:16]
