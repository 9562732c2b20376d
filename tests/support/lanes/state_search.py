"""Searches all that can happen on a few GPUs with a few jobs: every order of arrivals, requests, grants,
releases, growth and departures.

A model of the turns, as small as it can be, around the real lane tables and a real turn policy:

- a worker asks for its GPU's turn, gets it, and gives it back at the end of its iteration;
- the workers of a gang wait for each other inside every iteration: none ends it before all of them have their turns;
- a lane has one turn at a time. A turn occupies the lane in which it was granted and its tenant's present lane. While a turn of
  an earlier table runs, another one is granted only if memory covers both (as ``laneway.node_agent.turns`` does);
- FAIR chooses which waiting worker gets a free lane. The search covers every order of service that the workers may have
  attained.

A state is *stuck* when a worker is not idle and no worker can continue without new work. Work that has begun ends after
finitely many steps unless it gets stuck. So a search without a stuck state proves that no job, and no group of jobs, can
deadlock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeVar

from laneway.lanes import (
    LaneRules,
    LaneTable,
    Tenant,
    counted_ephemeral_bytes,
    counted_persistent_bytes,
    fits,
)
from laneway.lanes.turns import SessionView, turn_policy

Value = TypeVar("Value")
POLICY = turn_policy("fair", starvation_seconds=60)


@dataclass(frozen=True)
class Job:
    """A job with a worker on each of its GPUs."""

    name: str
    gpus: tuple[int, ...]
    persistent: int
    ephemerals: tuple[int, ...]
    """What each of its workers measures, one after the other; the first when it comes."""

    stays: bool = True
    """It is there from the beginning and never leaves; else it comes and goes at any time."""


class At(IntEnum):
    """Where a worker is in its iteration."""

    AWAY = 0
    IDLE = 1
    WAITS = 2
    HOLDS = 3
    DONE = 4
    """It has given its turn back, and others of its gang have not yet."""


@dataclass(frozen=True)
class State:
    """One moment. Workers are numbered as in :attr:`StateSearch.workers`."""

    at: tuple[At, ...]
    measured: tuple[int, ...]
    """How many of its sizes each worker has measured."""

    lanes: tuple[int, ...]
    """The lane that each worker's turn was granted in; -1 while it has none."""

    tables: tuple[int, ...]
    """By GPU, the number of its lane table in :attr:`StateSearch.tables`: states are compared often, and tables are few."""


@dataclass
class StateSearch:
    """A breadth-first search over all states that can be reached."""

    capacity: int
    jobs: tuple[Job, ...]
    apart: bool = True
    """Whether lanes keep jobs on several GPUs apart. Without it the lane table takes no tenant as spanning GPUs."""

    states: int = 0
    contested: int = 0
    """States in which a job waits for a lane while another holds its turn."""

    unsettled: int = 0
    """States in which a turn runs whose tenant has been moved to another lane meanwhile."""

    stuck: State | None = None
    workers: tuple[tuple[Job, int], ...] = ()
    tables: list[LaneTable] = field(default_factory=list)
    _numbers: dict[LaneTable, int] = field(default_factory=dict)
    _changes: dict[tuple[object, ...], int | None] = field(default_factory=dict)
    _gang: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def run(self) -> StateSearch:
        """Search until everything was seen, or a stuck state was."""
        self.workers = tuple((job, gpu) for job in self.jobs for gpu in job.gpus)
        self._gang = {
            job.name: tuple(w for w, (of, _) in enumerate(self.workers) if of is job) for job in self.jobs
        }
        first = self._first()
        seen, line = {first}, deque([first])
        while line and self.stuck is None:
            state = line.popleft()
            ongoing = list(self._goes_on(state))
            if not ongoing and any(at > At.IDLE for at in state.at):
                self.stuck = state
            for after in (*ongoing, *self._news(state)):
                if after not in seen:
                    seen.add(after)
                    line.append(after)
        self.states = len(seen)
        return self

    def _first(self) -> State:
        gpus = 1 + max(gpu for _, gpu in self.workers)
        table = self._number(LaneTable.empty(self.capacity, LaneRules(padding_percent=0)))
        count = len(self.workers)
        state = State((At.AWAY,) * count, (0,) * count, (-1,) * count, (table,) * gpus)
        for job in self.jobs:
            if job.stays:
                came = self._come(state, job)
                assert came is not None, f"{job.name} does not fit: the case is wrong"
                state = came
        return state

    # What happens by itself

    def _goes_on(self, state: State) -> Iterator[State]:
        for worker, at in enumerate(state.at):
            mates = [state.at[mate] for mate in self._gang[self.workers[worker][0].name]]
            if at is At.IDLE and any(mate > At.IDLE for mate in mates):
                yield self._moved(state, worker, At.WAITS)
            elif at is At.WAITS and self._is_chosen(state, worker):
                lane = self._lane(state, worker)
                assert lane is not None
                yield self._moved(state, worker, At.HOLDS, lane)
            elif at is At.HOLDS and all(mate >= At.HOLDS for mate in mates):
                yield self._released(state, worker)

    def _is_chosen(self, state: State, worker: int) -> bool:
        gpu = self.workers[worker][1]
        lane = self._lane(state, worker)
        assert lane is not None, "who comes or grows fits"
        here = [other for other, (_, at) in enumerate(self.workers) if at == gpu]
        holders = [other for other in here if state.at[other] is At.HOLDS]
        now_in = {other: self._lane(state, other) for other in holders}
        unsettled = any(state.lanes[other] != now_in[other] for other in holders)
        self.unsettled += unsettled
        if any(lane in (state.lanes[other], now_in[other]) for other in holders):
            self.contested += 1
            return False
        inside = {self._key(other) for other in (*holders, worker)}
        if unsettled and not self._has_room(self.tables[state.tables[gpu]], inside):
            return False
        waiting = [
            SessionView(self._key(other), other, 0.0, gpu_seconds=float(other != worker))
            for other in here
            if state.at[other] is At.WAITS and self._lane(state, other) == lane
        ]
        return POLICY.choose(waiting, now_seconds=1.0) == self._key(worker)

    def _has_room(self, table: LaneTable, inside: set[str]) -> bool:
        needed = sum(counted_persistent_bytes(tenant, table.rules) for tenant in table.tenants)
        needed += sum(
            counted_ephemeral_bytes(tenant, table.rules) for tenant in table.tenants if tenant.key in inside
        )
        return needed <= self.capacity

    def _released(self, state: State, worker: int) -> State:
        gang = self._gang[self.workers[worker][0].name]
        after = self._moved(state, worker, At.DONE)
        if all(after.at[mate] is At.DONE for mate in gang):
            for mate in gang:
                after = self._moved(after, mate, At.IDLE)
        return after

    def _moved(self, state: State, worker: int, at: At, lane: int = -1) -> State:
        return State(
            _with(state.at, worker, at), state.measured, _with(state.lanes, worker, lane), state.tables
        )

    # What comes from outside

    def _news(self, state: State) -> Iterator[State]:
        for job in self.jobs:
            gang = self._gang[job.name]
            places = [state.at[worker] for worker in gang]
            if At.AWAY in places:
                came = self._come(state, job)
                if came is not None:
                    yield came
                continue
            if all(at is At.IDLE for at in places):
                for worker in gang:
                    yield self._moved(state, worker, At.WAITS)
            if not job.stays:
                yield self._left(state, job)
            for worker in gang:
                grown = self._grown(state, worker)
                if grown is not None:
                    yield grown

    def _come(self, state: State, job: Job) -> State | None:
        """Let a job in where it fits on all of its GPUs, as the planner does."""
        tables = list(state.tables)
        for worker in self._gang[job.name]:
            gpu = self.workers[worker][1]
            admitted = self._changed(tables[gpu], worker, "admit")
            if admitted is None:
                return None
            tables[gpu] = admitted
        gang = self._gang[job.name]
        at = tuple(At.IDLE if worker in gang else was for worker, was in enumerate(state.at))
        return State(at, state.measured, state.lanes, tuple(tables))

    def _left(self, state: State, job: Job) -> State:
        """Remove a job in any state of its workers: their turns end with them."""
        tables, at = list(state.tables), list(state.at)
        measured, lanes = list(state.measured), list(state.lanes)
        for worker in self._gang[job.name]:
            gpu = self.workers[worker][1]
            left = self._changed(tables[gpu], worker, "leave")
            assert left is not None
            tables[gpu] = left
            at[worker], measured[worker], lanes[worker] = At.AWAY, 0, -1
        return State(tuple(at), tuple(measured), tuple(lanes), tuple(tables))

    def _grown(self, state: State, worker: int) -> State | None:
        """Let a worker measure its next size; None if it has no further size, or if the GPU lacks memory for it."""
        job, gpu = self.workers[worker]
        number = state.measured[worker] + 1
        if number == len(job.ephemerals):
            return None
        grown = self._changed(state.tables[gpu], worker, "resize", number)
        if grown is None:
            return None
        tables = _with(state.tables, gpu, grown)
        return State(state.at, _with(state.measured, worker, number), state.lanes, tables)

    def _changed(self, table: int, worker: int, change: str, measured: int = 0) -> int | None:
        """Return the number of the table after a change; None where the change does not fit."""
        question = (table, worker, change, measured)
        if question not in self._changes:
            self._changes[question] = self._change(self.tables[table], worker, change, measured)
        return self._changes[question]

    def _change(self, table: LaneTable, worker: int, change: str, measured: int) -> int | None:
        tenant = self._tenant(worker, measured)
        if change == "leave":
            return self._number(table.leave(tenant.key).table)
        if change == "admit" and not fits(self.capacity, table.tenants, tenant, table.rules):
            return None
        outcome = table.admit(tenant) if change == "admit" else table.resize(tenant)
        return None if outcome.table.waiting or outcome.evict else self._number(outcome.table)

    def _number(self, table: LaneTable) -> int:
        if table not in self._numbers:
            self._numbers[table] = len(self.tables)
            self.tables.append(table)
        return self._numbers[table]

    def _lane(self, state: State, worker: int) -> int | None:
        return self.tables[state.tables[self.workers[worker][1]]].lane_of(self._key(worker))

    def _tenant(self, worker: int, measured: int) -> Tenant:
        job, _ = self.workers[worker]
        ephemeral = job.ephemerals[measured]
        spans = self.apart and len(job.gpus) > 1
        quota = job.persistent + max(job.ephemerals)
        return Tenant(self._key(worker), quota, job.persistent, ephemeral, profiled=True, spans_gpus=spans)

    def _key(self, worker: int) -> str:
        return self.workers[worker][0].name


def _with(values: tuple[Value, ...], index: int, value: Value) -> tuple[Value, ...]:
    return (*values[:index], value, *values[index + 1 :])


def gang(name: str, *gpus: int, ephemerals: tuple[int, ...] = (4,), stays: bool = True) -> Job:
    return Job(name, gpus, 1, ephemerals, stays)


def single(name: str, gpu: int, ephemerals: tuple[int, ...] = (4,), stays: bool = True) -> Job:
    return Job(name, (gpu,), 1, ephemerals, stays)
