"""The state file, ``/var/lib/laneway/agent/state.json``.

It does not contain turns, which change too often. A process that holds a turn says so when it reconnects.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Literal

from laneway.api.records import Record, explain
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.lease import Lease
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
    """When the process started, to tell it from a later process with the same pid."""

    iterations: int
    busy_ns: int
    data_ns: int = 0
    held_bytes: int
    offloaded_bytes: int | None = None
    """The bytes moved to the host; None if its memory is on the GPU."""
    sizes: SizesState | None = None
    framework_seen_bytes: int = 0
    framework_reserve_bytes: int = 0


class LeaseState(Record):
    """A container's lease of one GPU."""

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
    """It has or had a lane, so its processes may have memory on the GPU."""

    paused: bool = False
    """An order keeps it out of the lanes."""

    offloaded: bool = False
    """It has left the lane table, because its memory is on the host."""

    welcomed: bool = True
    """A process of it has connected."""

    resident_bytes: int = 0
    """Its memory at the last look between turns."""

    occupied_bytes: int = 0
    """The most that was seen of its memory lately."""


class AccountProcessState(Record):
    """A process with a memory account."""

    pid: int
    start_ticks: int
    """When the process started, to tell it from a later process with the same pid."""

    reserved_bytes: int


class AccountState(Record):
    """A container's memory account on one GPU."""

    key: str
    namespace: str
    pod: str
    container: str
    pod_uid: str
    processes: tuple[AccountProcessState, ...]


class LaneState(Record):
    """A lane, with the keys of its tenants."""

    id: int
    tenants: tuple[str, ...]


class GPUState(Record):
    """One GPU."""

    uuid: str
    lanes: tuple[LaneState, ...]
    waiting: tuple[str, ...]
    leases: tuple[LeaseState, ...]
    accounts: tuple[AccountState, ...] = ()


class AgentState(Record):
    """The whole file."""

    version: Literal[1] = 1
    boot_id: str = Field(description="The kernel's boot id: process ids are valid within one boot only.")
    gpus: tuple[GPUState, ...]


class StateError(Exception):
    """The state file cannot be used; the text says why."""


def read_state(path: Path) -> AgentState | None:
    """Read the saved state; None if there is none.

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
    """Return the state of a GPU to be saved."""
    return GPUState(
        uuid=turns.gpu.uuid,
        lanes=tuple(LaneState(id=lane.id, tenants=lane.tenants) for lane in turns.memory.lanes),
        waiting=tuple(waiting.tenant.key for waiting in turns.memory.table.waiting),
        leases=tuple(
            _lease_state(
                lease, admitted=turns.memory.is_admitted(lease), paused=turns.memory.is_paused(lease)
            )
            for lease in turns.leases.values()
        ),
        accounts=tuple(_account_state(lease) for lease in turns.leases.values() if lease.account.processes),
    )


def _account_state(lease: Lease) -> AccountState:
    record = lease.record
    return AccountState(
        key=record.key,
        namespace=record.namespace,
        pod=record.pod,
        container=record.container,
        pod_uid=record.pod_uid,
        processes=tuple(
            AccountProcessState(
                pid=pid,
                start_ticks=lease.account.start_ticks_of(pid),
                reserved_bytes=lease.account.reserved_by(pid),
            )
            for pid in sorted(lease.account.processes)
        ),
    )


def _lease_state(lease: Lease, *, admitted: bool, paused: bool) -> LeaseState:
    record = lease.record
    return LeaseState(
        key=record.key,
        namespace=record.namespace,
        pod=record.pod,
        container=record.container,
        pod_uid=record.pod_uid,
        turns=lease.counters.turns,
        iterations=lease.counters.iterations,
        busy_ns=lease.counters.busy_ns,
        data_ns=lease.counters.data_ns,
        counted=_sizes_state(lease.counted),
        last_sizes=_sizes_state(lease.last_sizes),
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
                offloaded_bytes=session.order_state.offloaded_bytes
                if session.order_state.offloaded
                else None,
            )
            for session in lease.sessions
        ),
        admitted=admitted,
        paused=paused,
        offloaded=lease.offloaded,
        welcomed=lease.welcomed,
        resident_bytes=lease.seen.resident_bytes,
        occupied_bytes=lease.seen.occupied_bytes,
    )


def _sizes_state(sizes: Sizes | None) -> SizesState | None:
    if sizes is None:
        return None
    return SizesState(**asdict(sizes))


def sizes_of(state: SizesState | None) -> Sizes | None:
    """Convert saved sizes."""
    return None if state is None else Sizes(**state.model_dump())
