"""Whatever processes do, in whatever order: a lane has one turn, memory covers those inside, and nobody is forgotten."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule
from laneway.lanes import is_safe

from tests.unit.node_agent.gpu_bench import MIB, GPUBench, Process


class Machine(RuleBasedStateMachine):
    """Containers of one GPU whose processes follow the protocol, and sometimes die, stall or vanish."""

    processes = Bundle("processes")

    def __init__(self) -> None:
        super().__init__()
        self.bench = GPUBench(quantum_seconds=0.05, timeout_seconds=2.0)
        self.alive: list[Process] = []

    @precondition(lambda self: len(self.alive) < 6)
    @rule(
        target=processes,
        percent=st.sampled_from([10, 30, 60, 100]),
        spans=st.booleans(),
        exclusive=st.sampled_from([False] * 9 + [True]),
    )
    def come(self, percent: int, spans: bool, exclusive: bool) -> Process:
        hold = self.bench.container(
            f"pod-{len(self.bench.turns.holds)}", percent, spans_gpus=spans, exclusive=exclusive
        )
        process = self.bench.process(hold)
        self.alive.append(process)
        return process

    @rule(target=processes, process=processes)
    def come_beside(self, process: Process) -> Process:
        if process not in self.alive or len(process.hold.sessions) > 2:
            return process
        sibling = self.bench.process(process.hold)
        self.alive.append(sibling)
        return sibling

    @rule(process=processes)
    def iterate(self, process: Process) -> None:
        """What a client does next: ask, begin, end, and release if asked to."""
        if process not in self.alive or not process.session.connected:
            return
        if process.page.inside:
            process.end()
            if process.asked_to_yield:
                process.release()
        elif process.holds and not process.asked_to_yield:
            process.begin()
        elif process.holds:
            process.release()
        elif not process.session.asked:
            process.request()

    @rule(
        process=processes,
        persistent=st.integers(min_value=0, max_value=600),
        ephemeral=st.integers(min_value=0, max_value=600),
    )
    def measure(self, process: Process, persistent: int, ephemeral: int) -> None:
        if process in self.alive and process.session.connected:
            process.profile(persistent, ephemeral)

    @rule(process=consumes(processes))
    def die(self, process: Process) -> None:
        if process in self.alive:
            process.die()
            self.alive.remove(process)

    @rule(process=processes)
    def vanish(self, process: Process) -> None:
        if process in self.alive:
            process.page.inside = False
            process.disconnect()

    @rule(process=consumes(processes))
    def give_back(self, process: Process) -> None:
        if process in self.alive:
            self.bench.turns.forget(process.hold.key)
            self.alive = [other for other in self.alive if other.hold is not process.hold]

    @rule(seconds=st.sampled_from([0.001, 0.01, 0.1, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.bench.clock.advance(seconds)
        self.bench.turns.giver.revoke_stalled()

    @invariant()
    def a_lane_has_one_turn(self) -> None:
        turns = list(self.bench.turns.giver.turns.values())
        granted = [turn.lane for turn in turns]
        assert len(granted) == len(set(granted))
        assert all(turn.holders for turn in turns), "a turn without a holder would block its lane"

    @invariant()
    def memory_is_safe(self) -> None:
        memory = self.bench.turns.memory
        tenants = {tenant.key: tenant for tenant in memory.table.tenants}
        lanes = [[tenants[key] for key in lane.tenants] for lane in memory.lanes]
        parked = [waiting.tenant for waiting in memory.table.waiting if waiting.parked]
        assert is_safe(1000 * MIB, lanes, memory.table.rules, parked)

    @invariant()
    def pages_show_the_turns(self) -> None:
        for process in self.alive:
            turn = self.bench.turns.giver.turns.get(process.hold)
            holds = turn is not None and process.session in turn.holders
            if process.session.connected:
                assert process.page.turn == (turn.number if holds and turn else 0)

    @invariant()
    def nobody_is_forgotten(self) -> None:
        """A lane that is free has nobody waiting, unless memory is held by turns of an earlier table."""
        turns = self.bench.turns
        settled = all(turns.memory.lane_of(turn.hold) == turn.lane for turn in turns.giver.turns.values())
        busy = {turn.lane for turn in turns.giver.turns.values()}
        busy |= {turns.memory.lane_of(turn.hold) for turn in turns.giver.turns.values()}
        for process in self.alive:
            lane = turns.memory.lane_of(process.hold)
            if process.session.asked and lane is not None and lane not in busy and not process.hold.uncovered:
                assert not settled
        for turn in turns.giver.turns.values():
            waiting = any(
                p.session.asked and not p.hold.uncovered and turns.memory.lane_of(p.hold) == turn.lane
                for p in self.alive
            )
            if waiting and turn.yield_asked_seconds is None:
                assert turn.check is not None, "somebody waits, and nobody would ever ask for the turn"


TestTurns = Machine.TestCase
TestTurns.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
