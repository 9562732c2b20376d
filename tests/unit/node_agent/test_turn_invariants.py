"""Whatever processes do, in whatever order: a lane has one turn, memory covers those inside, and nobody is forgotten."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule
from laneway.api.orders import Order, PodOrder
from laneway.api.template_profile import TemplateProfile
from laneway.lanes import is_safe
from laneway.node_agent.turns.hold import Hold

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
        known=st.sampled_from([None, None, (50, 100), (200, 500)]),
        cuda=st.booleans(),
    )
    def come(
        self, percent: int, spans: bool, exclusive: bool, known: tuple[int, int] | None, cuda: bool
    ) -> Process:
        hold = self.bench.container(
            f"pod-{len(self.bench.turns.holds)}", percent, spans_gpus=spans, exclusive=exclusive
        )
        if known is not None:
            sizes = TemplateProfile(persistent_bytes=known[0] * MIB, ephemeral_bytes=known[1] * MIB)
            self.bench.turns.allocate(hold.record.model_copy(update={"profile": sizes}))
        process = self.bench.process(hold)
        process.session.framework_reserve_bytes = 20 * MIB if cuda else 0
        return self.started(process)

    @rule(process=processes, used=st.integers(min_value=0, max_value=300))
    def the_driver_is_asked(self, process: Process, used: int) -> None:
        self.bench.turns.saw_memory({process.session.pid: used * MIB})

    @rule(process=processes, spans=st.booleans())
    def more_is_learnt(self, process: Process, spans: bool) -> None:
        if process in self.alive:
            self.bench.turns.allocate(process.hold.record.model_copy(update={"spans_gpus": spans}))

    def started(self, process: Process) -> Process:
        """A process that has said hello."""
        process.session.standing.can = frozenset({"pause", "offload"})
        self.bench.turns.orders.came(process.hold, process.session, was_offloaded=False)
        self.alive.append(process)
        return process

    @rule(target=processes, process=processes)
    def come_beside(self, process: Process) -> Process:
        if process not in self.alive or len(process.hold.sessions) > 2:
            return process
        return self.started(self.bench.process(process.hold))

    @rule(process=processes)
    def iterate(self, process: Process) -> None:
        """What a client does next: ask, begin, end, and release if asked to."""
        if process not in self.alive or not process.session.connected:
            return
        if process.page.inside:
            process.end()
            if process.asked_to_yield or process.page.paused:
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

    @rule(process=processes, order=st.sampled_from([None, Order.PAUSE, Order.OFFLOAD]))
    def order(self, process: Process, order: Order | None) -> None:
        if process in self.alive:
            wanted = None if order is None else PodOrder(podUID="any", order=order)
            self.bench.turns.orders.take(process.hold, wanted)

    @rule(process=processes, refuses=st.sampled_from([False] * 4 + [True]))
    def answer(self, process: Process, refuses: bool) -> None:
        """What a client does when it has time: what it was told last, or some of it."""
        if process not in self.alive or not process.session.connected or process.page.inside:
            return
        owes = process.session.standing.owes
        if owes == "pause":
            process.answer_paused()
        elif owes is not None and refuses:
            self.bench.turns.orders.refused(process.hold, process.session, owes, "a test")
        elif owes == "offload":
            process.answer_offloaded()
        elif owes == "restore":
            process.answer_restored()

    @rule(process=processes)
    def be_offloaded(self, process: Process) -> None:
        """All steps at once, as it mostly goes: by single steps one seldom comes so far."""
        if process not in self.alive:
            return
        self.order(process, Order.OFFLOAD)
        for sibling in self.alive:
            if sibling.hold is process.hold and not sibling.page.inside:
                if sibling.holds:
                    sibling.release()
                self.answer(sibling, refuses=False)
        for sibling in self.alive:
            if sibling.hold is process.hold:
                self.answer(sibling, refuses=False)

    @rule(process=processes)
    def fetch_back_unasked(self, process: Process) -> None:
        """A process that is to end needs its memory, whatever was ordered."""
        if process in self.alive and process.session.connected and process.session.standing.offloaded:
            process.answer_restored()

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
        self.bench.look_after()

    @invariant()
    def who_is_held_back_gets_no_new_turn(self) -> None:
        for hold, turn in self.bench.turns.giver.turns.items():
            if hold.held_back:
                assert turn.yield_asked_seconds is not None, "an order ends the turn that runs"
            assert not any(s.standing.offloaded for s in turn.holders), "it has no memory to run with"

    @invariant()
    def memory_on_the_device_counts(self) -> None:
        """Who is not in the lane table has its memory on the host, all of it."""
        for process in self.alive:
            if not process.hold.in_table:
                has_run = any(packet[0] == "grant" for packet in process.line.sent)
                assert process.session.standing.offloaded or not has_run

    @invariant()
    def orders_come_to_an_end(self) -> None:
        """Whoever is held back without an order waits for an answer, for its connection, or for memory."""
        memory, turns = self.bench.turns.memory, self.bench.turns.giver.turns
        for process in self.alive:
            hold = process.hold
            if hold.order is None and hold.held_back:
                waits_for_answer = any(s.standing.restore_asked for s in hold.sessions)
                refused = any(s.standing.refusal for s in hold.sessions)
                away = any(s.standing.away and not s.connected for s in hold.sessions)
                no_room = memory.lane_of(hold) is None or not memory.has_room(hold, turns)
                assert waits_for_answer or refused or away or no_room or hold in self.may_be_looked_after()

    def may_be_looked_after(self) -> set[Hold]:
        """Holds for which room was made since the agent looked last; it looks several times a second."""
        self.bench.look_after()
        return {
            hold
            for hold in self.bench.turns.holds.values()
            if any(s.standing.restore_asked for s in hold.sessions)
        }

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
            if process.session.asked and lane is not None and lane not in busy and process.hold.may_run:
                assert not settled
        for turn in turns.giver.turns.values():
            waiting = any(
                p.session.asked and p.hold.may_run and turns.memory.lane_of(p.hold) == turn.lane
                for p in self.alive
            )
            if waiting and turn.yield_asked_seconds is None:
                assert turn.check is not None, "somebody waits, and nobody would ever ask for the turn"


TestTurns = Machine.TestCase
TestTurns.settings = settings(max_examples=60, stateful_step_count=60)
