"""How fast each template runs on the GPU models of the cluster: as its jobs have shown, else as an estimate.

The estimates of a template depend on those other templates that have run on two models or more. They are computed again if one of these,
the template's own measurements or the cluster's models change. In a cluster with one model there are none.
"""

from __future__ import annotations

from collections.abc import Collection

from laneway.api.training_profile import TrainingProfileStatus
from laneway.scheduling.model.gpu_speed import IterationSeconds, Measured, ModelSpeed, estimated_speeds

_SAME_RATIO = 0.05
"""Measurements that differ by no more than this part are the same."""

_MOST_OTHERS = 256
"""The most templates that an estimate reads. The first by key count; keys are hashes, so that is a sample."""


class ModelSpeedBook:
    """Measurements by template, and the speeds that follow from them for the templates that were asked for."""

    def __init__(self) -> None:
        self._models: frozenset[str] = frozenset()
        self._measured: dict[str, Measured] = {}
        """By template."""

        self._several: dict[str, Measured] = {}
        """Those on two models or more."""

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
        for kept, belongs in ((self._measured, bool(measured)), (self._several, len(measured) > 1)):
            kept.pop(template, None)
            if belongs:
                kept[template] = measured

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
        return estimated_speeds(models, own, self._others(template))

    def _others(self, template: str) -> list[Measured]:
        keys: Collection[str] = self._several
        if len(keys) > _MOST_OTHERS:
            keys = sorted(keys)[:_MOST_OTHERS]
        return [self._several[key] for key in keys if key != template]


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
