"""Estimates how fast the jobs of a template run on GPU models on which they have not been measured.

The time of an iteration is the GPU's part, which depends on the model, and the time for data, which does not. The GPU's part on another
model is its part on a measured model times a ratio. That is the ratio that other templates of its namespace have shown between the two
models, where any has run on both; else the one that those of other namespaces have shown; else the ratio of the models' peak figures.

Each other namespace has one vote, its median, and at least three votes are needed: who has one namespace, and clients that report
false figures, moves no other one's estimates beyond what the others have shown. The peak figures are the third vote where two
namespaces have run on both models. ``make bench-scheduling ONLY=gpu-speeds`` measures the error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median
from typing import NamedTuple

from laneway.scheduling.model.gpu_peaks import Peaks, peaks_of

_SIMILAR_LOG = 0.3
"""A template counts e times less if its ratio between two models differs by this from the template's own: by a third."""

_LEAST_WEIGHT = 0.01
"""The weight of a template that is not similar at all: it still counts where no other has run on both models."""


_LEAST_VOTES = 3
"""With fewer, one vote could decide."""


class SpeedBasis(StrEnum):
    """What a speed is based on."""

    MEASURED = "Measured"
    OTHER_TEMPLATES = "OtherTemplates"
    PEAK_FIGURES = "PeakFigures"


class IterationSeconds(NamedTuple):
    """The measured time of a template's iteration on one GPU model."""

    gpu: float
    """Inside the iteration. Above 0."""

    data: float = 0.0
    """Before it: loading data."""


Measured = Mapping[str, IterationSeconds]
"""The measurements of one template, by GPU model."""


@dataclass(frozen=True, slots=True)
class ModelSpeed:
    """How fast a job runs on GPUs of one model."""

    model: str
    per_second: float
    """Iterations a second. Of a job whose template was measured nowhere, only the ratio between two models has a meaning. Above 0."""

    basis: SpeedBasis = SpeedBasis.MEASURED
    source: str = ""
    """Where an estimate comes from, as a clause; empty where it was measured."""


class _Others(NamedTuple):
    """What was measured of other templates."""

    near: Sequence[Measured]
    """Of the same namespace."""

    elsewhere: Sequence[Sequence[Measured]]
    """Of each other namespace."""


class _Ratio(NamedTuple):
    """The GPU's part of an iteration on one model over that on another."""

    log: float
    basis: SpeedBasis
    source: str


def estimated_speeds(
    models: Iterable[str],
    own: Measured,
    near: Sequence[Measured],
    elsewhere: Sequence[Sequence[Measured]] = (),
) -> tuple[ModelSpeed, ...]:
    """Return how fast a template runs on each of these GPU models, by name; without those of which nothing can be known.

    Args:
        models: the models.
        own: what was measured of the template; it may be empty.
        near: what was measured of other templates of its namespace.
        elsewhere: what was measured of templates of each other namespace.
    """
    others = _Others(near, elsewhere)
    wanted = sorted(set(models))
    if not own:
        return _relative_speeds(wanted, others)
    found = []
    for model in wanted:
        if model in own:
            found.append(ModelSpeed(model, 1 / (own[model].gpu + own[model].data)))
            continue
        ratios = [
            (ratio, source)
            for source in sorted(own)
            if (ratio := _ratio(model, source, own, others)) is not None
        ]
        if ratios:
            by_templates = [each for each in ratios if each[0].basis is SpeedBasis.OTHER_TEMPLATES]
            used = by_templates or ratios
            gpu = math.exp(fmean(math.log(own[source].gpu) + ratio.log for ratio, source in used))
            data = fmean(each.data for each in own.values())
            found.append(ModelSpeed(model, 1 / (gpu + data), used[0][0].basis, used[0][0].source))
    return tuple(found)


def _relative_speeds(models: Sequence[str], others: _Others) -> tuple[ModelSpeed, ...]:
    """Return the speeds of a template that was measured nowhere, relative to the model from which most can be known, best by others."""
    best: tuple[ModelSpeed, ...] = ()
    most = (0, 0)
    for reference in models:
        found = []
        for model in models:
            ratio = _ratio(model, reference, {}, others)
            if model != reference and ratio is not None:
                found.append(ModelSpeed(model, math.exp(-ratio.log), ratio.basis, ratio.source))
        known = (sum(each.basis is SpeedBasis.OTHER_TEMPLATES for each in found), len(found))
        if known > most:
            most = known
            own = ModelSpeed(reference, 1.0, found[0].basis, found[0].source)
            best = tuple(sorted((own, *found), key=lambda each: each.model))
    return best


def _ratio(model: str, source: str, own: Measured, others: _Others) -> _Ratio | None:
    """Return the ratio of the GPU's part on a model to that on a source; None: nothing tells it."""
    if both := _with_both(others.near, model, source):
        templates = "1 other template" if len(both) == 1 else f"{len(both)} other templates"
        return _Ratio(
            _median_log(both, model, source, own),
            SpeedBasis.OTHER_TEMPLATES,
            f"from {templates} that ran on it and on {source}",
        )
    votes = [
        _median_log(both, model, source, own)
        for each in others.elsewhere
        if (both := _with_both(each, model, source))
    ]
    peaks, source_peaks = peaks_of(model), peaks_of(source)
    of_peaks = None if peaks is None or source_peaks is None else _log_roofs(peaks, source_peaks)
    namespaces = len(votes)
    if votes and namespaces < _LEAST_VOTES and of_peaks is not None:
        votes.append(of_peaks)
    if len(votes) >= _LEAST_VOTES:
        text = f"from templates of {namespaces} other namespaces that ran on it and on {source}"
        return _Ratio(median(votes), SpeedBasis.OTHER_TEMPLATES, text)
    if of_peaks is None:
        return None
    return _Ratio(of_peaks, SpeedBasis.PEAK_FIGURES, f"from the data sheets of it and of {source}")


def _with_both(templates: Iterable[Measured], model: str, source: str) -> list[Measured]:
    return [each for each in templates if model in each and source in each]


def _median_log(templates: Sequence[Measured], model: str, source: str, own: Measured) -> float:
    return _weighted_median(
        [(_log_ratio(each, model, source), _similarity(each, own, source)) for each in templates]
    )


def _log_ratio(measured: Measured, model: str, source: str) -> float:
    return math.log(measured[model].gpu / measured[source].gpu)


def _similarity(other: Measured, own: Measured, source: str) -> float:
    """Return how much another template counts: much if its ratios between models on which both have run are the template's."""
    common = [model for model in own if model != source and model in other]
    if source not in own or not common:
        return 1.0
    off = fmean(abs(_log_ratio(other, model, source) - _log_ratio(own, model, source)) for model in common)
    return _LEAST_WEIGHT + math.exp(-((off / _SIMILAR_LOG) ** 2))


def _weighted_median(weighted: list[tuple[float, float]]) -> float:
    """Return the value at which half of the weight is reached; the mean of two where it is reached between them."""
    weighted.sort()
    half, reached = math.fsum(weight for _, weight in weighted) / 2, 0.0
    for at, (value, weight) in enumerate(weighted):
        reached += weight
        if math.isclose(reached, half, rel_tol=1e-9) and at + 1 < len(weighted):
            return (value + weighted[at + 1][0]) / 2
        if reached >= half:
            break
    return value


def _log_roofs(peaks: Peaks, source: Peaks) -> float:
    """Return the logarithm of the time on a model over that on a source by their peak figures: both roofs count alike.

    To fit the part of each roof to a template's own ratios was no better on published measurements.
    """
    arithmetic = math.log(source.single_teraflops / peaks.single_teraflops)
    memory = math.log(source.memory_gigabytes_per_second / peaks.memory_gigabytes_per_second)
    return (arithmetic + memory) / 2
