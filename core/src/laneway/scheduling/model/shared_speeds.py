"""Learns from measured speeds how fast jobs run that share GPUs, and predicts it for other groups.

The nodes measure of an iteration what a job does on the GPU and what it does before. Two things they cannot see in a job alone: how much
lanes that run at the same time slow one another, and how much jobs that prepare data slow one another (CPUs, storage and links of a
node are limited, too). Both are parameters of the model in :mod:`laneway.scheduling.model.interference`. They start where sharing looks
rather bad, and are fitted to the speeds that groups of jobs have shown: the least sum of absolute errors of the logarithms, so that
single wrong measurements hardly count.

What the model gets wrong of a kind of job beside another is learnt as a factor (the median over the groups with both). A group that was
measured runs as measured. All of it holds for one GPU model: on a larger one, the same jobs slow one another less.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from statistics import fmean, median, median_low
from typing import NamedTuple

from laneway.scheduling.model.interference import Interference, Load, interleaved, load_of
from laneway.scheduling.model.snapshot import Job, Profile, StageSeconds

ASSUMED_PENALTY_RATIO = 0.3
"""Before anything is measured. Muri (SIGCOMM'22) measured 1.31 for two jobs; the fit to Gavel's pairs is 0.13 to 0.16."""

ASSUMED_QUEUED_RATIO = 0.5
"""Before anything is measured: the part of the time before an iteration for which jobs queue. The truth is between 0 (every pod has CPUs
of its own, and storage is fast) and 1 (all wait for one disk)."""

_PENALTY_RATIOS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.65, 0.8)
_QUEUED_RATIOS = (0.0, 0.25, 0.5, 0.75, 1.0)
_ASSUMED_WEIGHT = 0.5
"""How much the assumed values count: as an error of this size for each unit of their distance. A few measured groups outweigh them."""

_MOST_GROUPS = 512
"""Measured groups that are remembered, the last ones. The kinds of jobs of a cluster are few, as its templates are."""

_FEW_GROUPS = 4
"""A namespace counts with so many groups in any case."""

_MOST_PREDICTED = 65536

_MOST_COUNTED = 16
"""Later measurements of a group count as much as an average over this many."""

SAME_RATIO = 0.03
"""Predictions are computed again if a measured average differs from its prediction by more."""


SpeedsOf = Callable[[Sequence[Job]], tuple[float, ...]]
"""Returns the speed of each of the jobs that share a GPU; 1 is its speed alone."""


class Kind(NamedTuple):
    """Jobs that are taken for alike."""

    name: Hashable
    """The template and the GPUs of the gang; of a job without a template, its load."""

    load: Load


@dataclass(frozen=True, slots=True)
class Fit:
    """The parameters of the model."""

    penalty_ratio: float = ASSUMED_PENALTY_RATIO
    queued_ratio: float = ASSUMED_QUEUED_RATIO

    def speed_ratios(self, loads: Sequence[Load]) -> tuple[float, ...]:
        """Return the speed of each of the jobs that share a GPU, by the model alone."""
        queued = [_queued(load, self.queued_ratio) for load in loads]
        return Interference(self.penalty_ratio).speed_ratios(queued)

    def distance(self, other: Fit) -> float:
        """Return the sum of the parameters' differences."""
        return abs(self.penalty_ratio - other.penalty_ratio) + abs(self.queued_ratio - other.queued_ratio)


_ASSUMED = Fit()
_FITS = tuple(Fit(*each) for each in product(_PENALTY_RATIOS, _QUEUED_RATIOS))


class SpeedsByModel:
    """What is known of jobs that share GPUs, by GPU model."""

    def __init__(self) -> None:
        self._of: dict[str, SharedSpeeds] = {}

    @property
    def version(self) -> int:
        """Counts the changes of predictions."""
        return sum(each.version for each in self._of.values())

    def on(self, model: str) -> SharedSpeeds:
        """Return what is known of jobs on GPUs of a model."""
        found = self._of.get(model)
        if found is None:
            found = self._of[model] = SharedSpeeds()
        return found


class SharedSpeeds:
    """The speeds of jobs that share GPUs of one model: assumed, then learnt. The same measurements give the same predictions."""

    def __init__(self) -> None:
        self.version = 0
        """Counts the changes of predictions."""

        self.fit = _ASSUMED
        self._groups: OrderedDict[tuple[Hashable, ...], _Group] = OrderedDict()
        self._unused: set[tuple[Hashable, ...]] = set()
        """Groups with measurements that predictions do not use yet."""

        self._factors: dict[tuple[Hashable, Hashable], float] = {}
        """By kind and kind beside it: the logarithm of measured over modelled speeds."""

        self._predicted: dict[tuple[Kind, ...], tuple[float, ...]] = {}
        self._tried: set[tuple[Hashable, Hashable]] = set()
        """Kinds that were measured beside a kind, the measured one first."""

    def predict(self, jobs: Sequence[Job]) -> tuple[float, ...]:
        """Return the speed of each of the jobs that share a GPU; 1 is its speed alone."""
        if len(jobs) < 2:
            return (1.0,) * len(jobs)
        kinds = tuple([kind_of(job) for job in jobs])
        found = self._predicted.get(kinds)
        if found is None:
            if len(self._predicted) > _MOST_PREDICTED:
                self._predicted.clear()
            found = self._predicted[kinds] = self._predict(kinds)
        return found

    def hoped(self, jobs: Sequence[Job]) -> tuple[float, ...]:
        """Return the speed of each of the jobs if all goes well: for kinds that were measured beside one another, the prediction; for
        others, that of stages that interleave perfectly.

        A group that looks good enough like this is worth a trial. If it is not, the measurement tells after minutes, and the next one of
        these kinds is predicted.
        """
        kinds = [kind_of(job) for job in jobs]
        predicted, best = self.predict(jobs), interleaved([kind.load for kind in kinds])
        names = {kind.name for kind in kinds}
        return tuple(
            known if any((kind.name, other) in self._tried for other in names) else max(known, hope)
            for kind, known, hope in zip(kinds, predicted, best, strict=True)
        )

    def measured(self, jobs: Sequence[Job]) -> tuple[float, ...]:
        """Return what :meth:`predict` does, from the newest averages of this very group: predictions leave out what differs from them by
        no more than :data:`SAME_RATIO`."""
        kinds = tuple([kind_of(job) for job in jobs])
        group = self._groups.get(_names(kinds))
        return self.predict(jobs) if group is None else self._with(kinds, group.averages)

    def learn(self, jobs: Sequence[Job], at: int, ratio: float) -> None:
        """Take in a measured speed.

        Args:
            jobs: those that share a GPU.
            at: which of them was measured.
            ratio: its speed; 1 is its speed alone. Above 0.
        """
        kinds = tuple(sorted((kind_of(job) for job in jobs), key=_by_name))
        key = _names(kinds)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(kinds)
            if len(self._groups) > _MOST_GROUPS:
                self._unused.discard(self._groups.popitem(last=False)[0])
        self._groups.move_to_end(key)
        name = kind_of(jobs[at]).name
        average = group.add(name, ratio)
        if len(self._tried) > _MOST_PREDICTED:
            self._tried.clear()
        self._tried |= {(name, kind_of(other).name) for index, other in enumerate(jobs) if index != at}
        self._unused.add(key)
        if abs(average - self.predict(jobs)[at]) > SAME_RATIO:
            self._refit()

    def _predict(self, kinds: Sequence[Kind]) -> tuple[float, ...]:
        group = self._groups.get(_names(kinds))
        return self._with(kinds, {} if group is None else group.used)

    def _with(self, kinds: Sequence[Kind], averages: Mapping[Hashable, float]) -> tuple[float, ...]:
        """Predict where nothing was measured."""
        modelled = self.fit.speed_ratios([kind.load for kind in kinds])
        found = []
        for at, (kind, ratio) in enumerate(zip(kinds, modelled, strict=True)):
            known = averages.get(kind.name)
            others = [other.name for index, other in enumerate(kinds) if index != at]
            found.append(min(1.0, ratio * self._factor(kind.name, others)) if known is None else known)
        return tuple(found)

    def _factor(self, name: Hashable, others: Sequence[Hashable]) -> float:
        known = [factor for other in others if (factor := self._factors.get((name, other))) is not None]
        return math.exp(fmean(known)) if known else 1.0

    def _refit(self) -> None:
        """Choose the parameters by all measured groups, and the factors beside them."""
        for key in self._unused:
            self._groups[key].use()
        self._unused.clear()
        losses = [_ASSUMED_WEIGHT * fit.distance(_ASSUMED) for fit in _FITS]
        groups_of: dict[str, list[_Group]] = {}
        for group in self._groups.values():
            for owner in sorted(group.owners):
                groups_of.setdefault(owner, []).append(group)
        most = max(_FEW_GROUPS, median_low(map(len, groups_of.values())) if groups_of else 0)
        for owner, groups in groups_of.items():
            weight = min(1.0, most / len(groups))
            for group in groups:
                for index, error in enumerate(group.errors_of_fits(owner)):
                    losses[index] += weight * error
        self.fit = _FITS[min(range(len(_FITS)), key=losses.__getitem__)]
        found: dict[tuple[Hashable, Hashable], list[float]] = {}
        for group in self._groups.values():
            for pair, factor in group.factors(self.fit):
                found.setdefault(pair, []).append(factor)
        self._factors = {pair: median(factors) for pair, factors in found.items()}
        self._predicted.clear()
        self.version += 1


class _Group:
    """Kinds of jobs that were measured beside one another."""

    def __init__(self, kinds: tuple[Kind, ...]) -> None:
        self.used: Mapping[Hashable, float] = {}
        """The averages that predictions use."""

        self._kinds = kinds
        self._measured: dict[Hashable, tuple[float, int]] = {}
        """By kind: the average of the measured speeds, and their number."""

        self._errors: dict[str, tuple[float, ...]] = {}
        """By owner."""

        self._fit: Fit | None = None
        self._factors: list[tuple[tuple[Hashable, Hashable], float]] = []

    def add(self, name: Hashable, ratio: float) -> float:
        """Take in a speed of a kind; return the average."""
        average, count = self._measured.get(name, (0.0, 0))
        count = min(count + 1, _MOST_COUNTED)
        average += (ratio - average) / count
        self._measured[name] = (average, count)
        return average

    @property
    def averages(self) -> Mapping[Hashable, float]:
        """By kind: the average of the measured speeds."""
        return {name: average for name, (average, _) in self._measured.items()}

    def use(self) -> None:
        """Let predictions use the present averages."""
        self.used = self.averages
        self._errors, self._fit = {}, None

    @property
    def owners(self) -> set[str]:
        """The namespaces of the kinds that were measured."""
        return {_owner(name) for name in self.used}

    def errors_of_fits(self, owner: str) -> tuple[float, ...]:
        """Return the part of a namespace's kinds in the mean error of each fit on this group."""
        found = self._errors.get(owner)
        if found is None:
            found = self._errors[owner] = tuple(
                math.fsum(
                    abs(error) for name, error in self._differences(fit).items() if _owner(name) == owner
                )
                / len(self.used)
                for fit in _FITS
            )
        return found

    def factors(self, fit: Fit) -> Sequence[tuple[tuple[Hashable, Hashable], float]]:
        """Return, by kind and kind beside it, the logarithms of measured over modelled speeds."""
        if self._fit != fit:
            differences = self._differences(fit)
            self._fit, self._factors = (
                fit,
                [
                    ((kind.name, other.name), differences[kind.name])
                    for at, kind in enumerate(self._kinds)
                    for index, other in enumerate(self._kinds)
                    if index != at and kind.name in differences
                ],
            )
        return self._factors

    def _differences(self, fit: Fit) -> dict[Hashable, float]:
        modelled = fit.speed_ratios([kind.load for kind in self._kinds])
        return {
            kind.name: math.log(self.used[kind.name] / ratio)
            for kind, ratio in zip(self._kinds, modelled, strict=True)
            if kind.name in self.used
        }


def kind_of(job: Job) -> Kind:
    """Return what a job is alike with."""
    return _kind(job.template, job.demand.gpus, job.profile)


@lru_cache(maxsize=65536)
def _kind(template: str, gpus: int, profile: Profile | None) -> Kind:
    load = load_of(profile)
    return Kind((template, gpus) if template else load, load)


def _owner(name: Hashable) -> str:
    """Return the namespace of a kind; empty where its template has none."""
    template = name[0] if isinstance(name, tuple) and name else ""
    return template.rpartition("/")[0] if isinstance(template, str) else ""


def _names(kinds: Sequence[Kind]) -> tuple[Hashable, ...]:
    """Return the key of a group."""
    return tuple(kind.name for kind in sorted(kinds, key=_by_name))


def _by_name(kind: Kind) -> tuple[str, str]:
    return type(kind.name).__name__, repr(kind.name)


def _queued(load: Load, ratio: float) -> Load:
    """Return a load with the time before its iterations as a stage for which jobs queue. Loads with more stages stay."""
    storage, cpu, gpu, network = load.stages
    if storage or cpu or network:
        return load
    before_seconds = max(0.0, load.iteration_seconds - gpu)
    return load._replace(stages=StageSeconds(0.0, before_seconds * ratio, gpu, 0.0))
