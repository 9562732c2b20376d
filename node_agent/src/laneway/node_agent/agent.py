"""The agent as a whole: its parts, in the order in which they start and end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

from laneway.api.conditions import Condition, with_condition
from laneway.api.gpu_node import GPUNodeStatus
from laneway.api.node_config import NodeConfig
from laneway.node_agent.clock import Clock, SteadyRealtime
from laneway.node_agent.containers.registry import ContainerRegistry
from laneway.node_agent.enforcement.enforcer import Enforcer
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.gpus.health_file import HealthFile
from laneway.node_agent.gpus.monitor import GPUHealth, GPUMonitor
from laneway.node_agent.gpus.protocol import GPUFacts, GPUSource
from laneway.node_agent.gpus.simulated import GPUUse, SessionUse, SimulatedGPUSource
from laneway.node_agent.gpus.simulated_memory import share_out
from laneway.node_agent.host_folders import HostFolders
from laneway.node_agent.inventory_file import inventory_of, with_levels, write_inventory
from laneway.node_agent.orders.cluster_watch import SpecSource
from laneway.node_agent.orders.node_orders import NodeOrders
from laneway.node_agent.quiet_log import QuietLog
from laneway.node_agent.recovery.keeper import StateKeeper
from laneway.node_agent.recovery.processes import boot_id
from laneway.node_agent.recovery.return_of import ReturnOfSessions
from laneway.node_agent.recovery.state import STATE_NAME, StateError, read_state
from laneway.node_agent.report.http_server import AgentHTTPServer, Answers, BadQueryError
from laneway.node_agent.report.metrics import AgentCollector
from laneway.node_agent.report.node_status import gpus_healthy_condition, node_status, ready_condition
from laneway.node_agent.report.publisher import GPUNodePublisher
from laneway.node_agent.report.session_record import session_record
from laneway.node_agent.report.snapshot import GPUSnapshot, take_snapshot
from laneway.node_agent.sessions.doors import Doors
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.hold import Hold
from laneway.node_agent.turns.settings import TurnSettings, lane_rules
from laneway.node_agent.turns.turn_log import Entry, TurnLog, TurnRecord
from prometheus_client import CollectorRegistry

_log = logging.getLogger(__name__)
_TICK_SECONDS = 0.25
_ENDED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent runs."""

    node: str
    folders: HostFolders
    address: str
    port: int
    standalone: bool = False
    """Without a cluster: who may write its folders, the agent's own user, starts the jobs."""


class Agent:
    """One node's agent. Made and run on the main thread, which is the loop's."""

    def __init__(
        self, place: Place, config: NodeConfig, source: GPUSource, gpus: tuple[GPUFacts, ...], clock: Clock
    ) -> None:
        """Set everything up; nothing is granted before :meth:`run`.

        Raises:
            OSError: a folder cannot be written to, or the port is taken.
        """
        self._place = place
        self._config = config
        self._clock = clock
        self._facts = gpus
        self._began_seconds = clock.realtime()
        self._realtime = SteadyRealtime(clock)
        self._quiet = QuietLog(_log, clock, most_kinds=4096)
        self.loop = EventLoop(clock)
        self._publisher: GPUNodePublisher | None = None
        self._keeper: StateKeeper | None = None
        self._conditions: tuple[Condition, ...] = ()
        health_file = HealthFile(place.folders.agent_state)
        self._monitor = GPUMonitor(source, gpus, self._health_changed, health_file, clock, config.health)
        self._turns = self._make_turns()
        self._orders = NodeOrders(self._turns, place.folders, self.loop, clock)
        self._simulated = source if isinstance(source, SimulatedGPUSource) else None
        if self._simulated is not None:
            self._simulated.use_of = lambda gpu: self.loop.ask(lambda: _use_of(self._turns[gpu]))
        self._enforcer = Enforcer(
            config,
            self._turns,
            self._monitor.health,
            place.folders,
            self.loop,
            clock,
            self,
            self._health_changed,
            only_own_jobs=place.standalone,
        )
        self._inventory_lock = Lock()
        self._doors = Doors(self._turns, config.turns.quantum_milliseconds / 1000, self.loop, clock)
        self._http = AgentHTTPServer(place.address, place.port, self._answers())

    @property
    def port(self) -> int:
        """Return the port that HTTP is served on."""
        return self._http.port

    def run(self, publisher: GPUNodePublisher | None, specs: SpecSource | None = None) -> None:
        """Serve until :meth:`stop`.

        Args:
            publisher: tells the cluster about the node.
            specs: where the cluster's orders to the node are read.

        Raises:
            OSError: a folder cannot be written to.
        """
        self._publisher = publisher
        folders = self._place.folders
        self._write_inventory()
        remembered = self._read_state(folders.agent_state / STATE_NAME)
        self._orders.start(specs)
        for turns in self._turns.values():
            turns.giver.waits_for_survivors = True
        registry = ContainerRegistry(
            folders.containers, self._turns.keys(), self._doors, self.loop, self._clock
        )
        for turns in self._turns.values():
            turns.giver.waits_for_survivors = False
        if remembered is not None and remembered.boot_id == boot_id():
            ReturnOfSessions(self._turns, self.loop, self._clock, self._config.turns.timeout_seconds).begin(
                remembered
            )
        self._keeper = StateKeeper(folders.agent_state / STATE_NAME, self._turns, self.loop)
        self._keeper.start()
        self._keeper.changed()
        self._monitor.start()
        self._enforcer.start()
        self._http.start()
        if publisher is not None:
            publisher.start()
        self._tick()
        _log.info(
            "node %s: %d GPUs; HTTP on %s:%d",
            self._place.node,
            len(self._turns),
            self._place.address,
            self.port,
        )
        try:
            self.loop.run()
        finally:
            self._keeper.finish()
            self._enforcer.stop()
            self._monitor.stop()
            self._http.stop()
            self._orders.stop()
            registry.close()
            if publisher is not None:
                publisher.stop()
            self._doors.close()

    def stop(self) -> None:
        """Make :meth:`run` return. May be called from any thread."""
        self.loop.stop()

    def status(self) -> GPUNodeStatus:
        """Return what the GPUNode says. Called on other threads than the loop's.

        Raises:
            TimeoutError: the loop does not answer.
        """
        gpus = self._look()
        now_seconds = self._clock.realtime()
        by_uuid = [(snapshot.gpu.uuid, health) for snapshot, health in gpus]
        for condition in (
            ready_condition([health for _, health in gpus], now_seconds),
            gpus_healthy_condition(by_uuid, now_seconds),
        ):
            self._conditions = with_condition(self._conditions, condition)
        return node_status(gpus, self._conditions)

    def _make_turns(self) -> dict[str, GPUTurns]:
        inventory = inventory_of(self._place.node, self._facts, self._config, self._monitor.health)
        settings, rules = TurnSettings.of(self._config), lane_rules(self._config)
        return {
            gpu.uuid: GPUTurns(
                gpu,
                rules,
                settings,
                self._clock,
                self.loop,
                TurnLog(gpu.uuid, self._realtime),
                self,
            )
            for gpu in inventory.gpus
        }

    def changed(self) -> None:
        """Something is to be remembered and published."""
        if self._keeper is not None:
            self._keeper.changed()
        if self._publisher is not None:
            self._publisher.changed()

    def noted(self, hold: Hold, reason: str, message: str) -> None:
        """Something happened to a container that its owner should know."""
        self._quiet.warning(
            f"{hold.key} {reason}", f"{hold.record.namespace}/{hold.record.pod}: {reason}: {message}"
        )
        self.changed()

    def _health_changed(self) -> None:
        self._write_inventory()
        if self._publisher is not None:
            self._publisher.changed()

    def _write_inventory(self) -> None:
        with self._inventory_lock:
            inventory = inventory_of(self._place.node, self._facts, self._config, self._monitor.health)
            write_inventory(self._place.folders.inventory, with_levels(inventory, self._enforcer.level))

    @staticmethod
    def _read_state(path: Path) -> Any:
        try:
            return read_state(path)
        except StateError as error:
            _log.error("%s; sessions begin anew", error)
            return None

    def _tick(self) -> None:
        """What is looked at regularly rather than when something happens."""
        self.loop.call_at(self._clock.monotonic() + _TICK_SECONDS, self._tick)
        self._realtime.refresh()
        self._quiet.tell_left_out()
        for turns in self._turns.values():
            turns.giver.revoke_stalled()
            turns.forget_ended(_ENDED_SECONDS)
            turns.compare_with_quotas()
            if self._simulated is not None:
                pages = [session.page for hold in turns.holds.values() for session in hold.sessions]
                share_out(pages, turns.gpu.memory_bytes, self._simulated.beyond_bytes(turns.gpu.uuid))
        self._orders.look_after()

    def _look(self) -> list[tuple[GPUSnapshot, GPUHealth]]:
        # One GPU a question, so that the loop is never away from turns for long.
        looks = []
        for uuid, turns in self._turns.items():
            snapshot = self.loop.ask(partial(take_snapshot, turns, self._clock.monotonic()))
            looks.append((snapshot, self._monitor.health(uuid)))
        return looks

    def _answers(self) -> Answers:
        registry = CollectorRegistry()
        registry.register(AgentCollector(self._place.node, self._look))
        return Answers(registry, self._ailment, self._turn_records, self._session_records)

    def _ailment(self) -> str:
        try:
            self.loop.ask(lambda: None, timeout_seconds=2.0)
        except TimeoutError:
            return "the event loop does not answer"
        return ""

    def _turn_records(self, gpu: str | None, since_seconds: float) -> Iterator[dict[str, Any]]:
        if gpu is not None and gpu not in self._turns:
            raise BadQueryError(f"gpu={gpu}: this node has {', '.join(self._turns)}")
        chosen = [turns for uuid, turns in self._turns.items() if gpu in (None, uuid)]
        snapshots = [self.loop.ask(partial(_turns_of, turns, self._clock.monotonic())) for turns in chosen]
        return (
            {"node": self._place.node, **asdict(record)}
            for turns, (ended, running) in zip(chosen, snapshots, strict=True)
            for record in chain(turns.log.records(ended), running)
            if record.end_seconds is None or record.end_seconds >= since_seconds
        )

    def _session_records(self) -> list[dict[str, Any]]:
        return [
            session_record(self._place.node, snapshot.gpu.uuid, hold)
            for snapshot, _ in self._look()
            for hold in snapshot.holds
        ]


def _turns_of(turns: GPUTurns, now_seconds: float) -> tuple[tuple[Entry, ...], tuple[TurnRecord, ...]]:
    running = (turns.log.running(turn, now_seconds) for turn in turns.giver.turns.values())
    return turns.log.entries(), tuple(running)


def _use_of(turns: GPUTurns) -> GPUUse:
    holds = turns.holds.values()
    ended_seconds = sum(hold.busy_seconds for hold in turns.ended)
    return GPUUse(
        busy_seconds=ended_seconds + sum(hold.busy_seconds for hold in holds),
        sessions=tuple(
            SessionUse(session.pid, session.page.held_bytes, f"{hold.record.namespace}/{hold.record.pod}")
            for hold in holds
            for session in hold.sessions
        ),
    )
