"""The state file, ``/var/lib/laneway/agent/state.json``.

Turns are not in it: they change too often. Who holds one, the processes themselves say when they come back.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Literal

from laneway.api.records import Record, explain
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.hold import Hold
from laneway.node_agent.turns.session import Sizes
from pydantic import Field, ValidationError

STATE_NAME = "state.json"


class SizesState(Record):
    """:class:`Sizes` in a file."""

    persistent_bytes: int
    ephemeral_bytes: int
    framework_bytes: int
    iteration_seconds: float
    iterations: int
    largest_tensor_bytes: int
    model_bytes: int
    iteration_seconds_spread: float = 0.0
    remaining_seconds: float | None = None
    data_seconds: float = 0.0


class ProcessState(Record):
    """A process that was connected, or whose memory counted."""

    pid: int
    start_ticks: int
    """When it started, so that it is not taken for a later process of that number."""

    iterations: int
    busy_ns: int
    data_ns: int = 0
    held_bytes: int
    offloaded_bytes: int | None = None
    """What it has moved to the host; None: its memory is where it belongs."""
    sizes: SizesState | None = None
    framework_seen_bytes: int = 0
    framework_reserve_bytes: int = 0


class HoldState(Record):
    """A container on one GPU."""

    key: str
    namespace: str
    pod: str
    container: str
    pod_uid: str
    turns: int
    iterations: int
    busy_ns: int
    data_ns: int = 0
    counted: SizesState | None
    last_sizes: SizesState | None
    processes: tuple[ProcessState, ...]
    admitted: bool = True
    """It has a lane or had one, so its processes may have memory on the GPU."""

    parked: bool = False
    """Kept out of the lanes by order."""

    offloaded: bool = False
    """It has left the lane table, because its memory is on the host."""


class LaneState(Record):
    """A lane, with the keys of its tenants."""

    id: int
    tenants: tuple[str, ...]


class GPUState(Record):
    """One GPU."""

    uuid: str
    lanes: tuple[LaneState, ...]
    waiting: tuple[str, ...]
    holds: tuple[HoldState, ...]


class AgentState(Record):
    """The whole file."""

    version: Literal[1] = 1
    boot_id: str = Field(description="Of the kernel: process ids of another boot mean nothing.")
    gpus: tuple[GPUState, ...]


class StateError(Exception):
    """The state file cannot be used; the text says why."""


def read_state(path: Path) -> AgentState | None:
    """Return what was remembered; None if there is nothing.

    Raises:
        StateError: the file cannot be read, or is not a state of this version.
    """
    try:
        return AgentState.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise StateError(explain(error, str(path))) from error


def gpu_state(turns: GPUTurns) -> GPUState:
    """Return what is to be remembered of a GPU."""
    return GPUState(
        uuid=turns.gpu.uuid,
        lanes=tuple(LaneState(id=lane.id, tenants=lane.tenants) for lane in turns.memory.lanes),
        waiting=tuple(waiting.tenant.key for waiting in turns.memory.table.waiting),
        holds=tuple(
            _hold_state(hold, admitted=turns.memory.is_admitted(hold), parked=turns.memory.is_parked(hold))
            for hold in turns.holds.values()
            if hold.welcomed
        ),
    )


def _hold_state(hold: Hold, *, admitted: bool, parked: bool) -> HoldState:
    record = hold.record
    return HoldState(
        key=record.key,
        namespace=record.namespace,
        pod=record.pod,
        container=record.container,
        pod_uid=record.pod_uid,
        turns=hold.counters.turns,
        iterations=hold.counters.iterations,
        busy_ns=hold.counters.busy_ns,
        data_ns=hold.counters.data_ns,
        counted=_sizes_state(hold.counted),
        last_sizes=_sizes_state(hold.last_sizes),
        processes=tuple(
            ProcessState(
                pid=session.pid,
                start_ticks=session.start_ticks,
                iterations=session.page.iterations,
                busy_ns=session.page.busy_ns,
                data_ns=session.page.data_ns,
                held_bytes=session.page.held_bytes,
                sizes=_sizes_state(session.sizes),
                framework_seen_bytes=session.framework_seen_bytes,
                framework_reserve_bytes=session.framework_reserve_bytes,
                offloaded_bytes=session.standing.offloaded_bytes if session.standing.offloaded else None,
            )
            for session in hold.sessions
        ),
        admitted=admitted,
        parked=parked,
        offloaded=hold.offloaded,
    )


def _sizes_state(sizes: Sizes | None) -> SizesState | None:
    if sizes is None:
        return None
    return SizesState(**asdict(sizes))


def sizes_of(state: SizesState | None) -> Sizes | None:
    """Return remembered sizes."""
    return None if state is None else Sizes(**state.model_dump())
