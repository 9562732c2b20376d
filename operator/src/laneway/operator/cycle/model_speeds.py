"""How fast each template runs on the GPU models of the cluster: as its jobs have shown, else as an estimate.

The estimates of a template depend on those other templates that have run on two models or more. They are computed again if one of these,
the template's own measurements or the cluster's models change. In a cluster with one model there are none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from laneway.api.training_profile import TrainingProfileStatus
from laneway.scheduling.model.gpu_speed import IterationSeconds, Measured, ModelSpeed, estimated_speeds

_SAME_RATIO = 0.05
"""Measurements that differ by no more than this part are the same."""

_MOST_NEAR = 256
"""The most templates of its namespace that an estimate reads. The first by key count; keys are hashes, so that is a sample."""

_MOST_FAR = 16
"""The same, of each other namespace."""

_MOST_NAMESPACES = 32
"""The most other namespaces that an estimate reads, the first by name."""


class ModelSpeedBook:
    """Measurements by template, and the speeds that follow from them for the templates that were asked for."""

    def __init__(self) -> None:
        self._models: frozenset[str] = frozenset()
        self._measured: dict[str, Measured] = {}
        """By template."""

        self._several: defaultdict[str, dict[str, Measured]] = defaultdict(dict)
        """Those on two models or more, by namespace and template."""

        self._speeds: dict[str, tuple[ModelSpeed, ...]] = {}
        """By template: what was returned."""

        self._stale: set[str] = set()
        self._all_stale = False

    def note(self, template: str, status: TrainingProfileStatus | None) -> None:
        """Note what is known of a template now; None: nothing."""
        measured = {} if status is None else _measured(status)
        before = self._measured.get(template, {})
        if _alike(before, measured):
            return
        self._stale.add(template)
        self._all_stale |= len(measured) > 1 or len(before) > 1
        several = self._several[_namespace(template)]
        for kept, belongs in ((self._measured, bool(measured)), (several, len(measured) > 1)):
            kept.pop(template, None)
            if belongs:
                kept[template] = measured
        if not several:
            del self._several[_namespace(template)]

    def refresh(self, models: frozenset[str]) -> set[str]:
        """Bring the speeds up to date; return the templates with other speeds than those that were returned.

        Args:
            models: the GPU models of the cluster.
        """
        if models != self._models:
            self._models, self._all_stale = models, True
        stale = set(self._speeds) if self._all_stale else self._stale & self._speeds.keys()
        self._stale, self._all_stale = set(), False
        changed = set()
        for template in stale:
            speeds = self._compute(template)
            if speeds != self._speeds[template]:
                self._speeds[template] = speeds
                changed.add(template)
        return changed

    def of(self, template: str) -> tuple[ModelSpeed, ...]:
        """Return how fast a template runs on the cluster's models, and on those where it was measured."""
        if template not in self._speeds:
            self._speeds[template] = self._compute(template)
        return self._speeds[template]

    def forget(self, template: str) -> None:
        """Forget that a template was asked for."""
        self._speeds.pop(template, None)

    def _compute(self, template: str) -> tuple[ModelSpeed, ...]:
        own = self._measured.get(template, {})
        models = self._models.union(own)
        if len(models) < 2:
            return ()
        namespace = _namespace(template)
        others = sorted(self._several.keys() - {namespace})[:_MOST_NAMESPACES]
        near = [measured for key, measured in self._sample(namespace, _MOST_NEAR).items() if key != template]
        return estimated_speeds(
            models, own, near, [list(self._sample(each, _MOST_FAR).values()) for each in others]
        )

    def _sample(self, namespace: str, most: int) -> Mapping[str, Measured]:
        """Return some templates of a namespace that ran on two models or more."""
        there = self._several.get(namespace, {})
        return there if len(there) <= most else {key: there[key] for key in sorted(there)[:most]}


def _namespace(template: str) -> str:
    return template.partition("/")[0]


def _measured(status: TrainingProfileStatus) -> Measured:
    return {
        each.model: IterationSeconds(
            each.profile.iteration_microseconds / 1e6, each.profile.data_microseconds / 1e6
        )
        for each in status.models
        if each.profile is not None and each.profile.iteration_microseconds
    }


def _alike(one: Measured, other: Measured) -> bool:
    return one.keys() == other.keys() and all(
        abs(other[model].gpu - each.gpu) <= _SAME_RATIO * each.gpu
        and abs(other[model].data - each.data) <= _SAME_RATIO * (each.gpu + each.data)
        for model, each in one.items()
    )
