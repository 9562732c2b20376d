"""Reads from NVML in which part of the recent time each process of a GPU computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pynvml
from laneway.node_agent.gpus.nvml_calls import supported


@dataclass(frozen=True, slots=True)
class Utilization:
    """What the driver sampled since the last call."""

    by_pid: Mapping[int, float] | None
    """From 0 to 1; a process that did not compute is missing. None: the GPU or the driver does not sample processes."""

    newest_us: int
    """The time of the newest sample, in the driver's microseconds: where the next call goes on."""


def read_utilization(handle: Any, since_us: int) -> Utilization:
    """Read the samples after a time. Several samples of a process count with their mean.

    Raises:
        pynvml.NVMLError: NVML failed.
    """
    samples = supported(lambda: _samples(handle, since_us))
    if samples is None:
        return Utilization(None, since_us)
    new = [sample for sample in samples if sample.timeStamp > since_us]
    percents: dict[int, list[int]] = {}
    for sample in new:
        percents.setdefault(int(sample.pid), []).append(min(int(sample.smUtil), 100))
    return Utilization(
        {pid: sum(values) / len(values) / 100 for pid, values in percents.items()},
        max((int(sample.timeStamp) for sample in new), default=since_us),
    )


def _samples(handle: Any, since_us: int) -> list[Any]:
    try:
        return list(pynvml.nvmlDeviceGetProcessUtilization(handle, since_us))
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_NOT_FOUND:
            return []  # no process computed
        raise
