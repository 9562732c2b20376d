"""A GPU with containers and processes in memory, under a clock that tests turn by hand."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from laneway.api.container_record import ContainerRecord
from laneway.api.device_ids import container_key, device_id
from laneway.api.inventory import InventoryGPU
from laneway.lanes import LaneRules, counted_ephemeral_bytes, counted_persistent_bytes
from laneway.lanes.turns import turn_policy
from laneway.node_agent.clock import SteadyRealtime
from laneway.node_agent.event_loop import Timer
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.pending_releases import MemoryReading
from laneway.node_agent.turns.session import NANOSECONDS, ClientChannel, Session, Sizes
from laneway.node_agent.turns.settings import TurnSettings
from laneway.node_agent.turns.turn_log import TurnLog

GPU = "GPU-test"
MIB = 1 << 20
OFFERED_PERCENT = 400
"""Of the GPU: it is overcommitted."""


class FakeClock:
    """Both clocks, and the timers that hang on them."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.spent = 0.0
        """How long the callback that runs has taken; over when it returns."""

        self.timers_set = 0
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        return self.now + self.spent

    def realtime(self) -> float:
        return self.now + 1_700_000_000

    def call_at(self, due_seconds: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(due_seconds, callback)
        self.timers_set += 1
        heapq.heappush(self._timers, (due_seconds, next(self._order), timer))
        return timer

    @property
    def timers_pending(self) -> int:
        """How many timers will fire."""
        return sum(not timer.is_cancelled for _, _, timer in self._timers)

    def advance(self, seconds: float) -> None:
        """Turn the clock, firing timers on the way."""
        until = self.now + seconds
        while self._timers and self._timers[0][0] <= until:
            due, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, due)
            timer.fire()
            self.spent = 0.0
        self.now = until


@dataclass(slots=True)
class FakePage:
    clock: FakeClock
    iterations: int = 0
    inside: bool = False
    boundary_ns: int = 0
    held_bytes: int = 0
    peak_bytes: int = 0
    available_bytes: int = 0
    busy_ns: int = 0
    data_ns: int = 0
    turn: int = 0
    yields_from_ns: int = 0
    paused: bool = False
    entered: float = 0.0
    successor: int = 0
    armed: tuple[int, int] = (0, 0)
    """The turn that may begin, and the wake that says when."""
    taken: int = 0
    taken_ns: int = 0
    keeps_memory: bool = False
    kept_memory: bool = False
    uses_memory: bool = False
    """What the process does on the device, whatever the agent believes: from a grant until it is outside again."""

    def write_turn(self, turn: int) -> None:
        self.turn, self.yields_from_ns = turn, 0
        self.uses_memory |= turn > 0

    def write_yield(self, from_ns: int = 1) -> None:
        self.yields_from_ns = from_ns

    @property
    def yields(self) -> bool:
        return 0 < self.yields_from_ns <= int(self.clock.now * NANOSECONDS)

    def write_keeps_memory(self, keeps: bool) -> None:
        self.keeps_memory = keeps

    def write_successor(self, wake: int) -> None:
        self.successor = wake

    def write_armed(self, turn: int, wake: int) -> None:
        self.armed = turn, wake

    def write_available(self, available_bytes: int) -> None:
        self.available_bytes = available_bytes


@dataclass(slots=True)
class FakeChannel:
    page: FakePage
    sent: list[tuple[object, ...]] = field(default_factory=list)
    wakes: dict[int, bool] = field(default_factory=dict)
    """Whether the process signals each wake that it has, or is signalled."""

    def grant(self, turn: int) -> None:
        self.page.write_turn(turn)
        if self.page.taken != turn:
            self.sent.append(("grant", turn))

    def request_yield(self, turn: int) -> None:
        self.page.write_yield()
        self.sent.append(("yield", turn))

    def credit_release(self) -> None:
        self.sent.append(("excuse",))

    def revoke(self, turn: int, reason: str) -> None:
        self.page.write_turn(0)
        if turn:
            self.page.write_yield()
        self.sent.append(("revoke", turn, reason))

    def free_memory(self) -> None:
        self.sent.append(("free",))

    def share_wake(self, wake: int, successor: ClientChannel) -> None:
        self.give_wake(wake, 0, signals=True)
        successor.give_wake(wake, 0, signals=False)

    def give_wake(self, wake: int, descriptor: int, *, signals: bool) -> None:
        self.wakes[wake] = signals

    def forget_wake(self, wake: int) -> None:
        del self.wakes[wake]

    def order(self, command: str) -> None:
        self.page.paused = command != "resume"
        self.sent.append((command,))


class Process:
    """A training process that follows the protocol on command."""

    def __init__(self, bench: GPUBench, lease: Lease, pid: int) -> None:
        self.bench = bench
        self.lease = lease
        self.page = FakePage(bench.clock)
        self.channel = FakeChannel(self.page)
        self.session = Session(pid, self.page, self.channel, hands_over=True)
        bench.turns.connect(lease, self.session)
        bench.processes.append(self)

    @property
    def holds_turn(self) -> bool:
        return self.page.turn > 0

    @property
    def asked_to_yield(self) -> bool:
        return self.page.yields

    def _leave_turn(self) -> None:
        """Free what the turn used. Where a driver is read, the memory of a turn that was lost is freed late."""
        if self.page.turn or not self.bench.driver_lists_memory:
            self.page.uses_memory = False

    def request(self) -> None:
        if not self.holds_turn:
            self._leave_turn()
        self.bench.turns.orders.request(self.lease, self.session)

    def begin(self) -> None:
        assert self.holds_turn, "an iteration begins with a turn"
        self.page.inside = True
        self.page.entered = self.bench.clock.now

    def begin_armed(self) -> None:
        """Begin the turn for which it was woken; the agent does not know yet."""
        assert self.page.taken, "it was woken"
        self.page.inside = self.page.uses_memory = True
        self.page.entered = self.bench.clock.now

    def end(self) -> None:
        now = self.bench.clock.now
        self.page.inside = False
        self.page.iterations += 1
        self.page.busy_ns += round((now - self.page.entered) * NANOSECONDS)
        self.page.boundary_ns = round(now * NANOSECONDS)

    def wake_successor(self) -> Process | None:
        """Leave the turn as a client does that has a successor: wake it before the release. Return it."""
        wake, self.page.successor = self.page.successor, 0
        woken = [each for each in self.bench.processes if wake and each.page.armed[1] == wake]
        for process in woken:
            process.page.taken = process.page.armed[0]
            process.page.taken_ns = round(self.bench.clock.now * NANOSECONDS)
        return woken[0] if woken else None

    def free_memory(self) -> None:
        """Answer a request to free cached memory."""
        self.page.kept_memory = False
        self.bench.turns.scheduler.release(self.lease, self.session, 0, 0, 0.0)

    def release(self) -> None:
        self.page.taken = 0
        self.page.kept_memory = self.page.keeps_memory
        turn = self.page.turn
        self._leave_turn()
        self.bench.turns.scheduler.release(self.lease, self.session, turn, 0, 0.0)
        if self.lease.blocked:
            self.bench.turns.orders.step(self.lease)

    def profile(self, persistent_mib: int, ephemeral_mib: int, iteration_seconds: float = 0.05) -> None:
        sizes = Sizes(
            persistent_bytes=persistent_mib * MIB,
            ephemeral_bytes=ephemeral_mib * MIB,
            iteration_seconds=iteration_seconds,
        )
        self.bench.turns.measure(self.lease, self.session, sizes)

    def answer_paused(self) -> None:
        self.bench.turns.orders.paused(self.lease, self.session)

    def answer_offloaded(self) -> None:
        sizes = self.session.sizes
        freed_bytes = 0 if sizes is None else sizes.persistent_bytes
        self.bench.turns.orders.offloaded(self.lease, self.session, freed_bytes)

    def answer_restored(self) -> None:
        self.bench.turns.orders.restored(self.lease, self.session)

    def disconnect(self) -> None:
        self.bench.turns.disconnect(self.lease, self.session, goodbye=False)

    def reconnect(self) -> Process:
        """Open another connection, inside the iteration or outside, as the broker handles it."""
        turns, earlier = self.bench.turns, self.session
        again = Process(self.bench, self.lease, earlier.pid)
        again.page.inside, again.page.entered = self.page.inside, self.page.entered
        again.page.uses_memory = self.page.uses_memory
        turns.replace_session(self.lease, earlier)
        again.session.take_over(earlier)
        pending = turns.scheduler.memory.pending.of(self.lease, earlier.pid)
        if pending is not None:
            again.channel.revoke(pending.turn, "its connection broke")
        return again

    def die(self) -> None:
        self._leave_turn()
        self.disconnect()
        self.bench.turns.process_ended(self.lease, self.session)


class GPUBench:
    """A GPU of 1,000 MiB for jobs."""

    def __init__(
        self,
        *,
        policy: str = "fair",
        max_lanes: int = 0,
        quantum_seconds: float = 0.1,
        timeout_seconds: float = 30.0,
        starvation_seconds: float = 60.0,
        memory_mib: int = 1000,
        framework_mib: int = 0,
        padding_percent: int = 0,
        policy_parameters: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self.clock = FakeClock()
        self.changes = 0
        self.driver_lists_memory = False
        self.notes: list[tuple[str, str, str]] = []
        self.processes: list[Process] = []
        self._slots = itertools.count()
        self._pids = itertools.count(100)
        gpu = InventoryGPU(
            uuid=GPU,
            index=0,
            model="Test",
            memory_bytes=memory_mib * MIB,
            reserve_bytes=0,
            allocatable_percent=OFFERED_PERCENT,
            simulated=True,
        )
        self.log = TurnLog(GPU, SteadyRealtime(self.clock))
        parameters = {"quantum_seconds": quantum_seconds} if policy == "fair" else {}
        settings = TurnSettings(
            policy=turn_policy(
                policy, starvation_seconds=starvation_seconds, **{**parameters, **policy_parameters}
            ),
            framework_bytes=framework_mib * MIB,
            quantum_seconds=quantum_seconds,
            timeout_seconds=timeout_seconds,
        )
        rules = LaneRules(max_lanes=max_lanes, padding_percent=padding_percent)
        self.turns = GPUTurns(gpu, rules, settings, self.clock, self.clock, self.log, self)

    def container(
        self,
        pod: str,
        percent: int = 50,
        *,
        namespace: str = "default",
        spans_gpus: bool = False,
        exclusive: bool = False,
    ) -> Lease:
        ids = [device_id(GPU, next(self._slots)) for _ in range(percent)]
        record = ContainerRecord(
            key=container_key(ids),
            namespace=namespace,
            pod=pod,
            pod_uid=f"uid-of-{pod}",
            container="trainer",
            device_ids=tuple(ids),
            shares={GPU: percent},
            spans_gpus=spans_gpus,
            sharing="Exclusive" if exclusive else "Lanes",
        )
        return self.turns.allocate(record)

    def process(self, lease: Lease) -> Process:
        return Process(self, lease, next(self._pids))

    def job(self, pod: str, persistent_mib: int, ephemeral_mib: int, percent: int = 100) -> Process:
        """A container with one profiled process."""
        process = self.process(self.container(pod, percent))
        process.profile(persistent_mib, ephemeral_mib)
        return process

    def look_after(self) -> None:
        """What the agent does regularly."""
        self.turns.orders.retry(tuple(self.turns.leases.values()))

    def read_driver(
        self,
        processes: Iterable[Process],
        without_session: Mapping[Lease, int] = MappingProxyType({}),
        of_process: Mapping[Process, int] = MappingProxyType({}),
    ) -> None:
        """Let the agent read the driver.

        Args:
            processes: it shows what they use, the ended ones included.
            without_session: what other processes of a container hold, in MiB.
            of_process: what it shows of some processes, in place of a MiB each, in MiB.
        """
        self.driver_lists_memory = True
        self.clock.advance(0.001)
        rules = self.turns.memory.table.rules
        users = [process for process in processes if process.page.uses_memory]
        container_bytes = {
            lease.key: counted_persistent_bytes(lease.tenant(), rules)
            for lease in self.turns.leases.values()
            if lease.in_table and lease.sessions
        }
        for process in users:
            held = counted_ephemeral_bytes(process.lease.tenant(), rules) + MIB
            key = process.lease.key
            container_bytes[key] = container_bytes.get(key, 0) + held
        for lease, held_mib in without_session.items():
            container_bytes[lease.key] = container_bytes.get(lease.key, 0) + held_mib * MIB
        process_bytes = {process.session.pid: of_process.get(process, 1) * MIB for process in users}
        self.turns.readings.record(MemoryReading(self.clock.now, process_bytes, container_bytes))

    def lane_of(self, process: Process) -> int | None:
        return self.turns.memory.lane_of(process.lease)

    def changed(self) -> None:
        self.changes += 1

    def record_event(self, lease: Lease, reason: str, message: str) -> None:
        self.notes.append((lease.record.pod, reason, message))
