"""The functions that `laneway.client` offers to scripts: marking iterations, reporting progress, and asking
whether to stop."""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any, TypeVar

from laneway.client.process_kind import is_multiprocessing_child
from laneway.client.runtime import client, is_internal_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import ContextManager

Item = TypeVar("Item")


class _Block(ContextDecorator):
    """The context manager of `iteration`. It is stateless, so one instance serves all blocks; a generator
    would double a boundary's cost."""

    def __enter__(self) -> None:
        owner = client()
        guard = owner.guard
        try:
            if not owner.started and not is_multiprocessing_child():
                owner.open_session()
            if not guard.open_blocks:
                guard.begin()
        except Exception as raised:
            _pass_on(raised)
        guard.open_blocks += 1

    def __exit__(self, *raised: object) -> None:
        owner = client()
        guard = owner.guard
        # In a child that was forked inside the block, the guard is new and has no open block.
        if not guard.open_blocks:
            return
        guard.open_blocks -= 1
        if guard.open_blocks:
            return
        try:
            guard.end()
        except Exception as fault:
            _pass_on(fault)
        owner.after_block()


def _pass_on(raised: Exception) -> None:
    """Raises an exception that is meant for the script. After an internal error, disables the client instead."""
    if not is_internal_error(raised):
        raise raised
    client().disable(raised)


_block = _Block()


def iteration() -> ContextManager[None]:
    """Marks one training iteration, which begins once this process has its turn on the GPU and ends with the
    block.

    Inside the block nothing else is a boundary, not even an optimizer's step. In nested blocks, the outermost
    one counts.
    """
    return _block


def iterations(batches: Iterable[Item]) -> Iterator[Item]:
    """Yields the items, each as one iteration that lasts until the next item is requested. Fetching an item
    is not part of it."""
    for batch in batches:
        with iteration():
            yield batch


def expect_iterations(count: int) -> None:
    """Announces how many more iterations the script will run. May be called again when that changes.

    The node uses the number where turns are ordered by remaining time (SRTF); jobs that announce nothing come
    after those that do. It is sent with the measured memory, so it has no effect in a process without
    PyTorch, whose memory is not measured. There, `report(step=..., steps=...)` informs users and the
    cluster's policies, but not the node's order of turns.

    Raises:
        ValueError: the count is negative.
    """
    if count < 0:
        raise ValueError(f"expect_iterations({count}): the number of remaining iterations must be 0 or more")
    guard = client().guard
    guard.profiler.expect(count, guard.iterations)


def stopping() -> bool:
    """Returns whether the process was asked to end (SIGTERM). Then save a checkpoint and leave the training
    loop.

    After the first call, SIGTERM alone no longer ends a script that has no handler for it.
    """
    return client().stop.poll()


def report(loss: Any = None, step: Any = None, steps: Any = None, epoch: Any = None) -> None:
    """Reports the training's progress, which appears in the TrainingJob's `status.progress` and in metrics.

    It may be called at any rate and from any thread: at most one packet a second is sent, and the last report
    always is. Omitted values keep their last report. Each value may be a number, or a tensor or array of one
    element; one on a device is read when it is sent, not at each call. Invalid values are dropped with one
    warning, and never raise. Without an agent nothing happens.

    Args:
        loss: any number, including NaN and infinity.
        step: the number of steps done, counted over all restarts of the job.
        steps: the total number of steps. It makes the remaining time known to users and to policies.
        epoch: the current epoch.
    """
    guard = client().guard
    guard.progress.update(
        {"loss": loss, "step": step, "steps": steps, "epoch": epoch}, guard.iterations, guard.session
    )
