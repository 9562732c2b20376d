"""Saves quarantines in ``/var/lib/laneway/agent/health.json``, so that a killed agent still knows its
broken GPUs.

The folder ``clear`` beside it holds operators' requests: a file named like a GPU declares it healthy again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from laneway.api.records import Record, explain
from laneway.node_agent.atomic_file import write_atomically
from laneway.node_agent.gpus.quarantine import ExitCondition, GPUState, Quarantine
from pydantic import ValidationError

HEALTH_NAME = "health.json"
_CLEAR_NAME = "clear"
_ExitConditionName = Literal["looks", "time", "reset"]
_EXIT_CONDITIONS: Final[Mapping[ExitCondition, _ExitConditionName]] = {
    ExitCondition.CHECKS: "looks",
    ExitCondition.TIME: "time",
    ExitCondition.RESET: "reset",
}
_BY_NAME: Final = {name: condition for condition, name in _EXIT_CONDITIONS.items()}


class QuarantineRecord(Record):
    """:class:`Quarantine` in a file."""

    causes: dict[str, str]
    since_seconds: float
    exit_condition: _ExitConditionName
    reset_requested: bool


class GPURecord(Record):
    """The saved state of one GPU."""

    quarantine: QuarantineRecord | None = None
    uncorrected: int | None = None


class HealthRecord(Record):
    """The whole file."""

    version: Literal[1] = 1
    boot_id: str
    gpus: dict[str, GPURecord]


class HealthFileError(Exception):
    """The file cannot be used; the text says why."""


class HealthFile:
    """The file and folder of one agent, used by the agent and by commands at the node's shell."""

    def __init__(self, agent_state: Path) -> None:
        self.path = agent_state / HEALTH_NAME
        self._clear = agent_state / _CLEAR_NAME

    def read(self) -> HealthRecord | None:
        """Read the file; None if there is none.

        Raises:
            HealthFileError: it cannot be read, or is not a record of this version.
        """
        try:
            return HealthRecord.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HealthFileError(f"{self.path}: cannot be read: {error.strerror}") from error
        except ValidationError as error:
            raise HealthFileError(explain(error, str(self.path))) from error

    def write(self, boot_id: str, states: Mapping[str, GPUState]) -> None:
        """Replace the file.

        Raises:
            OSError: the folder cannot be written to.
        """
        gpus = {uuid: _record_of(state) for uuid, state in states.items()}
        write_atomically(self.path, HealthRecord(boot_id=boot_id, gpus=gpus).model_dump_json(), mode=0o600)

    def request_clear(self, uuid: str) -> None:
        """Request that a GPU be declared healthy; the agent finds the request at its next check.

        Raises:
            OSError: the folder cannot be written to.
        """
        self._clear.mkdir(mode=0o700, exist_ok=True)
        (self._clear / uuid).touch(mode=0o600)

    def clear_requested(self, uuid: str) -> bool:
        """Return whether there is such a request; see :meth:`cleared`."""
        return (self._clear / uuid).exists()

    def cleared(self, uuid: str) -> None:
        """Remove a request whose effect has been saved.

        Raises:
            OSError: the folder cannot be written to.
        """
        (self._clear / uuid).unlink(missing_ok=True)


def state_of(record: GPURecord) -> GPUState:
    """Restore a saved state; checks are counted from zero."""
    saved = record.quarantine
    if saved is None:
        return GPUState(uncorrected=record.uncorrected)
    exit_condition = _BY_NAME[saved.exit_condition]
    quarantine = Quarantine(saved.causes, saved.since_seconds, exit_condition, saved.reset_requested)
    return GPUState(quarantine, record.uncorrected)


def _record_of(state: GPUState) -> GPURecord:
    saved = state.quarantine
    if saved is None:
        return GPURecord(uncorrected=state.uncorrected)
    return GPURecord(
        quarantine=QuarantineRecord(
            causes=dict(saved.causes),
            since_seconds=saved.since_seconds,
            exit_condition=_EXIT_CONDITIONS[saved.exit_condition],
            reset_requested=saved.reset_requested,
        ),
        uncorrected=state.uncorrected,
    )
