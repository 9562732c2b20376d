"""The agent: assembles its parts, and starts and stops them in order."""

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
from laneway.api.enforcement import Enforcement, reaches
from laneway.api.gpu_node import GPUNodeStatus
from laneway.api.inventory import DeviceAccess
from laneway.api.node_config import NodeConfig
from laneway.api.other_plugins import other_gpus
from laneway.node_agent.clock import Clock, SteadyRealtime
from laneway.node_agent.containers.registry import ContainerRegistry
from laneway.node_agent.devices.monitor import DeviceAccessMonitor
from laneway.node_agent.enforcement.enforcer import Enforcer
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.gpus.health_file import HealthFile
from laneway.node_agent.gpus.monitor import GPUHealth, GPUMonitor
from laneway.node_agent.gpus.protocol import GPUInfo, GPUSource
from laneway.node_agent.gpus.simulated import GPUUse, SessionUse, SimulatedGPUSource
from laneway.node_agent.gpus.simulated_memory import PageUse, write_available_memory
from laneway.node_agent.host_folders import HostFolders
from laneway.node_agent.inventory_file import inventory_of, with_levels, write_inventory
from laneway.node_agent.memory_accounts.account_server import AccountServer
from laneway.node_agent.memory_accounts.round_robin import RoundRobin
from laneway.node_agent.orders.cluster_watch import SpecSource
from laneway.node_agent.orders.node_orders import NodeOrders
from laneway.node_agent.processes import boot_id
from laneway.node_agent.rate_limited_log import RateLimitedLog
from laneway.node_agent.recovery.restart_recovery import RestartRecovery
from laneway.node_agent.recovery.state import STATE_NAME, StateError, read_state
from laneway.node_agent.recovery.state_writer import StateWriter
from laneway.node_agent.report.http_server import AgentHTTPServer, Answers, BadQueryError
from laneway.node_agent.report.metrics import AgentCollector, process_registry
from laneway.node_agent.report.node_status import (
    doubly_offered_condition,
    gpus_healthy_condition,
    node_status,
    ready_condition,
)
from laneway.node_agent.report.other_pods_file import OtherPodsFile
from laneway.node_agent.report.publisher import GPUNodePublisher
from laneway.node_agent.report.session_record import session_record
from laneway.node_agent.report.snapshot import GPUSnapshot, take_snapshot
from laneway.node_agent.self_test.tester import InterposerTester
from laneway.node_agent.sessions.broker import SessionBroker
from laneway.node_agent.sessions.limits import Limits
from laneway.node_agent.sessions.listeners import Listeners
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.settings import TurnSettings, lane_rules
from laneway.node_agent.turns.turn_log import Entry, TurnLog, TurnRecord

_log = logging.getLogger(__name__)
_TICK_SECONDS = 0.25
_ENDED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Where and how an agent runs."""

    node: str
    folders: HostFolders
    address: str
    port: int
    standalone: bool = False
    """Without a cluster: jobs are started by users who may write to its folders."""


class Agent:
    """One node's agent. Create and run it on the main thread, which is the loop's thread."""

    def __init__(
        self,
        options: AgentOptions,
        config: NodeConfig,
        source: GPUSource,
        gpus: tuple[GPUInfo, ...],
        clock: Clock,
    ) -> None:
        """Set everything up; nothing is granted before :meth:`run`.

        Raises:
            OSError: a folder cannot be written to, or the port is taken.
        """
        self._options = options
        self._config = config
        self._clock = clock
        self._gpu_infos = gpus
        self._began_seconds = clock.realtime()
        self._realtime = SteadyRealtime(clock)
        self._limited_log = RateLimitedLog(_log, clock, max_kinds=4096)
        self.loop = EventLoop(clock)
        self._publisher: GPUNodePublisher | None = None
        self._devices: DeviceAccessMonitor | None = None
        self._state_writer: StateWriter | None = None
        self._conditions: tuple[Condition, ...] = ()
        self._other_pods = OtherPodsFile(options.folders.pod_requests)
        health_file = HealthFile(options.folders.agent_state)
        self._monitor = GPUMonitor(source, gpus, self._health_changed, health_file, clock, config.health)
        self._turns = self._make_turns()
        self._orders = NodeOrders(self._turns, options.folders, self.loop, clock)
        self._simulated = source if isinstance(source, SimulatedGPUSource) else None
        if self._simulated is not None:
            self._simulated.use_of = lambda gpu: self.loop.ask(lambda: _use_of(self._turns[gpu]))
        self._interposer_tester = self._make_interposer_tester(source)
        self._enforcer = Enforcer(
            config,
            self._turns,
            self._monitor.health,
            options.folders,
            self.loop,
            clock,
            self,
            self._health_changed,
            self._other_offers,
            self._interposer_problem,
            only_own_jobs=options.standalone,
        )
        self._inventory_lock = Lock()
        self._inventory_problem = ""
        """Why the last inventory was not written; empty if it was."""

        self._listeners = self._make_listeners()
        self._http = AgentHTTPServer(options.address, options.port, self._answers())

    @property
    def port(self) -> int:
        """Return the HTTP port."""
        return self._http.port

    def run(
        self,
        publisher: GPUNodePublisher | None,
        specs: SpecSource | None = None,
        devices: DeviceAccessMonitor | None = None,
    ) -> None:
        """Serve until :meth:`stop`.

        Args:
            publisher: writes the GPUNode.
            specs: where the cluster's orders to the node are read.
            devices: decides how the GPUs reach containers; None without Kubernetes.

        Raises:
            OSError: a folder cannot be written to.
        """
        self._publisher = publisher
        self._devices = devices
        folders = self._options.folders
        self._write_inventory()
        remembered = self._read_state(folders.agent_state / STATE_NAME)
        self._orders.start(specs)
        for turns in self._turns.values():
            turns.scheduler.awaiting_recovery = True
        registry = ContainerRegistry(
            folders.containers, self._turns.keys(), self._listeners, self.loop, self._clock
        )
        for turns in self._turns.values():
            turns.scheduler.awaiting_recovery = False
        if remembered is not None and remembered.boot_id == boot_id():
            RestartRecovery(self._turns, self.loop, self._clock, self._config.turns.timeout_seconds).begin(
                remembered
            )
        self._state_writer = StateWriter(folders.agent_state / STATE_NAME, self._turns, self.loop)
        self._state_writer.start()
        self._state_writer.changed()
        self._monitor.start()
        if self._interposer_tester is not None:
            self._interposer_tester.start()
        self._enforcer.start()
        self._http.start()
        if publisher is not None:
            publisher.start()
        if devices is not None:
            devices.start(self._health_changed)
        self._tick()
        _log.info(
            "agent serves node=%s gpus=%d http=%s:%d",
            self._options.node,
            len(self._turns),
            self._options.address,
            self.port,
        )
        try:
            self.loop.run()
        finally:
            self._state_writer.close()
            self._enforcer.stop()
            if self._interposer_tester is not None:
                self._interposer_tester.stop()
            self._monitor.stop()
            self._http.stop()
            self._orders.stop()
            if devices is not None:
                devices.stop()
            registry.close()
            if publisher is not None:
                publisher.stop()
            self._listeners.close()

    def stop(self) -> None:
        """Make :meth:`run` return. May be called from any thread."""
        self.loop.stop()

    def status(self) -> GPUNodeStatus:
        """Return the status of the GPUNode. Call it on other threads than the loop's.

        Raises:
            TimeoutError: the loop does not answer.
        """
        gpus = self._snapshots()
        now_seconds = self._clock.realtime()
        by_uuid = [(snapshot.gpu.uuid, health) for snapshot, health in gpus]
        for condition in (
            ready_condition([health for _, health in gpus], now_seconds),
            gpus_healthy_condition(by_uuid, now_seconds),
        ):
            self._conditions = with_condition(self._conditions, condition)
        offers = self._other_offers()
        if self._devices is not None and offers is not None:
            condition = doubly_offered_condition(offers, now_seconds)
            self._conditions = with_condition(self._conditions, condition)
        return node_status(gpus, self._conditions, self._other_pods.requests, self._access)

    def _other_offers(self) -> tuple[str, ...] | None:
        """Return the GPUs that other device plugins hand out on this node; None while unknown. Pods keep theirs when the plugin is gone."""
        if self._devices is None:
            return ()
        offers = self._devices.other_offers
        requested = other_gpus(self._other_pods.requests or {})
        return None if offers is None else (*offers, *(f"{each} requested by pods" for each in requested))

    def _make_interposer_tester(self, source: GPUSource) -> InterposerTester | None:
        """Return the tester; None where the interposer is not asked for or there is no driver to test it on."""
        real = tuple(gpu for gpu in self._gpu_infos if not gpu.simulated)
        if not real or not reaches(self._config.enforcement.level, Enforcement.INTERPOSER):
            return None
        answer_seconds = self._config.health.answer_seconds
        return InterposerTester(source, real, self._monitor.health, self._options.folders, answer_seconds)

    def _interposer_problem(self) -> str:
        return "" if self._interposer_tester is None else self._interposer_tester.problem

    @property
    def _access(self) -> DeviceAccess | None:
        return None if self._devices is None else self._devices.access

    def _make_turns(self) -> dict[str, GPUTurns]:
        inventory = inventory_of(self._options.node, self._gpu_infos, self._config, self._monitor.health)
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

    def _make_listeners(self) -> Listeners:
        limits, loop, clock = Limits(), self.loop, self._clock
        quantum_seconds = self._config.turns.quantum_milliseconds / 1000
        servers = (
            partial(AccountServer, self._turns, RoundRobin(loop), loop, limits, self),
            partial(SessionBroker, self._turns, quantum_seconds, loop, clock, limits),
        )
        return Listeners(self._turns, servers, loop, clock, limits)

    def changed(self) -> None:
        """Save and publish a change."""
        if self._state_writer is not None:
            self._state_writer.changed()
        if self._publisher is not None:
            self._publisher.changed()

    def record_event(self, lease: Lease, reason: str, message: str) -> None:
        """Log an event that the container's owner should know, and publish it."""
        self._limited_log.warning(
            f"{lease.key} {reason}",
            f"container event pod={lease.record.namespace}/{lease.record.pod} reason={reason} message={message!r}",
        )
        self.changed()

    def _health_changed(self) -> None:
        self._try_to_write_inventory()
        if self._publisher is not None:
            self._publisher.changed()

    def _try_to_write_inventory(self) -> None:
        """Write the inventory. If that fails, the next tick tries again: a change is reported only once."""
        try:
            self._write_inventory()
        except OSError as error:
            if str(error) != self._inventory_problem:
                _log.error("cannot write the inventory, will retry error=%r", str(error))
            self._inventory_problem = str(error)
        else:
            self._inventory_problem = ""

    def _write_inventory(self) -> None:
        with self._inventory_lock:
            offers = self._other_offers()
            withheld_reason = f"another device plugin hands out GPUs ({', '.join(offers)})" if offers else ""
            inventory = inventory_of(
                self._options.node,
                self._gpu_infos,
                self._config,
                self._monitor.health,
                self._access,
                withheld_reason,
            )
            write_inventory(self._options.folders.inventory, with_levels(inventory, self._enforcer.level))

    @staticmethod
    def _read_state(path: Path) -> Any:
        try:
            return read_state(path)
        except StateError as error:
            _log.error("state file ignored, sessions start over error=%r", str(error))
            return None

    def _tick(self) -> None:
        """Periodic work."""
        self.loop.call_at(self._clock.monotonic() + _TICK_SECONDS, self._tick)
        self._realtime.refresh()
        self._limited_log.flush_suppressed()
        if self._inventory_problem:
            self._try_to_write_inventory()
        offers = self._other_offers()
        if self._other_pods.read_if_changed():
            if self._other_offers() != offers:
                self._try_to_write_inventory()
            if self._publisher is not None:
                self._publisher.changed()
        for turns in self._turns.values():
            turns.scheduler.revoke_stalled()
            turns.readings.count_accounts()
            turns.sample_turn_time()
            if turns.readings.awaited:
                self._monitor.check_soon()  # a lane waits for memory that may be free by now
            turns.forget_ended(_ENDED_SECONDS)
            turns.check_quotas()
            if self._simulated is not None:
                uses = [
                    PageUse(session.page, lease.key, turns.memory.memory_lane_of(lease))
                    for lease in turns.leases.values()
                    for session in lease.sessions
                ]
                write_available_memory(
                    uses, turns.gpu.memory_bytes, self._simulated.external_bytes(turns.gpu.uuid)
                )
        self._orders.retry()

    def _snapshots(self) -> list[tuple[GPUSnapshot, GPUHealth]]:
        # One question per GPU, so that turns never wait long for the loop.
        looks = []
        for uuid, turns in self._turns.items():
            snapshot = self.loop.ask(partial(take_snapshot, turns, self._clock.monotonic()))
            looks.append((snapshot, self._monitor.health(uuid)))
        return looks

    def _answers(self) -> Answers:
        registry = process_registry()
        registry.register(AgentCollector(self._options.node, self._snapshots, self._config.health))
        return Answers(registry, self._health_problem, self._turn_records, self._session_records)

    def _health_problem(self) -> str:
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
            {"node": self._options.node, **asdict(record)}
            for turns, (ended, running) in zip(chosen, snapshots, strict=True)
            for record in chain(turns.log.records(ended), running)
            if record.end_seconds is None or record.end_seconds >= since_seconds
        )

    def _session_records(self, detailed: bool) -> list[dict[str, Any]]:
        return [
            session_record(self._options.node, snapshot.gpu.uuid, lease, detailed=detailed)
            for snapshot, _ in self._snapshots()
            for lease in snapshot.leases
        ]


def _turns_of(turns: GPUTurns, now_seconds: float) -> tuple[tuple[Entry, ...], tuple[TurnRecord, ...]]:
    running = (turns.log.running(turn, now_seconds) for turn in turns.scheduler.turns.values())
    return turns.log.entries(), tuple(running)


def _use_of(turns: GPUTurns) -> GPUUse:
    leases = turns.leases.values()
    ended_seconds = sum(lease.busy_seconds for lease in turns.ended)
    return GPUUse(
        busy_seconds=ended_seconds + sum(lease.busy_seconds for lease in leases),
        sessions=tuple(
            SessionUse(session.pid, session.page.held_bytes, f"{lease.record.namespace}/{lease.record.pod}")
            for lease in leases
            for session in lease.sessions
        ),
    )
