"""Extended resources by which other device plugins hand out GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laneway.api import quantity

_OTHERS = (
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/pgpu",
    "aliyun.com/gpu-mem",
    "volcano.sh/vgpu-number",
)
_MIG_PREFIX = "nvidia.com/mig-"


def other_gpus(amounts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the GPUs of other device plugins among some amounts of resources, as ``resource: count``."""
    return tuple(
        f"{resource}: {amounts[resource]}"
        for resource in sorted(amounts)
        if (resource in _OTHERS or resource.startswith(_MIG_PREFIX)) and quantity.parse(amounts[resource]) > 0
    )
