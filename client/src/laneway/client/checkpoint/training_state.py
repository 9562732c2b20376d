"""`Checkpoint`: the state of a training, and loops that save it at the right moments.

    state = Checkpoint("/checkpoints/job", model=model, optimizer=optimizer, scheduler=scheduler)
    for epoch in state.epochs(10):
        for batch in state.batches(loader):
            ...

A boundary is the end of the body of a batch or step, and the end of an epoch. There the training is saved
when a save is due. On SIGTERM it is saved and ended with status 143. A resumed run continues as an
undisturbed one would, bit for bit on a CPU.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Optional, TypeVar

from laneway.client.boundary.stop_signal import EXIT_STATUS
from laneway.client.checkpoint.data_loader import generators, has_iterator, length_of, set_epoch, start_pass
from laneway.client.checkpoint.errors import CheckpointError
from laneway.client.checkpoint.parts import capture, flatten, mismatch, refuse_unloadable, restore
from laneway.client.checkpoint.position import Position
from laneway.client.checkpoint.random_state import (
    capture_random_state,
    fingerprints,
    reseed,
    restore_random_state,
)
from laneway.client.checkpoint.rest_of_epoch import (
    RestOfEpoch,
    dividing_ranks,
    local_batch_of,
    rest_of_epoch,
)
from laneway.client.checkpoint.sharded import split_sharded
from laneway.client.checkpoint.store import CheckpointStore
from laneway.client.distributed.common_boundary import SAVE, STOP, CommonBoundary
from laneway.client.distributed.rank_store import torch_rank_store
from laneway.client.reporting.mounts import outlives_container
from laneway.client.runtime import client

if TYPE_CHECKING:
    from laneway.client.checkpoint.store import LoadedCheckpoint

log = logging.getLogger("laneway.client")

Item = TypeVar("Item")
DEFAULT_SAVE_SECONDS: Final = 600.0


class Checkpoint:
    """One training and its checkpoints in one folder. All methods are for the training thread."""

    _made = 0

    def __init__(
        self,
        folder: str,
        *,
        keep: int = 2,
        every_seconds: Optional[float] = DEFAULT_SAVE_SECONDS,
        every_steps: Optional[int] = None,
        exit_when_stopped: bool = True,
        on_save: Optional[Callable[[int], object]] = None,
        sampler: Any = None,
        per_rank: Optional[Mapping[str, Any]] = None,
        **parts: Any,
    ) -> None:
        """Touches no files yet; `resume` does.

        Args:
            folder: where the checkpoints are; used by this job alone, and shared by all its ranks.
            keep: how many checkpoints to keep, at least 1.
            every_seconds: saves at the first boundary after this interval; None for never.
            every_steps: saves after every this many steps; None for never.
            exit_when_stopped: True ends the process with status 143 after SIGTERM and a save; False ends the
                loops and sets `stopped`.
            on_save: called with the step after each save.
            sampler: an object with `set_epoch` that the loader does not know.
            per_rank: parts that differ between ranks (random generators, data streams); `parts` are the same
                on all ranks.
            parts: models, optimizers, schedulers, a GradScaler: anything with `state_dict` and
                `load_state_dict`, lists and dicts of such objects; None is left out.

        Raises:
            ValueError: a number is out of range.
            CheckpointError: a value is not a part.
        """
        for name, number in (("keep", keep), ("every_steps", every_steps)):
            if number is not None and number < 1:
                raise ValueError(f"Checkpoint({name}={number}): must be 1 or more")
        self.values: dict[str, Any] = {}
        """The script's own values: numbers, strings, tensors, lists and dicts. Each rank gets its own back."""
        self.stopped = False
        """The loops have ended early, because this or another rank received SIGTERM."""
        self._folder = str(folder)
        self._keep = keep
        self._every_seconds = every_seconds
        self._every_steps = every_steps
        self._exit_when_stopped = exit_when_stopped
        self._on_save = on_save
        self._sampler = sampler
        self._parts, self._sharded = split_sharded(flatten(parts))
        self._per_rank = flatten(per_rank or {})
        self._name = f"checkpoint/{Checkpoint._made}"
        Checkpoint._made += 1
        self._torch: Any = importlib.import_module("torch")
        self._position = Position()
        self._loader_generators: dict[str, Any] = {}
        """The generators of the loader in use."""
        self._found: Optional[LoadedCheckpoint] = None
        """The checkpoint that the current pass resumes from, until it has been restored."""
        self._store: Optional[CheckpointStore] = None
        self._common_boundary: Optional[CommonBoundary] = None
        self._resumed = False
        self._last_saved = self._save_point()
        """Step, epoch and boundary of the last save; an untrained state needs none."""
        self._saved_seconds = time.monotonic()
        self._wants_save = False
        self._epochs: Optional[int] = None
        self._steps: Optional[int] = None
        """The total number of steps, where known."""
        self._iterated = False
        self._accumulate = 1
        self._length: Optional[int] = None
        """The batches of the current pass, where known."""

    @property
    def step(self) -> int:
        """The number of steps trained, over all runs of the job."""
        return self._position.step

    @property
    def epoch(self) -> int:
        """The current epoch, from 0."""
        return self._position.epoch

    @property
    def batch(self) -> int:
        """The number of batches of this epoch that were trained."""
        return self._position.batch

    @property
    def ends_step(self) -> bool:
        """In a loop over `batches(accumulate=…)`: the optimizer steps after this batch.

        True for the last batch of an epoch, too, unless the loader has no length. Batches count from the beginning of
        the epoch: after a rescale within a step, the first step has fewer.
        """
        done = self._position.batch + 1
        return done % self._accumulate == 0 or done == self._length

    # --- for the script ---

    def resume(self) -> bool:
        """Restores the newest usable checkpoint. The loops call it where the script does not.

        With several ranks, all have to call it, after `init_process_group`.

        Returns:
            Whether there was a checkpoint.

        Raises:
            CheckpointError: there are checkpoints but none can be used, or a part could not be loaded again.
        """
        if self._store is not None:
            return self._resumed
        rank_store = torch_rank_store()
        stop = client().stop
        stop.poll()
        self._store = CheckpointStore(
            self._torch, self._folder, self._keep, rank_store, self._name, self._sharded
        )
        capture(self._parts)
        found = self._store.find(lambda shared: mismatch(self._parts, shared))
        if found is not None:
            self._restore(found)
        if rank_store is not None:
            self._common_boundary = CommonBoundary(
                rank_store,
                self._name,
                lambda: stop.requested,
                self._seconds_left,
                self._position.boundary + 1,
            )
        self._saved_seconds = time.monotonic()
        return self._resumed

    def epochs(self, total: int) -> Iterator[int]:
        """Yields the remaining epochs up to `total`, from 0. An epoch that was interrupted is completed."""
        self.resume()
        position = self._position
        self._epochs = total
        while position.epoch < total:
            if position.within_epoch and position.epoch_random:
                restore_random_state(self._torch, position.epoch_random)
            else:
                position.epoch_random = capture_random_state(self._torch)
            self._iterated = False
            if self._sampler is not None:
                self._sampler.set_epoch(position.epoch)
            yield position.epoch
            if self.stopped:
                return
            position.begin_epoch()
            if position.epoch < total:
                self._boundary()
                if self.stopped:
                    return
        self._finish_training()

    def batches(self, loader: Iterable[Item], *, accumulate: int = 1, replay: bool = False) -> Iterator[Item]:
        """Yields the remaining batches of this epoch, each as a step. One pass an epoch; evaluate on another
        loader.

        Args:
            loader: a DataLoader, whose sampler skips the seen batches. Other iterables are iterated from
                their start, and seen items dropped.
            accumulate: batches for one step of the optimizer; there are no boundaries between them. `ends_step`
                tells the last of them.
            replay: loads the seen batches and drops them, for random augmentation in the loader's worker
                processes.
        """
        self.resume()
        if self._iterated:
            raise CheckpointError(
                "state.batches() was called twice in an epoch: iterate over the other loader directly, as for evaluation"
            )
        position, length = self._position, length_of(loader)
        self._iterated = self._epochs is not None
        self._accumulate, self._length = accumulate, length
        batches = self._start_pass(loader, replay)
        if self._epochs is not None and length is not None:
            self._steps = position.step - position.batch + length * (self._epochs - position.epoch)
        try:
            yield from self._pass(batches, accumulate)
        finally:
            if self._epochs is None:
                self._position.begin_epoch()

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
        """Yields the remaining steps up to `total`, from 0, for a training without epochs."""
        self.resume()
        self._steps = total
        while self._position.step < total:
            yield self._position.step
            self._count()
            if self._position.step < total:
                self._boundary()
                if self.stopped:
                    return
        self._finish_training()

    def boundary(self) -> bool:
        """Marks the end of a step in the script's own loop; returns whether to leave it (where
        `exit_when_stopped` is False)."""
        self.resume()
        self._count()
        self._boundary()
        return self.stopped

    def save(self) -> None:
        """Saves now. With several ranks, all have to call it at the same step.

        Raises:
            OSError: it could not be written; earlier checkpoints are unchanged.
            CheckpointError: a value cannot be saved.
        """
        self.resume()
        if self._store is None:
            return
        refuse_unloadable({"values": self.values})
        began_at = time.time()
        own = {
            "position": self._position.saved(),
            **self._random_state(),
            "parts": capture(self._per_rank),
            "values": self.values,
        }
        shared = capture(self._parts) if self._store.rank == 0 else None
        self._store.save(self._position.boundary, shared, own)
        if outlives_container(self._folder):
            client().guard.progress.note_save(began_at)
        self._last_saved = self._save_point()
        self._saved_seconds = time.monotonic()
        self._wants_save = False
        if self._on_save is not None:
            self._on_save(self.step)

    # --- at a boundary ---

    def _count(self) -> None:
        self._position.step += 1
        guard = client().guard
        guard.progress.update_steps(self._position.step, self._steps, guard.iterations, guard.session)

    def _boundary(self) -> None:
        position = self._position
        position.boundary += 1
        stop = client().stop.poll()
        if (
            self._every_steps
            and position.step % self._every_steps == 0
            and position.step != self._last_saved[0]
        ):
            self._save_once()
        if self._common_boundary is None:
            if stop or self._is_due():
                self._save_once()
            if stop:
                self._leave_loop()
            return
        if self._is_due() and self._is_rank_zero and not self._wants_save:
            self._wants_save = True
            self._common_boundary.request(SAVE)
        kind = self._common_boundary.arrive(position.boundary)
        while kind is not None:
            self._save_once()
            if kind == STOP:
                self._leave_loop()
                return
            kind = self._common_boundary.arrive(position.boundary)

    def _finish_training(self) -> None:
        """Saves the completed training, so that a restart repeats nothing."""
        if self._save_point() != self._last_saved:
            self._position.boundary += 1
            self._save_once()
        if self._common_boundary is not None:
            self._common_boundary.finish()
        client().stop.is_polled = False

    def _leave_loop(self) -> None:
        self.stopped = True
        log.info("stopped after step %d", self.step)
        if self._exit_when_stopped:
            raise SystemExit(EXIT_STATUS)

    def _save_once(self) -> None:
        """Saves unless this boundary is saved already. A full disk does not end the training."""
        if self._save_point() == self._last_saved:
            return
        try:
            self.save()
        except OSError as error:
            log.error("cannot save step %d in %s: %s", self.step, self._folder, error)
            self._saved_seconds = time.monotonic()
            self._wants_save = False

    def _is_due(self) -> bool:
        return (
            self._every_seconds is not None and time.monotonic() - self._saved_seconds >= self._every_seconds
        )

    @property
    def _is_rank_zero(self) -> bool:
        return self._store is not None and self._store.rank == 0

    def _save_point(self) -> tuple[int, int, int]:
        return self._position.step, self._position.epoch, self._position.boundary

    def _seconds_left(self) -> Optional[float]:
        stop = client().stop
        return stop.seconds_left() if stop.timeout_seconds > 0 else None

    # --- after a resume ---

    def _restore(self, found: LoadedCheckpoint) -> None:
        # Before the parts: PyTorch makes the state of a divided optimizer by a step, which begins the training.
        client().guard.progress.saved_work.note_load(math.inf, os.stat(self._folder).st_mtime)
        restore(self._parts, found.shared)
        if self._sharded is not None:
            self._sharded.load(found.sharded_folder)
        position = Position.restored(found.rank_state["position"])
        position.ranks = position.ranks or found.generation.world_size
        self.values.update(found.rank_state["values"])
        if found.same_ranks:
            restore(self._per_rank, found.rank_state["parts"])
        else:
            self._adopt_other_ranks(found)
        restore_random_state(self._torch, found.rank_state["random"])
        self._position = position
        self._found = found
        self._resumed = True
        self._last_saved = self._save_point()

    def _adopt_other_ranks(self, found: LoadedCheckpoint) -> None:
        """Gives the new ranks random numbers of their own, unless all ranks are to draw the same."""
        assert self._store is not None
        before, rank, ranks = found.generation.world_size, self._store.rank, self._store.world_size
        log.warning(
            "the checkpoint has %d ranks and this job %d: resuming at step %d%s",
            before,
            ranks,
            found.rank_state["position"]["step"],
            f" without the state of {', '.join(self._per_rank)} (per_rank)" if self._per_rank else "",
        )
        if ranks > before:
            shared = self._store.equal_on_all_ranks(fingerprints(capture_random_state(self._torch)))
            if rank >= before:
                found.rank_state["random"] = reseed(self._torch, found.rank_state["random"], rank, shared)

    def _start_pass(self, loader: Any, replay: bool) -> Iterator[Any]:
        """Starts a pass after the trained batches, with the random numbers that the first pass used."""
        position, found, skip = self._position, self._found, 0
        self._found = None
        set_epoch(loader, position.epoch)
        self._loader_generators = flatten(generators(loader))
        now = found.rank_state if found is not None else None
        if now is not None:
            self._restore_random(position.pass_random if position.within_epoch else now)
        rest = self._fit_layout(loader)
        if found is not None and position.within_epoch:
            skip = position.batch - position.earlier_batches
            if rest is None and position.earlier_samples:
                skip += position.earlier_samples // (position.ranks * max(1, position.local_batch))
        else:
            position.pass_random = {**self._random_state(), "had_iterator": has_iterator(loader)}
        rewind = None
        if (
            now is not None
            and (skip or rest is not None)
            and position.pass_random["had_iterator"]
            and not has_iterator(loader)
        ):
            rewind = partial(self._restore_random, position.pass_random)
        batches = start_pass(self._torch, loader, skip, replay, rewind, rest)
        if now is not None and (skip or rest is not None):
            self._restore_random(now)
        return batches

    def _fit_layout(self, loader: Any) -> Optional[RestOfEpoch]:
        """Fits the position to the number of ranks and the loader's batch size; returns the rest of an epoch
        that was begun otherwise."""
        position, divided = self._position, dividing_ranks(self._torch, loader)
        ranks = divided or (1 if self._store is None else self._store.world_size)
        local_batch = local_batch_of(loader)
        if not position.within_epoch:
            position.ranks, position.local_batch, position.divided = ranks, local_batch, bool(divided)
            return None
        if not position.has_layout(ranks, local_batch):
            if position.ranks != ranks and not (position.divided and divided):
                log.warning(
                    "epoch %d was begun by %d ranks and goes on with %d: some of its samples are trained twice or left out, "
                    "because its sampler is not a DistributedSampler",
                    position.epoch,
                    position.ranks,
                    ranks,
                )
            position.begin_layout(ranks, local_batch)
            position.divided = bool(divided)
        if not position.earlier_samples:
            position.ranks, position.local_batch = ranks, local_batch
            return None
        rest, length = rest_of_epoch(self._torch, loader, position.earlier_samples, ranks), length_of(loader)
        if position.batch == position.earlier_batches:
            trained = position.earlier_samples // (ranks * max(1, local_batch))
            if rest is not None and rest.count is not None and length is not None:
                trained = max(0, length - rest.count)
            position.batch = position.earlier_batches = trained
        return rest

    def _random_state(self) -> dict[str, Any]:
        return {"random": capture_random_state(self._torch), "sources": capture(self._loader_generators)}

    def _restore_random(self, state: Mapping[str, Any]) -> None:
        restore_random_state(self._torch, state["random"])
        sources = state["sources"]
        restore(
            {name: source for name, source in self._loader_generators.items() if name in sources}, sources
        )
