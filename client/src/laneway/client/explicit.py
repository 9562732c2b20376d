"""Iterations that a script marks itself, and its question whether it is to stop: what `laneway.client` offers."""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import TYPE_CHECKING, TypeVar

from laneway.client.process_kind import is_multiprocessing_child
from laneway.client.runtime import client, is_our_fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import ContextManager

Item = TypeVar("Item")


class _Block(ContextDecorator):
    """What `iteration` returns. It holds nothing, so one does for all; a generator would take as long as all else at a boundary."""

    def __enter__(self) -> None:
        owner = client()
        gate = owner.gate
        try:
            if not owner.started and not is_multiprocessing_child():
                owner.open_session()
            if not gate.explicit:
                gate.begin()
        except Exception as raised:
            _pass_on(raised)
        gate.explicit += 1

    def __exit__(self, *raised: object) -> None:
        owner = client()
        gate = owner.gate
        # A child that was forked inside the block has a gate of its own, where none is open.
        if not gate.explicit:
            return
        gate.explicit -= 1
        if gate.explicit:
            return
        try:
            gate.end()
        except Exception as fault:
            _pass_on(fault)
        owner.after_block()


def _pass_on(raised: Exception) -> None:
    """Raises what is meant for the script; after a fault of our own, the script goes on as if nothing were there."""
    if not is_our_fault(raised):
        raise raised
    client().give_up(raised)


_block = _Block()


def iteration() -> ContextManager[None]:
    """One training iteration: begins once this process has its turn on the GPU, and ends with the block.

    Inside the block nothing else is a boundary, an optimizer's step included. Blocks may be nested; the outermost counts.
    """
    return _block


def iterations(batches: Iterable[Item]) -> Iterator[Item]:
    """The items, each as one iteration that lasts until the next is asked for. Waiting for an item is outside of it."""
    for batch in batches:
        with iteration():
            yield batch


def expect_iterations(count: int) -> None:
    """Says that the script will do so many more iterations; may be said again when that changes.

    The node uses it where its turns go by remaining time (SRTF); without it a job comes after those of which it is known. It travels
    with the measured memory, so in a process without PyTorch, whose memory nobody measures, it changes nothing: there
    `report(step=..., steps=...)` says what is left to users and to the cluster's policies, and the node's turns go by nothing of it.

    Raises:
        ValueError: the count is negative.
    """
    if count < 0:
        raise ValueError(f"expect_iterations({count}): write how many iterations are left, 0 or more")
    gate = client().gate
    gate.profiler.expect(count, gate.iterations)


def stopping() -> bool:
    """Whether the process was asked to end (SIGTERM): save a checkpoint and leave the training loop.

    From the first call on, SIGTERM alone no longer ends a script that has no handler of its own for it.
    """
    return client().stop.watch()
