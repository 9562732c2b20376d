"""What the agent asks of an API server, and how that may fail. (The Kubernetes client is loaded only where there is one.)"""

from __future__ import annotations

from typing import Any, Protocol


class WriteError(Exception):
    """The API server did not take a write; the text says why."""


class MissingError(WriteError):
    """There is no GPUNode of that name yet."""


class ReadError(Exception):
    """The API server did not answer a question; the text says why."""


class GPUNodeWriter(Protocol):
    """Where a GPUNode is written to."""

    def apply_object(self) -> None:
        """Make sure that the object is there.

        Raises:
            WriteError: it could not be written.
        """
        ...

    def apply_status(self, status: dict[str, Any]) -> None:
        """Replace the status.

        Raises:
            MissingError: the object is not there.
            WriteError: it could not be written.
        """
        ...


class NoAPIServerError(Exception):
    """There is no way to reach an API server from here."""
