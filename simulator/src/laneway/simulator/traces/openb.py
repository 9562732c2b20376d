"""Alibaba's "openb" pods (GPU trace 2023), one pod per line: ``openb_pod_list_*.csv``.

A pod uses ``num_gpu`` GPUs of one node, or ``gpu_milli`` thousandths of one. It is submitted at ``creation_time`` and runs from
``scheduled_time`` to ``deletion_time`` (seconds); ``gpu_spec`` lists the accepted models, separated by ``|``. Shares are rounded up to
whole percents. Skipped: pods without GPUs, and pods that were never scheduled. CPU and host memory are not read.
Source: https://github.com/alibaba/clusterdata, ``cluster-trace-gpu-v2023`` (Weng et al., ATC'23).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from laneway.scheduling import Demand
from laneway.simulator.trace import TraceJob
from laneway.simulator.traces.fields import name, seconds, whole
from laneway.simulator.traces.rows import each_line, headed_format
from laneway.simulator.traces.trace_format import NEVER_RAN, NO_GPU, NO_TIME, JobRead

REQUIRED = frozenset(
    {"name", "num_gpu", "gpu_milli", "gpu_spec", "creation_time", "deletion_time", "scheduled_time"}
)
OPTIONAL = frozenset({"cpu_milli", "memory_mib", "qos", "pod_phase"})


def read_row(row: Mapping[str, str]) -> JobRead:
    """Return the job of a line, or why it is skipped.

    Raises:
        ValueError: a field is wrong; the message says which, and what to write.
    """
    gpus = whole(row, "num_gpu")
    if gpus == 0:
        return NO_GPU
    if not row["scheduled_time"]:
        return NEVER_RAN
    duration_seconds = seconds(row, "deletion_time") - seconds(row, "scheduled_time")
    if duration_seconds <= 0:
        return NO_TIME
    return TraceJob(
        f"default/{name(row, 'name')}",
        _demand(gpus, whole(row, "gpu_milli"), row["gpu_spec"]),
        seconds(row, "creation_time"),
        duration_seconds,
    )


@lru_cache(maxsize=1024)
def _demand(gpus: int, gpu_millis: int, models: str) -> Demand:
    if not 1 <= gpu_millis <= 1000:
        raise ValueError(f"gpu_milli is {gpu_millis}: write 1 to 1000, thousandths of each GPU")
    return Demand(
        gpus_per_worker=gpus,
        share_percent=-(-gpu_millis // 10),
        models=frozenset(model for model in models.split("|") if model),
    )


FORMAT = headed_format("openb", REQUIRED, OPTIONAL, each_line(read_row), recorded=True)
