"""The planner with a memory: it is told what has changed, and decides at the cost of that.

What it decides is what one would that is told everything at once: its memory makes it fast and changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from laneway.scheduling import explanation
from laneway.scheduling.advice import Advice, advise, alternatives_for
from laneway.scheduling.allotting import Allotting, allocations
from laneway.scheduling.books import Books
from laneway.scheduling.closures import Closures
from laneway.scheduling.plan_types import Plan, WaitingReason
from laneway.scheduling.snapshot import Job, JobState, Node
from laneway.scheduling.stages import Policies
from laneway.scheduling.validation import Holdings, check_decision
from laneway.scheduling.waiting_line import Shape
from laneway.scheduling.walk import Decision, Walk, reason_of


class Scheduler:
    """Nodes, jobs, and who decides. Tell it what is new, then ask for a decision, and tell it what came of it."""

    def __init__(self, nodes: Sequence[Node], policies: Policies) -> None:
        self._policies = policies
        self._books = Books(nodes, policies)
        self._closures = Closures(self._books)
        self._holdings = Holdings(nodes)
        self._allotting = None if policies.elastic is None else Allotting(policies.elastic)

    def set_nodes(self, nodes: Sequence[Node]) -> None:
        """Replace the cluster's nodes."""
        if self._books.set_nodes(nodes):
            self._closures = Closures(self._books)
            self._holdings.set_nodes(nodes)

    def observe(self, job: Job) -> None:
        """Note a job that is new or has changed."""
        self._books.observe(job)
        self._holdings.observe(job)

    def forget(self, key: str) -> None:
        """Note that a job has ended and holds nothing any more.

        Raises:
            KeyError: there is no such job.
        """
        self._books.forget(key)
        self._holdings.forget(key)

    def avoid(self, key: str, nodes: frozenset[str]) -> None:
        """Keep a job away from nodes from now on."""
        self._books.avoid(key, nodes)
        self._holdings.avoid(key, nodes)

    def decide(self, now_seconds: float, most_starts: float = math.inf) -> Decision:
        """Return what is to be done now.

        Args:
            now_seconds: the moment.
            most_starts: so many jobs may start by it; others that could are left to the next decision.

        Raises:
            InvalidPlan: a policy broke an invariant (see :func:`laneway.scheduling.validate`).
        """
        self._books.refresh(now_seconds)
        if self._allotting is not None:
            self._allotting.refresh(self._books, now_seconds)
            self._books.refresh(now_seconds)
        self._books.ledger.forget_idle_views()
        decision = Walk(self._books, self._closures, now_seconds, most_starts).run()
        decision.promotions = sorted(self._books.standings.promoted)
        check_decision(self._holdings, decision)
        return decision

    def plan(self, now_seconds: float, most_starts: float = math.inf) -> Plan:
        """Decide, and say of every job what becomes of it and why; arguments as for :meth:`decide`.

        Raises:
            InvalidPlan: a policy broke an invariant.
        """
        decision = self.decide(now_seconds, most_starts)
        self._books.look_up(self._books.jobs, now_seconds)
        jobs, standings = self._books.jobs, self._books.standings
        order = tuple(place[-1] for place in sorted(standings.keys.values()))
        waiting = self._waiting(order, decision)
        gone = waiting.keys() | decision.starts.keys() | decision.preemptions.keys() | set(decision.resumes)
        return Plan(
            starts=decision.starts,
            preemptions=decision.preemptions,
            resumes=tuple(decision.resumes),
            rescales=decision.rescales,
            allocations=allocations(self._books, order, decision),
            keeps=tuple(key for key in order if key not in gone and not jobs[key].state.makes_way),
            waiting=waiting,
            order=order,
            queues={key: max(0, standings.ranks[key].queue) for key in order},
            promotions=tuple(key for key in order if key in standings.promoted),
            cut_short=decision.cut_short,
        )

    def advise(
        self, planned: Plan, keys: Collection[str], now_seconds: float, *, trust_durations: bool = True
    ) -> Mapping[str, Advice]:
        """Say of jobs that wait by a plan who is ahead of them, and when they may start.

        Args:
            planned: what :meth:`plan` returned last; nothing may have been observed since.
            keys: which jobs.
            now_seconds: the moment.
            trust_durations: whether estimates rely on what is said of how long jobs run.
        """
        return advise(self._books, planned.waiting, keys, now_seconds, trust_durations=trust_durations)

    def alternatives(self, key: str) -> tuple[str, ...]:
        """Return the changes of a waiting job's spec with each of which it would start beside what was decided last; nothing may
        have been observed since."""
        return alternatives_for(self._books, key)

    def next_decision_seconds(self, now_seconds: float) -> float | None:
        """Return when time alone may change what was decided, if nothing more is observed before; None: never."""
        self._books.refresh(now_seconds)
        due = self._books.next_change_seconds(now_seconds)
        if self._allotting is not None:
            due = min(due, self._allotting.next_seconds())
        return None if math.isinf(due) else due

    def _waiting(self, order: Sequence[str], decision: Decision) -> Mapping[str, WaitingReason]:
        """Give every waiting job its reason and its position; those that cannot run hold no position."""
        by_shape: dict[Shape, WaitingReason] = {}
        waiting: dict[str, WaitingReason] = {}
        position = 0
        for key in order:
            job = self._books.jobs[key]
            if key in decision.starts or not (job.state is JobState.WAITING or key in decision.waiting):
                continue
            if job.suspended:
                waiting[key] = explanation.suspended()
                continue
            reason = reason_of(key, self._books, self._closures, decision, by_shape)
            if not reason.never_fits:
                position += 1
                reason = reason.at(position)
            waiting[key] = reason
        return waiting
