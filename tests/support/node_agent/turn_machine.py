"""Containers and processes of one GPU in any order of events; a lane has one turn, and memory covers those inside."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule
from laneway.api.orders import Order, PodOrder
from laneway.api.template_profile import TemplateProfile
from laneway.lanes import Tenant, counted_ephemeral_bytes, counted_persistent_bytes, is_safe
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.turn import Turn

from tests.support.node_agent.gpu_bench import MIB, OFFERED_PERCENT, GPUBench, Process


class Machine(RuleBasedStateMachine):
    """Containers of one GPU whose processes follow the protocol, and sometimes die, stall or vanish."""

    processes = Bundle("processes")

    def __init__(self) -> None:
        super().__init__()
        self.bench = GPUBench(quantum_seconds=0.05, timeout_seconds=2.0)
        self.alive: list[Process] = []
        self.ever: list[Process] = []
        self.granted: dict[Process, tuple[int, Tenant]] = {}
        """The lane and the counted sizes of each process's last turn."""
        self.seen: set[Turn] = set()
        self.without_session: dict[Lease, int] = {}
        """What processes without a session hold in each container, in MiB."""

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
        name, held = f"pod-{len(self.bench.turns.leases)}", OFFERED_PERCENT if exclusive else percent
        lease = self.bench.container(name, held, spans_gpus=spans, exclusive=exclusive)
        if known is not None:
            sizes = TemplateProfile(persistent_bytes=known[0] * MIB, ephemeral_bytes=known[1] * MIB)
            self.bench.turns.allocate(lease.record.model_copy(update={"profile": sizes}))
        process = self.bench.process(lease)
        process.session.framework_reserve_bytes = 20 * MIB if cuda else 0
        return self.started(process)

    @rule(process=processes, used=st.integers(min_value=0, max_value=300))
    def the_driver_is_asked(self, process: Process, used: int) -> None:
        self.bench.read_driver(self.ever, self.without_session, {process: used})

    @rule(process=processes, spans=st.booleans())
    def more_is_learnt(self, process: Process, spans: bool) -> None:
        if process in self.alive:
            self.bench.turns.allocate(process.lease.record.model_copy(update={"spans_gpus": spans}))

    def started(self, process: Process) -> Process:
        """A process that has said hello."""
        process.session.order_state.capabilities = frozenset({"pause", "offload"})
        self.bench.turns.orders.process_connected(process.lease, process.session, was_offloaded=False)
        self.alive.append(process)
        self.ever.append(process)
        return process

    @rule(target=processes, process=processes)
    def come_beside(self, process: Process) -> Process:
        if process not in self.alive or len(process.lease.sessions) > 2:
            return process
        return self.started(self.bench.process(process.lease))

    @rule(process=processes)
    def iterate(self, process: Process) -> None:
        """What a client does next: ask, begin, end, and release if asked to."""
        if process not in self.alive or not process.session.connected:
            return
        outside = not process.page.inside and not process.holds_turn
        if outside and process.page.kept_memory and ("free",) in process.channel.sent:
            process.free_memory()
        if process.page.inside:
            process.end()
            if process.asked_to_yield or process.page.paused:
                woken = process.wake_successor()
                if woken is not None and not woken.page.paused:
                    woken.begin_armed()
                process.release()
        elif process.holds_turn and not process.asked_to_yield:
            process.begin()
        elif process.holds_turn:
            process.release()
        elif not process.session.requested:
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
            self.bench.turns.orders.set_order(process.lease, wanted)

    @rule(process=processes, refuses=st.sampled_from([False] * 4 + [True]))
    def answer(self, process: Process, refuses: bool) -> None:
        """A client carries out its latest order, or a part of it."""
        if process not in self.alive or not process.session.connected or process.page.inside:
            return
        unanswered = process.session.order_state.unanswered
        if unanswered == "pause":
            process.answer_paused()
        elif unanswered is not None and refuses:
            self.bench.turns.orders.refused(process.lease, process.session, unanswered, "a test")
        elif unanswered == "offload":
            process.answer_offloaded()
        elif unanswered == "restore":
            process.answer_restored()

    @rule(process=processes)
    def be_offloaded(self, process: Process) -> None:
        """Does all steps of an offload at once, because random single steps seldom complete one."""
        if process not in self.alive:
            return
        self.order(process, Order.OFFLOAD)
        for sibling in self.alive:
            if sibling.lease is process.lease and not sibling.page.inside:
                if sibling.holds_turn:
                    sibling.release()
                self.answer(sibling, refuses=False)
        for sibling in self.alive:
            if sibling.lease is process.lease:
                self.answer(sibling, refuses=False)

    @rule(process=processes)
    def fetch_back_unasked(self, process: Process) -> None:
        """A process that was told to end needs its memory, regardless of its orders."""
        if process in self.alive and process.session.connected and process.session.order_state.offloaded:
            process.answer_restored()

    @rule(process=consumes(processes))
    def die(self, process: Process) -> None:
        if process in self.alive:
            process.die()
            self.alive.remove(process)

    @rule(process=processes)
    def vanish(self, process: Process) -> None:
        if process in self.alive:
            process.disconnect()

    @rule(target=processes, process=consumes(processes))
    def come_back(self, process: Process) -> Process:
        """The process whose connection broke connects again; it may still be inside its iteration."""
        if process not in self.alive or process.session.connected:
            return process
        again = process.reconnect()
        again.session.order_state.capabilities = frozenset({"pause", "offload"})
        self.bench.turns.orders.process_connected(again.lease, again.session, was_offloaded=False)
        for known in (self.alive, self.ever):
            known[known.index(process)] = again
        if process in self.granted:
            self.granted[again] = self.granted.pop(process)
        return again

    @rule(freed=st.booleans())
    def the_driver_shows_memory(self, freed: bool) -> None:
        """A reading, before or after the memory of lost turns was freed by processes that are outside."""
        for process in self.ever if freed else ():
            pending = self.bench.turns.scheduler.memory.pending.of(process.lease, process.session.pid)
            if not process.page.turn and (pending is None or process not in self.alive):
                process.page.uses_memory = False
        self.bench.read_driver(self.ever, self.without_session)

    @rule(process=processes, held_mib=st.integers(min_value=0, max_value=300))
    def hold_memory_without_a_session(self, process: Process, held_mib: int) -> None:
        """A process that the agent knows only from the driver, beside the container's others or after them."""
        if process.lease.key in self.bench.turns.leases:
            self.without_session[process.lease] = held_mib

    @precondition(lambda self: self.bench.turns.scheduler.memory.pending and self.bench.driver_lists_memory)
    @rule()
    def others_wait_for_long(self) -> None:
        """A release that blocks others is over or overdue then. It is over when the watchdog has stopped the container."""
        pending = self.bench.turns.scheduler.memory.pending
        blocking = [each for each in pending if each.blocking_since_seconds is not None]
        self.bench.clock.advance(100.0)
        self.bench.read_driver(self.ever, self.without_session)
        self.bench.turns.scheduler.revoke_stalled()
        late = [each for each in pending if each in blocking]
        assert all(each.lease.overdue_release for each in late), "its lane would wait for ever"
        stopped = {each.lease for each in late}
        for process in self.ever:
            if process.lease in stopped:
                self.die(process)
                process.page.uses_memory = False
        for lease in stopped:
            self.without_session.pop(lease, None)
        self.bench.read_driver(self.ever, self.without_session)
        assert not any(each.lease in stopped for each in pending)

    @rule(process=consumes(processes))
    def give_back(self, process: Process) -> None:
        if process in self.alive:
            self.bench.turns.remove_container(process.lease.key)
            for ended in self.alive:
                if ended.lease is process.lease and not self.bench.driver_lists_memory:
                    ended.page.uses_memory = False
            self.without_session.pop(process.lease, None)
            self.alive = [other for other in self.alive if other.lease is not process.lease]

    @rule(seconds=st.sampled_from([0.001, 0.01, 0.1, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.bench.clock.advance(seconds)
        self.bench.turns.scheduler.revoke_stalled()
        self.bench.look_after()

    @invariant()
    def who_is_held_back_gets_no_new_turn(self) -> None:
        for lease, turn in self.bench.turns.scheduler.turns.items():
            if lease.blocked:
                assert turn.yield_requested_seconds is not None, "an order ends the turn that runs"
            assert not any(s.order_state.offloaded for s in turn.holders), "it has no memory to run with"

    @invariant()
    def memory_on_the_device_counts(self) -> None:
        """A tenant outside the lane table has all of its memory on the host."""
        for process in self.alive:
            if not process.lease.in_table:
                has_run = any(packet[0] == "grant" for packet in process.channel.sent)
                assert process.session.order_state.offloaded or not has_run

    @invariant()
    def orders_come_to_an_end(self) -> None:
        """A lease that is held back without an order waits for an answer, for its connection, or for memory."""
        memory = self.bench.turns.memory
        for process in self.alive:
            lease = process.lease
            if lease.order is None and lease.blocked:
                waits_for_answer = any(s.order_state.restore_requested for s in lease.sessions)
                refused = any(s.order_state.refusal for s in lease.sessions)
                away = any(s.order_state.off_gpu and not s.connected for s in lease.sessions)
                no_room = memory.lane_of(lease) is None or not self.bench.turns.scheduler.memory.fits(lease)
                assert waits_for_answer or refused or away or no_room or lease in self.may_be_looked_after()

    def may_be_looked_after(self) -> set[Lease]:
        """Run the agent's regular check early; return the leases whose restore it requests because memory was freed."""
        self.bench.look_after()
        return {
            lease
            for lease in self.bench.turns.leases.values()
            if any(s.order_state.restore_requested for s in lease.sessions)
        }

    @invariant()
    def a_granted_turn_fits_beside_all_that_is_still_in_use(self) -> None:
        """Invariant 8 of docs/architecture.md, by what the processes do and not by what the agent believes."""
        memory, turns = self.bench.turns.memory, self.bench.turns.scheduler.turns
        new = set(turns.values()) - self.seen
        self.seen = set(turns.values())
        for process in self.ever:
            if process.page.turn:
                self.granted[process] = turns[process.lease].lane, process.lease.tenant()
        lost = {
            process.lease: self.granted[process]
            for process in self.ever
            if process.page.uses_memory and not process.page.turn and process in self.granted
        }
        for turn in new:
            for lease, (lane, _) in lost.items():
                assert lease is turn.lease or lane != turn.lane, (
                    "the lane's last holder still uses its memory"
                )
        if not new:
            return
        rules = memory.table.rules
        waiting = [each.tenant for each in memory.table.waiting if each.holds_memory]
        held = {
            tenant.key: counted_persistent_bytes(tenant, rules)
            for tenant in (*memory.table.tenants, *waiting)
        }
        for lease in turns:
            held[lease.key] += counted_ephemeral_bytes(lease.tenant(), rules)
        for lease, (_, tenant) in lost.items():
            used = counted_persistent_bytes(tenant, rules) + counted_ephemeral_bytes(tenant, rules)
            held[lease.key] = max(held.get(lease.key, 0), used)
        assert sum(held.values()) <= memory.table.capacity_bytes

    @invariant()
    def a_pending_release_has_a_reason(self) -> None:
        for pending in self.bench.turns.scheduler.memory.pending:
            assert pending.inside <= {p.session.pid for p in self.alive if p.lease is pending.lease}
            assert pending.inside or self.bench.driver_lists_memory

    @invariant()
    def a_lane_has_one_turn(self) -> None:
        turns = list(self.bench.turns.scheduler.turns.values())
        granted = [turn.lane for turn in turns]
        assert len(granted) == len(set(granted))
        assert all(turn.holders for turn in turns), "a turn without a holder would block its lane"

    @invariant()
    def memory_is_safe(self) -> None:
        memory = self.bench.turns.memory
        tenants = {tenant.key: tenant for tenant in memory.table.tenants}
        lanes = [[tenants[key] for key in lane.tenants] for lane in memory.lanes]
        waiting_tenants = [waiting.tenant for waiting in memory.table.waiting if waiting.holds_memory]
        assert is_safe(1000 * MIB, lanes, memory.table.rules, waiting_tenants)

    @invariant()
    def pages_show_the_turns(self) -> None:
        for process in self.alive:
            turn = self.bench.turns.scheduler.turns.get(process.lease)
            holds_turn = turn is not None and process.session in turn.holders
            if process.session.connected:
                assert process.page.turn == (turn.number if holds_turn and turn else 0)

    @invariant()
    def no_session_is_forgotten(self) -> None:
        """A free lane has no session waiting, unless turns of an earlier table hold memory."""
        turns = self.bench.turns
        settled = not turns.scheduler.memory.pending and all(
            turns.memory.lane_of(turn.lease) == turn.lane for turn in turns.scheduler.turns.values()
        )
        busy = {turn.lane for turn in turns.scheduler.turns.values()}
        busy |= {turns.memory.lane_of(turn.lease) for turn in turns.scheduler.turns.values()}
        for process in self.alive:
            lane = turns.memory.lane_of(process.lease)
            if process.session.requested and lane is not None and lane not in busy and process.lease.may_run:
                assert not settled
        for turn in turns.scheduler.turns.values():
            waiting = any(
                p.session.requested and p.lease.may_run and turns.memory.lane_of(p.lease) == turn.lane
                for p in self.alive
            )
            if waiting and turn.yield_requested_seconds is None:
                assert turn.check_seconds is not None, (
                    "a session waits, and the turn would never be asked back"
                )
