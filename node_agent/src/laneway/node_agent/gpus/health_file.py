"""The quarantines, ``/var/lib/laneway/agent/health.json``: an agent that was killed must not take a broken GPU for a good one.

Beside it lies the folder ``clear``: a file there named like a GPU is an operator's word that the GPU may be used again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from laneway.api.records import Record, explain
from laneway.node_agent.atomic_file import write_atomically
from laneway.node_agent.gpus.quarantine import Cure, GPUState, Quarantine
from pydantic import ValidationError

HEALTH_NAME = "health.json"
_CLEAR_NAME = "clear"
_CureName = Literal["looks", "time", "reset"]
_CURES: Final[Mapping[Cure, _CureName]] = {Cure.LOOKS: "looks", Cure.TIME: "time", Cure.RESET: "reset"}


class QuarantineRecord(Record):
    """:class:`Quarantine` in a file."""

    causes: dict[str, str]
    since_seconds: float
    cure: _CureName
    reset_asked_for: bool


class GPURecord(Record):
    """What is remembered of one GPU."""

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
    """The file and the folder of one agent. Whoever asks is the agent, or an operator at the node's shell."""

    def __init__(self, agent_state: Path) -> None:
        self.path = agent_state / HEALTH_NAME
        self._clear = agent_state / _CLEAR_NAME

    def read(self) -> HealthRecord | None:
        """Return what was written last; None if there is nothing.

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

    def ask_to_clear(self, uuid: str) -> None:
        """Leave word that a GPU may be used again; the agent finds it at its next look.

        Raises:
            OSError: the folder cannot be written to.
        """
        self._clear.mkdir(mode=0o700, exist_ok=True)
        (self._clear / uuid).touch(mode=0o600)

    def asked_to_clear(self, uuid: str) -> bool:
        """Whether there is such a word; see :meth:`cleared`."""
        return (self._clear / uuid).exists()

    def cleared(self, uuid: str) -> None:
        """The word was heeded, and what follows from it is on the disk.

        Raises:
            OSError: the folder cannot be written to.
        """
        (self._clear / uuid).unlink(missing_ok=True)


def state_of(record: GPURecord) -> GPUState:
    """Return what was remembered; looks are counted anew."""
    kept = record.quarantine
    if kept is None:
        return GPUState(uncorrected=record.uncorrected)
    cure = Cure[kept.cure.upper()]
    quarantine = Quarantine(kept.causes, kept.since_seconds, cure, kept.reset_asked_for)
    return GPUState(quarantine, record.uncorrected)


def _record_of(state: GPUState) -> GPURecord:
    kept = state.quarantine
    if kept is None:
        return GPURecord(uncorrected=state.uncorrected)
    return GPURecord(
        quarantine=QuarantineRecord(
            causes=dict(kept.causes),
            since_seconds=kept.since_seconds,
            cure=_CURES[kept.cure],
            reset_asked_for=kept.reset_asked_for,
        ),
        uncorrected=state.uncorrected,
    )
