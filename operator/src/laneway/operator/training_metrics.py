"""Gauges of training progress by job, where it is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from laneway.api.goodput_status import GoodputStatus
from laneway.api.metric import MetricSpec
from laneway.api.training_job_status import ProfileStatus, ProgressStatus
from prometheus_client.core import GaugeMetricFamily

_LABELS = ("namespace", "training_job")

JobTraining = tuple[str, str, ProgressStatus | None, ProfileStatus | None, GoodputStatus | None]
"""Namespace, name, and what is known."""

_PROGRESS: tuple[tuple[str, str, Callable[[ProgressStatus], float | None]], ...] = (
    ("laneway_job_step", "Steps reported by a job.", lambda made: made.step),
    (
        "laneway_job_progress_ratio",
        "Fraction of its steps that a job has done, as reported.",
        lambda made: None if made.step is None or not made.steps else min(1.0, made.step / made.steps),
    ),
    (
        "laneway_job_loss",
        "Loss that a job reported last.",
        lambda made: None if made.loss is None else _number(made.loss),
    ),
    (
        "laneway_job_remaining_seconds",
        "Remaining run time of a job, estimated from its steps and pace.",
        lambda made: made.remaining_seconds,
    ),
)

_PROFILE: tuple[tuple[str, str, Callable[[ProfileStatus], float | None]], ...] = (
    (
        "laneway_job_iteration_seconds",
        "Mean time of an iteration of a job's slowest worker.",
        lambda measured: measured.iteration_microseconds / 1e6,
    ),
    (
        "laneway_job_data_seconds",
        "Mean time before an iteration of a job's slowest worker, without waits for a turn.",
        lambda measured: measured.data_microseconds / 1e6,
    ),
    (
        "laneway_job_model_bytes",
        "Size of the parameters that a job trains.",
        lambda measured: measured.model_bytes or None,
    ),
    (
        "laneway_job_largest_tensor_bytes",
        "Size of the largest parameter tensor; divided by the model's size it is Tiresias' skew.",
        lambda measured: measured.largest_tensor_bytes or None,
    ),
)

_GOODPUT: tuple[tuple[str, str, Callable[[GoodputStatus], float | None]], ...] = (
    (
        "laneway_job_goodput_samples_per_second",
        "Samples per second of a job, each worth what it is worth at the initial batch.",
        lambda known: (
            None if known.milli_samples_per_second is None else known.milli_samples_per_second / 1000
        ),
    ),
    (
        "laneway_job_statistical_efficiency_ratio",
        "Training progress of a job per sample, compared with its initial batch.",
        lambda known: None if known.efficiency_percent is None else known.efficiency_percent / 100,
    ),
    (
        "laneway_job_gradient_noise_scale_samples",
        "Batch beyond which a job wastes most of a larger one.",
        lambda known: known.batch.noise_scale,
    ),
)

TRAINING_METRICS = tuple(
    MetricSpec(name, "gauge", text, _LABELS) for name, text, _ in (*_PROGRESS, *_PROFILE, *_GOODPUT)
)
"""The metrics of this module."""


def training_metrics(jobs: Iterable[JobTraining]) -> Iterator[GaugeMetricFamily]:
    """Yield the gauges."""
    jobs = tuple(jobs)
    for name, text, read in _PROGRESS:
        family = GaugeMetricFamily(name, text, labels=_LABELS)
        for namespace, job, progress, *_ in jobs:
            value = None if progress is None else read(progress)
            if value is not None:
                family.add_metric([namespace, job], value)
        yield family
    for name, text, measure in _PROFILE:
        family = GaugeMetricFamily(name, text, labels=_LABELS)
        for namespace, job, _, profile, _ in jobs:
            value = None if profile is None or not profile.iterations else measure(profile)
            if value is not None:
                family.add_metric([namespace, job], value)
        yield family
    yield from _goodput_metrics(jobs)


def _goodput_metrics(jobs: Iterable[JobTraining]) -> Iterator[GaugeMetricFamily]:
    for name, text, read in _GOODPUT:
        family = GaugeMetricFamily(name, text, labels=_LABELS)
        for namespace, job, _, _, goodput in jobs:
            value = None if goodput is None else read(goodput)
            if value is not None:
                family.add_metric([namespace, job], value)
        yield family


def _number(text: str) -> float | None:
    """Return a loss as a number; None for text that is none, which only a broken node writes."""
    try:
        return float(text)
    except ValueError:
        return None
