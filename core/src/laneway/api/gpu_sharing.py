"""The switch ``sharing`` of ``node.yaml`` and ``operator.yaml``: whether jobs join others on GPUs, and what that means for a GPU's shares.

``off``: a GPU offers 100 percent, and each share belongs to one job. ``lanes``: jobs take turns on a GPU whose shares exceed 100 percent
in total, and paused and offloaded jobs keep their shares beside them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

SharingSwitch = Literal["off", "lanes"]

MOST_JOBS = 4
"""The number of whole-GPU jobs that take turns on one GPU. Muri (SIGCOMM'22, section 4) puts up to four together, one for each kind of
resource that an iteration uses: storage, CPU, GPU and network. A fifth would wait for a resource that another one uses."""

ACTIVE_PERCENT = MappingProxyType({"off": 100, "lanes": 100 * MOST_JOBS})
"""By switch: the percent of a GPU whose holders take turns at the same time."""

OFFERED_PERCENT = MappingProxyType({"off": 100, "lanes": 2 * ACTIVE_PERCENT["lanes"]})
"""By switch: the percent of a GPU that a node offers. A paused or offloaded job keeps its pods, so it keeps its shares; half of them are for
such jobs, so that all holders of a GPU can be preempted without an eviction."""


def _unquoted(value: Any) -> Any:
    """Read what YAML makes of an unquoted ``off``."""
    return "off" if value is False else value


Sharing = Annotated[SharingSwitch, BeforeValidator(_unquoted)]
"""A field with the switch."""


def refuse_replaced(values: Any, instead: dict[str, str]) -> Any:
    """Refuse names that the switch replaced, with what to write instead.

    Args:
        values: what was read of a configuration file, or of a group of it.
        instead: by old name: what to write instead.

    Raises:
        ValueError: an old name is there.
    """
    for name in instead.keys() & values.keys() if isinstance(values, dict) else ():
        raise ValueError(f"{name} was replaced: {instead[name]}")
    return values
