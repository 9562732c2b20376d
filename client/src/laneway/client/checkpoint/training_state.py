"""`Checkpoint`: what a script says of its training, and the loops that save it at the right moments.

    state = Checkpoint("/checkpoints/job", model=model, optimizer=optimizer, scheduler=scheduler)
    for epoch in state.epochs(10):
        for batch in state.batches(loader):
            ...

A boundary is the end of a batch's (or step's) body, and the end of an epoch's. There the training is saved when it is time, and on SIGTERM
saved and left, with status 143. What a resumed run does from there on is what an undisturbed one does, bit for bit on a CPU.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Optional, TypeVar

from laneway.client.board import torch_board
from laneway.client.checkpoint.errors import CheckpointError
from laneway.client.checkpoint.loader import generators, has_iterator, length_of, set_epoch, start_pass
from laneway.client.checkpoint.parts import capture, flatten, misfit, refuse_unloadable, restore
from laneway.client.checkpoint.position import Position
from laneway.client.checkpoint.random_state import capture_random_state, restore_random_state
from laneway.client.checkpoint.store import Store
from laneway.client.common_boundary import SAVE, STOP, CommonBoundary
from laneway.client.runtime import client
from laneway.client.stop_signal import EXIT_STATUS

if TYPE_CHECKING:
    from laneway.client.checkpoint.store import Found

log = logging.getLogger("laneway.client")

Item = TypeVar("Item")
SAVE_SECONDS: Final = 600.0


class Checkpoint:
    """One training, and its checkpoints in one folder. All of its methods are for the thread that trains."""

    _made = 0

    def __init__(
        self,
        folder: str,
        *,
        keep: int = 2,
        every_seconds: Optional[float] = SAVE_SECONDS,
        every_steps: Optional[int] = None,
        exit_when_stopped: bool = True,
        on_save: Optional[Callable[[int], object]] = None,
        sampler: Any = None,
        own: Optional[Mapping[str, Any]] = None,
        **parts: Any,
    ) -> None:
        """Touches nothing yet: `resume` does.

        Args:
            folder: where the checkpoints are; of this job alone, and one that all its ranks share.
            keep: how many to keep, at least 1.
            every_seconds: saves at the first boundary after so long; None not to.
            every_steps: saves after each so many steps; None not to.
            exit_when_stopped: SIGTERM ends the process with status 143 once it is saved; False ends the loops, and sets `stopped`.
            on_save: called with the step, after each save.
            sampler: something with `set_epoch` that the loader does not know of.
            own: parts that each rank has by itself (random generators, streams of data), where `parts` are the same on all ranks.
            parts: models, optimizers, schedulers, a GradScaler: anything with `state_dict` and `load_state_dict`, lists and dicts of
                such, None to leave one out.

        Raises:
            ValueError: a number makes no sense.
            CheckpointError: something is no part.
        """
        for name, number in (("keep", keep), ("every_steps", every_steps)):
            if number is not None and number < 1:
                raise ValueError(f"Checkpoint({name}={number}): write 1 or more")
        self.values: dict[str, Any] = {}
        """The script's own: numbers, strings, tensors, lists and dicts. Each rank gets its own back."""
        self.stopped = False
        """The loops have ended early, because of a SIGTERM to this rank or to another."""
        self._folder = str(folder)
        self._keep = keep
        self._every_seconds = every_seconds
        self._every_steps = every_steps
        self._exit_when_stopped = exit_when_stopped
        self._on_save = on_save
        self._sampler = sampler
        self._parts = flatten(parts)
        self._own = flatten(own or {})
        self._name = f"checkpoint/{Checkpoint._made}"
        Checkpoint._made += 1
        self._torch: Any = importlib.import_module("torch")
        self._position = Position()
        self._sources: dict[str, Any] = {}
        """The generators of the loader that is being passed over."""
        self._found: Optional[Found] = None
        """What the pass that goes on was resumed from, until it is back there."""
        self._store: Optional[Store] = None
        self._common: Optional[CommonBoundary] = None
        self._resumed = False
        self._saved_mark = self._mark()
        """Step, epoch and boundary of the last save; what was never trained needs none."""
        self._saved_seconds = time.monotonic()
        self._wants_save = False
        self._epochs: Optional[int] = None
        self._steps: Optional[int] = None
        """How many there are in all, where that is known."""
        self._passed = False

    @property
    def step(self) -> int:
        """How many steps were trained, over all lives of the job."""
        return self._position.step

    @property
    def epoch(self) -> int:
        """The epoch that goes on, from 0."""
        return self._position.epoch

    @property
    def batch(self) -> int:
        """How many batches of this epoch were trained."""
        return self._position.batch

    # --- for the script ---

    def resume(self) -> bool:
        """Puts everything where the newest usable checkpoint says; the loops do it where the script does not.

        With several ranks: after `init_process_group`, and by all of them.

        Returns:
            Whether there was one.

        Raises:
            CheckpointError: there are checkpoints and none can be used, or what is to be saved could not be loaded again.
        """
        if self._store is not None:
            return self._resumed
        board = torch_board()
        stop = client().stop
        stop.watch()
        self._store = Store(self._torch, self._folder, self._keep, board, self._name)
        capture(self._parts)
        found = self._store.find(lambda shared: misfit(self._parts, shared))
        if found is not None:
            self._restore(found)
        if board is not None:
            self._common = CommonBoundary(
                board, self._name, lambda: stop.requested, self._seconds_left, self._position.boundary + 1
            )
        self._saved_seconds = time.monotonic()
        return self._resumed

    def epochs(self, total: int) -> Iterator[int]:
        """The epochs up to `total` that are still to do, from 0; one that was left in the middle is done to its end."""
        self.resume()
        position = self._position
        self._epochs = total
        while position.epoch < total:
            if position.batch and position.epoch_random:
                restore_random_state(self._torch, position.epoch_random)
            else:
                position.epoch_random = capture_random_state(self._torch)
            self._passed = False
            if self._sampler is not None:
                self._sampler.set_epoch(position.epoch)
            yield position.epoch
            if self.stopped:
                return
            position.epoch += 1
            position.batch = 0
            if position.epoch < total:
                self._boundary()
                if self.stopped:
                    return
        self._end()

    def batches(self, loader: Iterable[Item], *, accumulate: int = 1, replay: bool = False) -> Iterator[Item]:
        """This epoch's batches that are still to do, each as a step. One pass an epoch; evaluate on a loader of its own.

        Args:
            loader: a DataLoader: its sampler skips what was seen. Anything else is iterated from its start, and what was seen dropped.
            accumulate: batches to one step of the optimizer: there are no boundaries between them.
            replay: loads what was seen, and drops it: for random augmentations in the loader's worker processes.
        """
        self.resume()
        if self._passed:
            raise CheckpointError(
                "state.batches() was called twice in an epoch: iterate over the other loader itself, as in evaluation"
            )
        position, length = self._position, length_of(loader)
        self._passed = self._epochs is not None
        if self._epochs is not None and length is not None:
            self._steps = position.step - position.batch + length * (self._epochs - position.epoch)
        try:
            yield from self._pass(self._start_pass(loader, replay), accumulate)
        finally:
            if self._epochs is None:
                self._position.epoch += 1
                self._position.batch = 0

    def _pass(self, batches: Iterator[Item], accumulate: int) -> Iterator[Item]:
        position, at_boundary = self._position, True
        for item in batches:
            try:
                yield item
            finally:
                position.batch += 1
                self._count()
            at_boundary = position.batch % accumulate == 0
            if at_boundary:
                self._boundary()
                if self.stopped:
                    return
        if not at_boundary:
            self._boundary()

    def steps(self, total: int) -> Iterator[int]:
        """The steps up to `total` that are still to do, from 0: for a training without epochs."""
        self.resume()
        self._steps = total
        while self._position.step < total:
            yield self._position.step
            self._count()
            if self._position.step < total:
                self._boundary()
                if self.stopped:
                    return
        self._end()

    def boundary(self) -> bool:
        """The end of a step in a loop of the script's own; returns whether to leave it (where `exit_when_stopped` is False)."""
        self.resume()
        self._count()
        self._boundary()
        return self.stopped

    def save(self) -> None:
        """Saves now. With several ranks, all have to, at the same step.

        Raises:
            OSError: it could not be written; the checkpoints before are as they were.
            CheckpointError: something cannot be saved.
        """
        self.resume()
        if self._store is None:
            return
        refuse_unloadable({"values": self.values})
        own = {
            "position": self._position.saved(),
            **self._random_state(),
            "parts": capture(self._own),
            "values": self.values,
        }
        shared = capture(self._parts) if self._store.rank == 0 else None
        self._store.save(self._position.boundary, shared, own)
        self._saved_mark = self._mark()
        self._saved_seconds = time.monotonic()
        self._wants_save = False
        if self._on_save is not None:
            self._on_save(self.step)

    # --- at a boundary ---

    def _count(self) -> None:
        self._position.step += 1
        gate = client().gate
        gate.progress.count(self._position.step, self._steps, gate.iterations, gate.session)

    def _boundary(self) -> None:
        position = self._position
        position.boundary += 1
        stop = client().stop.watch()
        if (
            self._every_steps
            and position.step % self._every_steps == 0
            and position.step != self._saved_mark[0]
        ):
            self._save_once()
        if self._common is None:
            if stop or self._is_due():
                self._save_once()
            if stop:
                self._stop()
            return
        if self._is_due() and self._is_first and not self._wants_save:
            self._wants_save = True
            self._common.want(SAVE)
        kind = self._common.arrive(position.boundary)
        while kind is not None:
            self._save_once()
            if kind == STOP:
                self._stop()
                return
            kind = self._common.arrive(position.boundary)

    def _end(self) -> None:
        """The training is complete: saves that, too, so that a restart repeats nothing."""
        if self._mark() != self._saved_mark:
            self._position.boundary += 1
            self._save_once()
        if self._common is not None:
            self._common.finish()
        client().stop.watched = False

    def _stop(self) -> None:
        self.stopped = True
        log.info("stopped after step %d", self.step)
        if self._exit_when_stopped:
            raise SystemExit(EXIT_STATUS)

    def _save_once(self) -> None:
        """Saves, unless this boundary is saved already. A disk that is full does not end the training."""
        if self._mark() == self._saved_mark:
            return
        try:
            self.save()
        except OSError as error:
            log.error("step %d could not be saved in %s: %s", self.step, self._folder, error)
            self._saved_seconds = time.monotonic()
            self._wants_save = False

    def _is_due(self) -> bool:
        return (
            self._every_seconds is not None and time.monotonic() - self._saved_seconds >= self._every_seconds
        )

    @property
    def _is_first(self) -> bool:
        return self._store is not None and self._store.rank == 0

    def _mark(self) -> tuple[int, int, int]:
        return self._position.step, self._position.epoch, self._position.boundary

    def _seconds_left(self) -> Optional[float]:
        stop = client().stop
        return stop.seconds_left() if stop.timeout_seconds > 0 else None

    # --- after a resume ---

    def _restore(self, found: Found) -> None:
        restore(self._parts, found.shared)
        position = Position.restored(found.own["position"])
        self.values.update(found.own["values"])
        if found.same_ranks:
            restore(self._own, found.own["parts"])
            restore_random_state(self._torch, found.own["random"])
        elif self._store is not None:
            position = position.for_other_ranks(found.generation.world_size, self._store.world_size)
            log.warning(
                "the checkpoint is of %d ranks, this job has %d: it goes on from step %d with other random numbers",
                found.generation.world_size,
                self._store.world_size,
                position.step,
            )
        self._position = position
        self._found = found
        self._resumed = True
        self._saved_mark = self._mark()

    def _start_pass(self, loader: Any, replay: bool) -> Iterator[Any]:
        """Iterates, from behind what was trained before; what random numbers that takes are those that it took at first."""
        position, found, skip = self._position, self._found, 0
        self._found = None
        set_epoch(loader, position.epoch)
        self._sources = flatten(generators(loader))
        now = found.own if found is not None and found.same_ranks else None
        if now is not None:
            self._put_back(position.pass_random if position.batch else now)
        if found is not None and position.batch:
            skip = position.batch
        else:
            position.pass_random = {**self._random_state(), "had_iterator": has_iterator(loader)}
        rewind = None
        if now is not None and skip and position.pass_random["had_iterator"] and not has_iterator(loader):
            rewind = partial(self._put_back, position.pass_random)
        batches = start_pass(self._torch, loader, skip, replay, rewind)
        if now is not None and skip:
            self._put_back(now)
        return batches

    def _random_state(self) -> dict[str, Any]:
        return {"random": capture_random_state(self._torch), "sources": capture(self._sources)}

    def _put_back(self, state: Mapping[str, Any]) -> None:
        restore_random_state(self._torch, state["random"])
        sources = state["sources"]
        restore({name: source for name, source in self._sources.items() if name in sources}, sources)
