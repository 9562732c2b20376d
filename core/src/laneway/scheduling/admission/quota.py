"""Quotas of GPUs by namespace, which may be borrowed while they lie idle.

A job is admitted if its namespace's jobs, with it, hold no more than the quota. Beyond that it borrows: up to its namespace's
limit, and only free GPUs that the other namespaces lend (``lending_ratio``). Nothing is taken back by admission: choose the
order policy ``fair`` with the quotas as its weights, and borrowers are preempted by jobs within their quota. In a namespace
without a quota, everything is borrowed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from laneway.scheduling.gpus.capacity import needs
from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.plan import WaitingCode, WaitingReason
from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.order.remaining import demanded_gpus


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits each namespace to its quota and to what the others lend."""

    quota_gpus: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By namespace: its quota of GPUs; 0 if it is not named."""

    limit_gpus: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By namespace: the most GPUs that it may hold, borrowed ones included; no limit if it is not named."""

    lending_ratio: float = 1.0
    """The part of other namespaces' unused quotas that may be borrowed, 0 to 1. The rest stays free for its owners, so that
    they need not wait for borrowers to end or be preempted."""

    def __post_init__(self) -> None:
        for name in ("quota_gpus", "limit_gpus"):
            for namespace, gpus in getattr(self, name).items():
                if gpus < 0:
                    raise ValueError(f"{name} of namespace {namespace} is {gpus}: write 0 or more")
        for namespace, limit in self.limit_gpus.items():
            if limit < self.quota_gpus.get(namespace, 0.0):
                raise ValueError(
                    f"limit_gpus of namespace {namespace} is {limit}, less than its quota of "
                    f"{self.quota_gpus[namespace]}: write a limit that holds the quota"
                )
        if not 0 <= self.lending_ratio <= 1:
            raise ValueError(f"lending_ratio is {self.lending_ratio}: write a number from 0 to 1")

    def refusal(self, job: Job, capacity: FreeCapacity, now_seconds: float) -> WaitingReason | None:
        """Return why a job is beyond its namespace's limit, or borrows what is not lent; None if it is admitted."""
        needed, held = demanded_gpus(job), capacity.held_percent(job.namespace) / 100
        quota = self.quota_gpus.get(job.namespace, 0.0)
        limit = self.limit_gpus.get(job.namespace, math.inf)
        if held + needed > limit:
            return _refused(job, held, held + needed - limit, f"may hold {limit:g} at most")
        if held + needed <= quota:
            return None
        kept_back = self._kept_back_gpus(job.namespace, capacity)
        free = capacity.unshared_sum_percent(job) / 100
        if kept_back == 0 or free - needed >= kept_back:
            return None
        lacking = needed + kept_back - free
        return _refused(
            job,
            held,
            lacking,
            f"has a quota of {quota:g}; of the {free:g} that are free, others keep {kept_back:g}",
        )

    def _kept_back_gpus(self, borrower: str, capacity: FreeCapacity) -> float:
        """Return the unused part of the others' quotas that they do not lend."""
        unused = math.fsum(
            max(0.0, quota - capacity.held_percent(namespace) / 100)
            for namespace, quota in self.quota_gpus.items()
            if namespace != borrower
        )
        return (1 - self.lending_ratio) * unused


def _refused(job: Job, held: float, lacking: float, rule: str) -> WaitingReason:
    more = math.ceil(lacking)
    return WaitingReason(
        WaitingCode.NOT_ADMITTED,
        f"It needs {needs(job.demand)}; namespace {job.namespace} holds {held:g} and {rule}.",
        f"It is admitted when {more} more {'GPU is' if more == 1 else 'GPUs are'} left to its namespace.",
        lacking_gpus=more,
    )
