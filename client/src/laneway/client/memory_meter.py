"""How much device memory this process holds: the interface, and the meter of those who hold none that we know of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Protocol

if TYPE_CHECKING:
    from laneway.client.session import Session


class MemoryMeter(Protocol):
    """Measures one device; `begin` and `end` frame each iteration and are called in the thread that runs it."""

    def attach(self, session: Session) -> None:
        """A session is open: holds the process to its quota from now on. Called in the listening thread."""

    def begin(self) -> None:
        """An iteration begins."""

    def take_in(self, inputs: tuple[Any, ...]) -> None:
        """Its first forward begins, before any operation of it. Called where the framework tells of it.

        Args:
            inputs: what it is given by position.
        """

    def end(self) -> Optional[tuple[int, int]]:
        """An iteration has ended: (bytes held now, highest bytes held since `begin`), or None where it was not measured."""

    def moved(self, storages: list[Any]) -> Optional[int]:
        """Storages have changed their size, between iterations: the bytes held now, or None where that is not known."""

    def settle(self) -> None:
        """Others get the lane next: waits for the device's work and gives unused memory back. Called in any thread."""


class NoMeter:
    """For frameworks of which nothing is known."""

    def attach(self, session: Session) -> None:
        """Nothing to hold to it."""

    def begin(self) -> None:
        """Nothing to measure."""

    def take_in(self, inputs: tuple[Any, ...]) -> None:
        """Nothing to see in it."""

    def end(self) -> Optional[tuple[int, int]]:
        """Nothing was measured."""
        return None

    def moved(self, storages: list[Any]) -> Optional[int]:
        """Nothing is known."""
        return None

    def settle(self) -> None:
        """Nothing to give back."""
