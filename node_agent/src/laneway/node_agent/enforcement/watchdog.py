"""Sees to it that no container holds more of a GPU than its quota for long, whether or not its processes ever connected.

In a thread of its own: it takes each new reading of a GPU, asks the loop who holds shares of it, finds out whose the
processes are, and follows each container with a :mod:`watch <laneway.node_agent.enforcement.watch>`. What it finds is told on
the loop's thread, where holds are kept.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from laneway.api.enforcement import Enforcement, shortfall
from laneway.api.node_config import WatchdogConfig
from laneway.api.quantity import format_bytes
from laneway.node_agent.containers.record_file import is_same_container
from laneway.node_agent.enforcement.breach import Breach, Claim, find
from laneway.node_agent.enforcement.eviction import Eviction
from laneway.node_agent.enforcement.levels import Level, level_of_container
from laneway.node_agent.enforcement.owners import Owned, Owners
from laneway.node_agent.enforcement.verdict import Verdict, note_verdict
from laneway.node_agent.enforcement.watch import Deed, Rules, Sight, Stage, Watch, step
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.gpus.protocol import GPUReading
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.notices import Notices

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Case:
    """What is known of one container on one GPU."""

    claim: Claim
    eviction: Eviction
    watch: Watch = field(default_factory=Watch)
    breach: Breach | None = None
    pids: frozenset[int] = frozenset()
    """Its processes by the last reading."""

    stopped: frozenset[int] = frozenset()
    """Its processes that were told to end."""

    evicted: str = ""
    epitaph: str = ""
    failure: str = ""
    """Why some could not be told."""

    told: Verdict = field(default_factory=Verdict)


class Watchdog:
    """Looks at one GPU's containers. Not for several threads at a time."""

    def __init__(
        self, turns: GPUTurns, containers: Path, config: WatchdogConfig, loop: EventLoop, notices: Notices
    ) -> None:
        """Begin with nothing seen.

        Args:
            turns: who holds shares of the GPU; asked and told on the loop's thread.
            containers: the folder of the containers' folders.
            config: what is let pass, and for how long.
            loop: the thread that owns the turns.
            notices: who wants to know; told on the loop's thread.
        """
        self._turns = turns
        self._containers = containers
        self._config = config
        self._rules = Rules(
            evicts=config.action == "Evict",
            grace_seconds=config.grace_seconds,
            kill_seconds=config.kill_seconds,
        )
        self._loop = loop
        self._notices = notices
        self._owners = Owners()
        self._cases: dict[str, _Case] = {}
        self._last: GPUReading | None = None
        self._reported: frozenset[int] = frozenset()

    @property
    def busy(self) -> bool:
        """Whether a container is being stopped, so that the next look should not wait for a new reading."""
        return any(case.watch.stage is not Stage.KEPT for case in self._cases.values())

    def look(self, reading: GPUReading | None, level: Level, now_seconds: float) -> None:
        """Look at the containers once.

        Args:
            reading: the GPU's last one; None while it does not answer.
            level: what is in force on it.
            now_seconds: CLOCK_MONOTONIC.

        Raises:
            TimeoutError: the loop does not answer.
        """
        fresh = reading is not None and reading is not self._last
        if not fresh and reading is not None and not self.busy:
            return
        self._last = reading
        claims = self._loop.ask(partial(claims_of, self._turns, self._containers))
        self._follow(claims)
        owned = None
        if fresh and reading is not None and not reading.processes_hidden:
            owned = self._owners.sort(reading.process_bytes, claims)
            self._report(owned.strangers)
            self._loop.post(partial(self._turns.saw_memory, reading.process_bytes))
        for case in self._cases.values():
            self._act(case, self._judge(case, owned, now_seconds))
            self._tell(case, self._verdict(case, level, reading))

    def _follow(self, claims: tuple[Claim, ...]) -> None:
        """Keep a case for each container: a key that went to another one begins anew."""
        before, self._cases = self._cases, {}
        for claim in claims:
            case = before.get(claim.record.key)
            if case is not None and is_same_container(case.claim.record, claim.record):
                case.claim = claim
                self._cases[claim.record.key] = before.pop(claim.record.key)
            else:
                self._cases[claim.record.key] = _Case(claim, Eviction(claim))
        for case in before.values():
            case.eviction.close()

    def _judge(self, case: _Case, owned: Owned | None, now_seconds: float) -> Deed:
        held = None if owned is None else owned.by_claim.get(case.claim.key, {})
        if held is not None:
            case.pids = frozenset(held)
            if case.watch.stage is Stage.KEPT and case.pids - case.stopped:
                case.evicted = ""  # others run in their place
        found = find(case.claim, held, self._config.tolerance_percent, case.breach)
        case.breach = found.breach
        sight = Sight(now_seconds, found.breach is not None if found.told else None, case.eviction.living())
        case.watch, deed = step(case.watch, sight, self._rules)
        return deed

    def _act(self, case: _Case, deed: Deed) -> None:
        if deed is Deed.WARN:
            _log.warning("%s: %s", case.claim.name, self._warning(case))
            case.evicted = case.epitaph = case.failure = ""
        elif deed is Deed.ANNOUNCE and case.breach is not None:
            case.evicted = case.breach.reason
            case.epitaph = (
                f"stopped by the node after {self._config.grace_seconds} s of grace: {case.breach.text}"
            )
        elif deed is Deed.TERMINATE:
            case.eviction = Eviction(case.claim)
            case.stopped = case.pids | case.claim.session_pids
            _log.warning("%s: SIGTERM to processes %s", case.claim.name, sorted(case.stopped))
            case.failure = "; ".join(case.eviction.terminate(case.stopped))
        elif deed is Deed.KILL:
            _log.warning("%s: SIGKILL to the processes that have not ended", case.claim.name)
            case.failure = "; ".join(case.eviction.kill())

    def _tell(self, case: _Case, verdict: Verdict) -> None:
        if verdict != case.told:
            case.told = verdict
            self._loop.post(partial(note_verdict, self._turns, case.claim, verdict, self._notices))

    def _verdict(self, case: _Case, level: Level, reading: GPUReading | None) -> Verdict:
        record = case.claim.record
        holds = Enforcement.NONE
        if reading is not None:
            identified = bool(record.pod_uid) or record.launcher is not None
            holds = level_of_container(level, identified, case.pids, reading)
        texts = [
            self._warning(case) if case.watch.stage is Stage.WARNED else "",
            shortfall(record.minimum_enforcement, level.enforcement, level.reason),
        ]
        epitaph = f"{case.epitaph}; that failed: {case.failure}" if case.failure else case.epitaph
        return Verdict(holds, "; ".join(text for text in texts if text), case.evicted, epitaph)

    def _warning(self, case: _Case) -> str:
        if case.breach is None:
            return ""
        outcome = (
            f"its processes are stopped if that lasts for {self._config.grace_seconds} s"
            if self._rules.evicts
            else "nothing more is done (watchdog.action: Warn)"
        )
        return f"{case.breach.text}; {outcome}"

    def _report(self, strangers: Mapping[int, int]) -> None:
        for pid in sorted(strangers.keys() - self._reported):
            _log.warning(
                "GPU %s: process %d (%s) uses %s of it and is of no container that holds a share",
                self._turns.gpu.uuid,
                pid,
                _name_of(pid),
                format_bytes(strangers[pid]),
            )
        self._reported = frozenset(strangers)


def claims_of(turns: GPUTurns, containers: Path) -> tuple[Claim, ...]:
    """Return who has a claim to a GPU. Called on the loop's thread."""
    return tuple(
        Claim(
            gpu=turns.gpu.uuid,
            record=hold.record,
            folder=containers / hold.key,
            quota_bytes=hold.quota_bytes,
            session_pids=frozenset(session.pid for session in hold.sessions),
            uncovered=hold.uncovered,
        )
        for hold in turns.holds.values()
    )


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "it has ended"
