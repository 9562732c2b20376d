"""How much of the GPUs is idle, as gauges for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from laneway.operator import metrics
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.scheduling import GPU, JobState
from prometheus_client.core import GaugeMetricFamily

_TAKES_NO_TURNS = (JobState.PAUSED, JobState.OFFLOADED)


def gpu_gauges(usable: Iterable[GPU], jobs: Collection[ReconciledJob]) -> Iterator[GaugeMetricFamily]:
    """Yield the gauges of the GPUs on which jobs may start. What paused jobs hold is idle: others may use it."""
    held_percent: Counter[str] = Counter()
    for job in jobs:
        if job.state not in _TAKES_NO_TURNS:
            for worker in job.holds:
                held_percent.update(dict.fromkeys(worker.gpus, worker.share_percent))
    gpus: Counter[str] = Counter()
    idle: Counter[str] = Counter()
    fragmented: Counter[str] = Counter()
    for gpu in usable:
        held = min(100, held_percent[gpu.uuid] + gpu.foreign_percent)
        gpus[gpu.model] += 1
        idle[gpu.model] += 100 - held
        fragmented[gpu.model] += 100 - held if held else 0
    for spec, percent in (
        (metrics.USABLE_GPUS, Counter({model: 100 * number for model, number in gpus.items()})),
        (metrics.IDLE_GPUS, idle),
        (metrics.FRAGMENTED_GPUS, fragmented),
    ):
        family = metrics.gauge(spec)
        for model in sorted(gpus):
            family.add_metric([model], percent[model] / 100)
        yield family
