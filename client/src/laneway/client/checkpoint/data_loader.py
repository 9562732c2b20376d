"""Starts a pass over a DataLoader in the middle: batches already seen are skipped in the sampler and never
loaded.

Their indices are still drawn, so that the sampler's random numbers continue correctly. The order of the draws
is that of a full pass: first the loader's own seed, when its iterator is made, then the sampler's, when its
first index is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Optional

if TYPE_CHECKING:
    from laneway.client.checkpoint.rest_of_epoch import RestOfEpoch

ITERABLE: Final = 1
"""PyTorch's kind of datasets without indices."""


def set_epoch(loader: Any, epoch: int) -> None:
    """Sets the epoch of a loader's samplers that have one (DistributedSampler shuffles by epoch)."""
    for sampler in _samplers(loader):
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)


def generators(loader: Any) -> dict[str, Any]:
    """Returns the generators that the script gave to a loader and its samplers."""
    owners = [loader, *_samplers(loader)]
    found = {f"loader.{index}": getattr(owner, "generator", None) for index, owner in enumerate(owners)}
    return {name: generator for name, generator in found.items() if generator is not None}


def has_iterator(loader: Any) -> bool:
    """Returns whether a loader with `persistent_workers` drew its seed in an earlier epoch, and will not draw
    it again."""
    return getattr(loader, "_iterator", None) is not None


def length_of(loader: Any) -> Optional[int]:
    """Returns the batches of a pass, or None where asking is not free: PyTorch holds an IterableDataset to
    its length once asked."""
    if getattr(loader, "_dataset_kind", 0) == ITERABLE:
        return None
    try:
        return len(loader)
    except Exception:  # the loader has no length, or its dataset's raises
        return None


def start_pass(
    torch: Any,
    loader: Iterable[Any],
    skip: int,
    replay: bool,
    rewind: Optional[Callable[[], None]] = None,
    rest: Optional[RestOfEpoch] = None,
) -> Iterator[Any]:
    """Returns an iterator over the batches after the first `skip`.

    Args:
        torch: the module `torch`.
        loader: a DataLoader; any other iterable is replayed.
        skip: how many batches were seen.
        replay: whether to load and drop the seen batches, where loading changes what comes after.
        rewind: restores the random numbers of the pass's start, where the loader's iterator was made before
            that.
        rest: what the pass consists of instead of all the loader's batches, for a loader with `sampler_in`.
    """
    where = sampler_in(torch, loader) if rest is not None or (skip and not replay) else None
    if where is None and rewind is not None:
        iter(loader)
        rewind()
    if where is None:
        return _drop(iter(loader), skip)
    holder: Any = loader
    before = holder.__dict__[where]
    skipping = SkippingSampler(before, 0 if replay else skip, rest)
    # A DataLoader refuses setattr. It does not use this attribute again for its existing iterator.
    holder.__dict__[where] = skipping
    try:
        if rewind is not None:
            iter(loader)
            rewind()
        batches: Iterator[Any] = iter(loader)
    finally:
        holder.__dict__[where] = before
    skipping.begin()
    return _drop(batches, skip) if replay else batches


class SkippingSampler:
    """A sampler without its first indices until `begin` is called, or with only the rest of an epoch; otherwise
    identical to the sampler.

    A loader may iterate over it twice while it makes its iterator, and once more for each further epoch
    (`persistent_workers`).
    """

    def __init__(self, sampler: Any, skip: int, rest_of_epoch: Optional[RestOfEpoch] = None) -> None:
        self._sampler = sampler
        self._skip = skip
        self._rest_of_epoch = rest_of_epoch
        self._rest: Optional[RemainingIndices] = None

    def __iter__(self) -> Iterator[Any]:
        indices: Iterator[Any] = iter(
            self._sampler if self._rest_of_epoch is None else self._rest_of_epoch.batches
        )
        if not self._skip:
            return indices
        self._rest = RemainingIndices(indices, self._skip)
        return self._rest

    def begin(self) -> None:
        """Draws the skipped indices, unless more were drawn already. Called when the loader has its iterator."""
        self._skip = 0
        rest_of_epoch, self._rest_of_epoch = self._rest_of_epoch, None
        if rest_of_epoch is not None:
            rest_of_epoch.draw()
        if self._rest is not None:
            self._rest.draw()

    def __len__(self) -> int:
        return len(self._sampler)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)


class RemainingIndices:
    """The indices after the skipped ones. Those are drawn with the first request, when a sampler draws its
    own seed."""

    def __init__(self, indices: Iterator[Any], skip: int) -> None:
        self._indices = indices
        self._skip = skip

    def draw(self) -> None:
        """Draws the skipped indices."""
        skip, self._skip = self._skip, 0
        for _ in range(skip):
            next(self._indices, None)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self.draw()
        return next(self._indices)


def sampler_in(torch: Any, loader: Any) -> Optional[str]:
    """Returns the attribute with the sampler to skip in; None where skipping indices would skip nothing."""
    data = torch.utils.data
    if getattr(type(loader), "__iter__", None) is not data.DataLoader.__iter__:
        return None
    if isinstance(loader.dataset, data.IterableDataset):
        return None
    return "sampler" if loader.batch_sampler is None else "batch_sampler"


def _drop(batches: Iterator[Any], count: int) -> Iterator[Any]:
    for _ in range(count):
        next(batches, None)
    return batches


def _samplers(loader: Any) -> list[Any]:
    batch_sampler = getattr(loader, "batch_sampler", None)
    found = [getattr(loader, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None)]
    unique: list[Any] = []
    for sampler in found:
        if sampler is not None and not any(sampler is known for known in unique):
            unique.append(sampler)
    return unique
