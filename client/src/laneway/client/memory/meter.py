"""The interface of memory meters, and the meter for frameworks whose memory is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Protocol

if TYPE_CHECKING:
    from laneway.client.session.session import Session


class MemoryMeter(Protocol):
    """Measures one device. The thread that runs an iteration calls `begin` and `end` around it."""

    def attach(self, session: Session) -> None:
        """Enforces the session's quota from now on. Called in the listening thread."""

    def begin(self) -> None:
        """Begins an iteration."""

    def observe_inputs(self, inputs: tuple[Any, ...]) -> None:
        """Receives the inputs of the iteration's first forward, before any operation. Called where the
        framework reports them.

        Args:
            inputs: the positional arguments.
        """

    def end(self) -> Optional[tuple[int, int]]:
        """Ends an iteration; returns (bytes held now, most held since `begin`), or None where it was not
        measured."""

    def after_move(self, storages: list[Any]) -> Optional[int]:
        """Accounts for storages resized between iterations; returns the bytes held now, or None where
        unknown."""

    def prepare_release(self) -> None:
        """Waits for the device's work before another job gets the lane. Called in any thread."""

    def free_memory(self) -> None:
        """Frees unused memory before another job of the lane uses it. Called in any thread."""


class NoMeter:
    """The meter for frameworks whose memory is unknown."""

    def attach(self, session: Session) -> None:
        """Does nothing."""

    def begin(self) -> None:
        """Does nothing."""

    def observe_inputs(self, inputs: tuple[Any, ...]) -> None:
        """Does nothing."""

    def end(self) -> Optional[tuple[int, int]]:
        """Returns None: nothing was measured."""
        return None

    def after_move(self, storages: list[Any]) -> Optional[int]:
        """Returns None: nothing is known."""
        return None

    def prepare_release(self) -> None:
        """Does nothing."""

    def free_memory(self) -> None:
        """Does nothing."""
