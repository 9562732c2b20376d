"""The waiting jobs, in order, grouped into equivalence classes: jobs of one class fit, or do not fit, alike.

So a cycle need not try all jobs: if the first job of a class finds no place, neither do the others. kube-scheduler's
equivalence cache does the same for pods.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from laneway.scheduling.model.snapshot import Demand, Job
from laneway.scheduling.state.ranking import SortKey


@dataclass(frozen=True, eq=False, slots=True)
class EquivalenceClass:
    """Everything that placement depends on. Each class is one object, so classes are compared by identity."""

    demand: Demand
    profile_key: Hashable
    """What decides about its placement of the job's profile."""

    avoided: frozenset[int]
    """Numbers of the nodes that the job is kept away from."""

    preemptible: bool
    """Jobs that are not preemptible are kept off reserved GPUs."""

    namespace: str
    """Empty where no admission policy reads it."""


class WaitingQueue:
    """Waiting jobs by equivalence class."""

    def __init__(self) -> None:
        self.members: dict[EquivalenceClass, list[SortKey]] = {}
        """The waiting jobs of each class, rising; never an empty list."""

        self.class_of: dict[str, EquivalenceClass] = {}
        """By job."""

        self._classes: dict[tuple[Demand, Hashable, frozenset[int], bool, str], EquivalenceClass] = {}
        self._sort_key_of: dict[str, SortKey] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._sort_key_of

    def __len__(self) -> int:
        return len(self._sort_key_of)

    def add(
        self, job: Job, profile_key: Hashable, avoided: frozenset[int], namespace: str, sort_key: SortKey
    ) -> bool:
        """Add a job, or move it to another place; return whether that changes anything."""
        equivalence_class = self._class(job, profile_key, avoided, namespace)
        if self._sort_key_of.get(job.key) == sort_key and self.class_of[job.key] is equivalence_class:
            return False
        self.remove(job.key)
        equivalence_class = self._class(
            job, profile_key, avoided, namespace
        )  # the last member's class is gone
        self.class_of[job.key] = equivalence_class
        self._sort_key_of[job.key] = sort_key
        insort(self.members.setdefault(equivalence_class, []), sort_key)
        return True

    def remove(self, key: str) -> bool:
        """Remove a job; return whether it was there."""
        sort_key = self._sort_key_of.pop(key, None)
        if sort_key is None:
            return False
        equivalence_class = self.class_of.pop(key)
        members = self.members[equivalence_class]
        del members[bisect_left(members, sort_key)]
        if not members:
            del self.members[equivalence_class]
            del self._classes[
                equivalence_class.demand,
                equivalence_class.profile_key,
                equivalence_class.avoided,
                equivalence_class.preemptible,
                equivalence_class.namespace,
            ]
        return True

    def heads(self) -> Iterator[tuple[SortKey, EquivalenceClass]]:
        """Yield the first job of each class, in no order."""
        for equivalence_class, members in self.members.items():
            yield members[0], equivalence_class

    def _class(
        self, job: Job, profile_key: Hashable, avoided: frozenset[int], namespace: str
    ) -> EquivalenceClass:
        parts = (job.demand, profile_key, avoided, job.preemptible, namespace)
        found = self._classes.get(parts)
        if found is None:
            found = self._classes[parts] = EquivalenceClass(*parts)
        return found
