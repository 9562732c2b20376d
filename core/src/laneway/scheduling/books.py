"""What the scheduler keeps between decisions: jobs, their places in the order, and who holds what."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from laneway.scheduling.ledger import Kind, Ledger, Level, View
from laneway.scheduling.protections import Protections
from laneway.scheduling.room import Room
from laneway.scheduling.snapshot import Job, JobState, Node
from laneway.scheduling.stages import Policies
from laneway.scheduling.standings import SortKey, Standings
from laneway.scheduling.supply import Supply
from laneway.scheduling.waiting_line import WaitingLine

PARKED = (JobState.PAUSED, JobState.OFFLOADED)
"""States of jobs that hold their placement and take no turns."""

_KINDS = {JobState.LEAVING: Kind.DEPARTING, JobState.PAUSED: Kind.PARKED, JobState.OFFLOADED: Kind.PARKED}


class Books:
    """All that is known, brought up to date before each decision by :meth:`refresh`."""

    def __init__(self, nodes: Sequence[Node], policies: Policies) -> None:
        self.policies = policies
        self.jobs: dict[str, Job] = {}
        self.allotted: dict[str, int] = {}
        """By malleable job: how many workers the elastic policy gives it."""

        self.standings = Standings(policies.order)
        self.line = WaitingLine()
        self.parked: set[str] = set()
        self.suspended: set[str] = set()
        """Of the jobs that hold something: those that are to stop."""

        self.leaving: set[str] = set()
        self.departures = 0
        """Counts the jobs that no longer wait, or wait elsewhere in the order: others may have stood behind them."""

        self._avoid: dict[str, frozenset[str]] = {}
        self._stale: set[str] = set()
        self._preemptible: list[SortKey] = []
        self._preemptible_places: dict[str, SortKey] = {}
        self._protections = Protections()
        self._set_cluster(nodes)

    def set_nodes(self, nodes: Sequence[Node]) -> bool:
        """Replace the cluster's nodes; return whether any has changed. Then all is counted anew."""
        if tuple(sorted(nodes, key=lambda node: node.name)) == self.ledger.nodes:
            return False
        self._set_cluster(nodes)
        return True

    def observe(self, job: Job) -> None:
        """Note a job that is new or has changed."""
        self.jobs[job.key] = job
        self.standings.change(job.key)
        self._stale.add(job.key)

    def forget(self, key: str) -> None:
        """Note that a job is no longer there."""
        del self.jobs[key]
        self._avoid.pop(key, None)
        self.avoided.pop(key, None)
        self.allotted.pop(key, None)
        self.standings.forget(key)
        self._stale.add(key)

    def avoid(self, key: str, nodes: frozenset[str]) -> None:
        """Keep a job away from nodes from now on."""
        if self._avoid.get(key, frozenset()) != nodes:
            self._avoid[key] = nodes
            self._note_avoided(key)
            self._stale.add(key)

    def allot(self, workers: Mapping[str, int]) -> None:
        """Note how many workers the malleable jobs get."""
        for key in workers.keys() | self.allotted.keys():
            if workers.get(key) != self.allotted.get(key):
                self._stale.add(key)
        self.allotted = dict(workers)

    def assume(self, key: str) -> None:
        """Note that a decision has the ledger say something of a job that nobody has observed; it is undone before the
        next decision, unless it has been observed until then."""
        self._stale.add(key)

    def refresh(self, now_seconds: float) -> None:
        """Bring ranks, holds and the line of those that wait up to date."""
        moved = self.standings.refresh(self.jobs, len(self.ledger.gpus), now_seconds)
        ended = self._protections.ended(now_seconds)
        stale, self._stale = self._stale | moved | ended, set()
        for key in sorted(stale):
            job = self.jobs.get(key)
            if job is None:
                self._remove(key)
            elif job.state is JobState.WAITING:
                self._enter_waiting(job)
            else:
                self._enter_holding(job, now_seconds)
        self.ledger.forget_idle_views()

    def waits_for(self, key: str) -> Job:
        """Return a waiting job with the workers that it is to start with."""
        job = self.jobs[key]
        workers = self.allotted.get(key, job.demand.workers)
        if workers in (0, job.demand.workers):
            return job
        return replace(job, demand=replace(job.demand, workers=workers))

    def room(self, view: View) -> Room:
        """Return a look at the ledger."""
        found = self._rooms.get(view)
        if found is None or not self.ledger.keeps(view):
            found = self._rooms[view] = Room(self.ledger, view, self.avoided)
        return found

    def level(self, key: str) -> Level:
        """Return the level of a job: those of larger ones may have to make way for it."""
        place = self.standings.keys[key]
        return place[0], place[1]

    def last_first(self) -> Iterator[str]:
        """Yield the jobs that may be preempted now, first the one that goes last in the order."""
        for place in reversed(self._preemptible):
            yield place[-1]

    def levels_below(self, level: Level) -> list[Level]:
        """Return the levels above a level at which there are jobs that may be preempted, in rising order."""
        found = []
        start = bisect_right(self._preemptible, level, key=lambda place: (place[0], place[1]))
        while start < len(self._preemptible):
            found.append(self._preemptible[start][:2])
            start = bisect_right(self._preemptible, found[-1], start, key=lambda place: (place[0], place[1]))
        return found

    def next_change_seconds(self, now_seconds: float) -> float:
        """Return when time alone may change the decision; infinite: never."""
        due = self.standings.next_seconds(now_seconds)
        first = min(self.line.heads(), default=None)
        if first is None and not self.parked:
            return due
        by_queue = self.policies.order.preempts_by_queue and first is not None and not self.parked
        protected = self._protections.next_seconds(first[0][:2] if by_queue and first is not None else None)
        interval = now_seconds + self.policies.order.interval_seconds
        return min(due, protected, interval)

    def _set_cluster(self, nodes: Sequence[Node]) -> None:
        self.ledger = Ledger(nodes)
        self.supply = Supply(self.ledger)
        self.avoided: dict[str, frozenset[int]] = {}
        self._rooms: dict[View, Room] = {}
        self._node_numbers = {node.name: number for number, node in enumerate(self.ledger.nodes)}
        for key in self._avoid:
            self._note_avoided(key)
        for key, job in self.jobs.items():
            self.standings.change(key)
            self._stale.add(key)
            if job.state is JobState.WAITING:
                self.line.leave(key)
        self.departures += 1

    def _note_avoided(self, key: str) -> None:
        numbers = {self._node_numbers[name] for name in self._avoid[key] if name in self._node_numbers}
        if numbers:
            self.avoided[key] = frozenset(numbers)
        else:
            self.avoided.pop(key, None)

    def _remove(self, key: str) -> None:
        self.ledger.leave(key)
        self._leave_line(key)
        self._forget_hold(key)

    def _enter_waiting(self, job: Job) -> None:
        self.ledger.leave(job.key)
        self._forget_hold(job.key)
        if job.suspended:
            self._leave_line(job.key)
            return
        place = self.standings.keys[job.key]
        avoided = self.avoided.get(job.key, frozenset())
        waited = job.key in self.line
        if self.line.enter(self.waits_for(job.key), avoided, place) and waited:
            self.departures += 1

    def _enter_holding(self, job: Job, now_seconds: float) -> None:
        self._leave_line(job.key)
        kind = _KINDS.get(job.state, Kind.SETTLED)
        place = self.standings.keys[job.key]
        preemptible = self._may_be_preempted(job, now_seconds)
        self._set_preemptible(job.key, place if preemptible else None)
        self.ledger.enter(job, job.placement, kind, (place[0], place[1]) if preemptible else None)
        for members, belongs in (
            (self.parked, kind is Kind.PARKED),
            (self.leaving, kind is Kind.DEPARTING),
            (self.suspended, job.suspended and kind is not Kind.DEPARTING),
        ):
            (members.add if belongs else members.discard)(job.key)

    def _may_be_preempted(self, job: Job, now_seconds: float) -> bool:
        if not job.preemptible or job.suspended or job.state not in (JobState.RUNNING, *PARKED):
            self._protections.release(job.key)
            return False
        until_seconds = self.policies.preemption.protected_until_seconds(job)
        if job.state is not JobState.RUNNING or until_seconds <= now_seconds:
            self._protections.release(job.key)
            return True
        self._protections.protect(job.key, self.level(job.key), until_seconds)
        return False

    def _set_preemptible(self, key: str, place: SortKey | None) -> None:
        before = self._preemptible_places.get(key)
        if before == place:
            return
        if before is not None:
            del self._preemptible[bisect_left(self._preemptible, before)]
            del self._preemptible_places[key]
        if place is not None:
            insort(self._preemptible, place)
            self._preemptible_places[key] = place

    def _forget_hold(self, key: str) -> None:
        self._set_preemptible(key, None)
        self._protections.release(key)
        for members in (self.parked, self.leaving, self.suspended):
            members.discard(key)

    def _leave_line(self, key: str) -> None:
        if self.line.leave(key):
            self.departures += 1
