"""What the scheduler keeps between decisions: jobs, their places in the order, and who holds what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from laneway.scheduling.ledger import Kind, Ledger
from laneway.scheduling.preemptible import Preemptible
from laneway.scheduling.protections import Protections
from laneway.scheduling.room import Room
from laneway.scheduling.snapshot import Job, JobState, Node
from laneway.scheduling.stages import Policies
from laneway.scheduling.standings import SortKey, Standings
from laneway.scheduling.supply import Supply
from laneway.scheduling.views import Level, View
from laneway.scheduling.waiting_line import WaitingLine

PARKED = (JobState.PAUSED, JobState.OFFLOADED)
"""States of jobs that hold their placement and take no turns."""

_KINDS = {
    JobState.LEAVING: Kind.DEPARTING,
    JobState.PAUSING: Kind.DEPARTING,
    JobState.OFFLOADING: Kind.DEPARTING,
    JobState.PAUSED: Kind.PARKED,
    JobState.OFFLOADED: Kind.PARKED,
}

Exposure = tuple[SortKey | None, SortKey]
"""A place from which, and one up to which, those that wait may have a job make way for which it did not before; None: from the first."""


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

        self.preemptible = Preemptible()
        self._exposures: list[Exposure] = []

        self._avoid: dict[str, frozenset[str]] = {}
        self._started: dict[str, SortKey] = {}
        """Jobs that the last decision has start, and their places then."""

        self._stale: set[str] = set()
        self._protections = Protections()
        self._set_cluster(nodes)

    def set_nodes(self, nodes: Sequence[Node]) -> bool:
        """Replace the cluster's nodes; return whether any has changed. Where one has other GPUs than before, all is counted anew."""
        wanted = tuple(sorted(nodes, key=lambda node: node.name))
        if wanted == self.ledger.nodes:
            return False
        if self.ledger.renew(wanted):
            self.supply = Supply(self.ledger)
            self._rooms.clear()
            self.departures += 1
        else:
            self._set_cluster(wanted)
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

    def assume_started(self, key: str) -> None:
        """Note that a decision has a job start; as :meth:`assume`."""
        self._started[key] = self.standings.keys[key]
        self._stale.add(key)

    def refresh(self, now_seconds: float) -> None:
        """Bring ranks, holds and the line of those that wait up to date."""
        moved = self.standings.refresh(self.jobs, len(self.ledger.gpus), now_seconds)
        ended = self._protections.ended(now_seconds)
        stale = self._stale
        stale |= moved
        stale |= ended
        if stale:
            self._stale = set()
            for key in sorted(stale):
                job = self.jobs.get(key)
                if job is None:
                    self._remove(key)
                elif job.state is JobState.WAITING:
                    self._enter_waiting(job)
                else:
                    self._enter_holding(job, now_seconds)
            self._started.clear()

    def take_exposures(self) -> list[Exposure]:
        """Return whom others than before may have make way, since this was asked last."""
        exposures, self._exposures = self._exposures, []
        return exposures

    def look_up(self, keys: Iterable[str], now_seconds: float) -> None:
        """Bring the ranks of these jobs up to date that :meth:`refresh` leaves as they were, as it is known how they drift."""
        self.standings.look_up(keys, self.jobs, len(self.ledger.gpus), now_seconds)

    def waits_for(self, key: str) -> Job:
        """Return a waiting job with the workers that it is to start with."""
        job = self.jobs[key]
        workers = self.allotted.get(key, job.demand.workers)
        if workers in (0, job.demand.workers):
            return job
        return replace(job, demand=replace(job.demand, workers=workers))

    def room(self, view: View) -> Room:
        """Return a look at the ledger."""
        look = self.ledger.look(view)
        found = self._rooms.get(view)
        if found is None or found.look is not look:
            found = self._rooms[view] = Room(self.ledger, look, self.avoided)
        return found

    def level(self, key: str) -> Level:
        """Return the level of a job: those of larger ones may have to make way for it."""
        place = self.standings.keys[key]
        return place[0], place[1]

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
        self.ledger.enter(job, job.placement, kind, place[:2] if preemptible else None)
        if preemptible:
            self._expose(place, now_seconds)
        else:
            self.preemptible.leave(job.key)
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

    def _expose(self, place: SortKey, now_seconds: float) -> None:
        """Let a job make way for those that come before it."""
        key = place[-1]
        pace = self.standings.pace(key)
        before = self.preemptible.place(key, now_seconds) or self._started.get(key)
        self.preemptible.enter(place, self.ledger.entries[key].percent, pace, now_seconds)
        if before is None or before < place:
            self._exposures.append((before, place))

    def _forget_hold(self, key: str) -> None:
        self.preemptible.leave(key)
        self._protections.release(key)
        for members in (self.parked, self.leaving, self.suspended):
            members.discard(key)

    def _leave_line(self, key: str) -> None:
        if self.line.leave(key):
            self.departures += 1
