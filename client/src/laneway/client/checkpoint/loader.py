"""A pass over a DataLoader that begins in the middle: the batches already seen are skipped in the sampler, and never loaded.

Their indices are drawn, as the sampler's random numbers go on from there. The order of the draws is that of a pass from the start: first the
loader's own seed, when its iterator is made, then the sampler's, when its first index is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Optional

ITERABLE: Final = 1
"""PyTorch's kind of datasets that have no indices."""


def set_epoch(loader: Any, epoch: int) -> None:
    """Tells a loader's samplers which epoch it is, if they want to know (DistributedSampler: another order in each)."""
    for sampler in _samplers(loader):
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)


def generators(loader: Any) -> dict[str, Any]:
    """The generators that a loader and its samplers draw from, where the script gave them one."""
    owners = [loader, *_samplers(loader)]
    found = {f"loader.{index}": getattr(owner, "generator", None) for index, owner in enumerate(owners)}
    return {name: generator for name, generator in found.items() if generator is not None}


def has_iterator(loader: Any) -> bool:
    """Whether a loader with `persistent_workers` has drawn its own seed in an earlier epoch, and will not again."""
    return getattr(loader, "_iterator", None) is not None


def length_of(loader: Any) -> Optional[int]:
    """How many batches a pass has, where that is known without a promise: PyTorch holds an IterableDataset to its length once asked."""
    if getattr(loader, "_dataset_kind", 0) == ITERABLE:
        return None
    try:
        return len(loader)
    except Exception:  # it has none, or that of its dataset raises
        return None


def start_pass(
    torch: Any, loader: Iterable[Any], skip: int, replay: bool, rewind: Optional[Callable[[], None]] = None
) -> Iterator[Any]:
    """An iterator over the batches behind the first `skip`.

    Args:
        torch: the module.
        loader: a DataLoader; anything else that can be iterated is replayed.
        skip: how many batches were seen.
        replay: whether to load them all the same, and drop them: where loading changes what comes after.
        rewind: puts the random numbers back to the start of the pass, where the loader had its iterator before that.
    """
    where = None if replay or not skip else _skippable(torch, loader)
    if where is None and rewind is not None:
        iter(loader)
        rewind()
    if where is None:
        replayed = iter(loader)
        for _ in range(skip):
            next(replayed, None)
        return replayed
    holder: Any = loader
    before = holder.__dict__[where]
    skipping = Skipping(before, skip)
    # Not by setattr: a DataLoader refuses it. What it has made its iterator with, it does not ask for again.
    holder.__dict__[where] = skipping
    try:
        if rewind is not None:
            iter(loader)
            rewind()
        batches: Iterator[Any] = iter(loader)
    finally:
        holder.__dict__[where] = before
    skipping.begin()
    return batches


class Skipping:
    """A sampler without its first indices, until `begin` is called; after that, and in all else, it is the sampler.

    A loader may iterate it twice while it makes its iterator, and once more for each further epoch (`persistent_workers`).
    """

    def __init__(self, sampler: Any, skip: int) -> None:
        self._sampler = sampler
        self._skip = skip
        self._rest: Optional[Rest] = None

    def __iter__(self) -> Iterator[Any]:
        indices: Iterator[Any] = iter(self._sampler)
        if not self._skip:
            return indices
        self._rest = Rest(indices, self._skip)
        return self._rest

    def begin(self) -> None:
        """The loader has its iterator: draws the skipped indices, unless it has drawn more already."""
        self._skip = 0
        if self._rest is not None:
            self._rest.draw()

    def __len__(self) -> int:
        return len(self._sampler)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)


class Rest:
    """The indices behind the skipped ones; those are drawn when the first is asked for, as a sampler draws its own seed then."""

    def __init__(self, indices: Iterator[Any], skip: int) -> None:
        self._indices = indices
        self._skip = skip

    def draw(self) -> None:
        """Draws the skipped ones."""
        skip, self._skip = self._skip, 0
        for _ in range(skip):
            next(self._indices, None)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self.draw()
        return next(self._indices)


def _skippable(torch: Any, loader: Any) -> Optional[str]:
    """The attribute that holds the sampler to skip in; None where skipping indices would skip nothing."""
    data = torch.utils.data
    if getattr(type(loader), "__iter__", None) is not data.DataLoader.__iter__:
        return None
    if isinstance(loader.dataset, data.IterableDataset):
        return None
    return "sampler" if loader.batch_sampler is None else "batch_sampler"


def _samplers(loader: Any) -> list[Any]:
    batch_sampler = getattr(loader, "batch_sampler", None)
    found = [getattr(loader, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None)]
    unique: list[Any] = []
    for sampler in found:
        if sampler is not None and not any(sampler is known for known in unique):
            unique.append(sampler)
    return unique
