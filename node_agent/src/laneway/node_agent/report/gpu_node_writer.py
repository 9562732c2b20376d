"""The interfaces to an API server and their errors. (The Kubernetes client is imported only if there is one.)"""

from __future__ import annotations

from typing import Any, Protocol


class WriteError(Exception):
    """The API server rejected a write; the text says why."""


class MissingError(WriteError):
    """The GPUNode does not exist yet."""


class ReadError(Exception):
    """The API server did not answer a read; the text says why."""


class GPUNodeWriter(Protocol):
    """Writes a GPUNode."""

    def apply_object(self) -> None:
        """Create the object if necessary.

        Raises:
            WriteError: it could not be written.
        """
        ...

    def apply_status(self, status: dict[str, Any]) -> None:
        """Replace the status.

        Raises:
            MissingError: the object does not exist.
            WriteError: it could not be written.
        """
        ...


class LeaseHolder(Protocol):
    """Holds the node's Lease."""

    def renew(self) -> None:
        """Renew the Lease; create it if necessary.

        Raises:
            WriteError: it could not be written.
        """
        ...


class NoAPIServerError(Exception):
    """No API server can be reached from here."""
