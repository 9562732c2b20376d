"""The rest of an epoch that was begun by another number of ranks, or with another batch size.

The ranks of a `DistributedSampler` divide one order of all samples: a step of all ranks takes the next
`ranks * local_batch` samples of it, so the trained samples are always its beginning. The rest is divided
among the ranks of now, and no sample is trained twice or left out. As in every epoch of that sampler, samples
of the beginning fill up the last batches where they do not divide.

Other samplers have an order for each rank. There as many samples are skipped as were trained, which is exact
only while the number of ranks stays.
"""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Optional

from laneway.client.checkpoint.data_loader import RemainingIndices, sampler_in


class RestOfEpoch:
    """What one rank still has to train of an epoch."""

    def __init__(self, order: Iterable[Any], batches: Iterable[Any], count: Optional[int]) -> None:
        self.batches = batches
        """What the loader iterates over in place of its sampler."""
        self.count = count
        """How many batches; None where the sampler has no length."""
        self._order = order

    def draw(self) -> None:
        """Draws the skipped indices, and with them the sampler's own random numbers."""
        if isinstance(self._order, AfterSamples):
            self._order.draw()


class AfterSamples:
    """A sampler without its first samples."""

    def __init__(self, sampler: Any, count: int) -> None:
        self._sampler = sampler
        self._count = count
        self._rest: Optional[RemainingIndices] = None

    def draw(self) -> None:
        """Draws the skipped samples, unless more were drawn already."""
        if self._rest is not None:
            self._rest.draw()

    def __iter__(self) -> Iterator[Any]:
        self._rest = RemainingIndices(iter(self._sampler), self._count)
        return self._rest


def local_batch_of(loader: Any) -> int:
    """Returns the samples of a batch; 0 where the loader does not say."""
    batch_sampler = getattr(loader, "batch_sampler", None)
    size = getattr(loader if batch_sampler is None else batch_sampler, "batch_size", 0)
    if size is None:
        return 1  # a DataLoader that does not batch
    return size if isinstance(size, int) and size > 0 else 0


def dividing_ranks(torch: Any, loader: Any) -> int:
    """Returns how many ranks divide one order of all samples among them; 0 where the loader has no such order."""
    if sampler_in(torch, loader) is None or _batches_of(torch, loader) is None:
        return 0
    sampler = _sampler_of(loader)
    return int(sampler.num_replicas) if _is_distributed(sampler) else 0


def rest_of_epoch(torch: Any, loader: Any, samples: int, ranks: int) -> Optional[RestOfEpoch]:
    """Returns this rank's part of an epoch; None where single samples of it cannot be skipped.

    Args:
        torch: the module `torch`.
        loader: the loader; its sampler knows the epoch.
        samples: how many samples all ranks together have trained.
        ranks: how many ranks there are.
    """
    if sampler_in(torch, loader) is None:
        return None
    into_batches = _batches_of(torch, loader)
    if into_batches is None:
        return None
    sampler = _sampler_of(loader)
    if _is_distributed(sampler):
        order: Any = remaining_part(sampler, samples)
        left: Optional[int] = len(order)
    else:
        order = AfterSamples(sampler, samples // ranks)
        left = max(0, len(sampler) - samples // ranks) if hasattr(sampler, "__len__") else None
    batches, size, drop_last = into_batches(order)
    if left is None:
        return RestOfEpoch(order, batches, None)
    return RestOfEpoch(order, batches, left // size if drop_last else -(-left // size))


def remaining_part(sampler: Any, samples: int) -> list[Any]:
    """Returns a DistributedSampler's part of the epoch without its first samples, counted over all ranks."""
    whole = copy.copy(sampler)
    whole.num_replicas, whole.rank = 1, 0
    whole.num_samples = whole.total_size = len(sampler.dataset)
    order = list(whole)
    rest, ranks = order[samples:], sampler.num_replicas
    if sampler.drop_last:
        del rest[len(rest) // ranks * ranks :]
    else:
        rest += itertools.islice(itertools.cycle(order), -len(rest) % ranks)
    return rest[sampler.rank :: ranks]


def _batches_of(torch: Any, loader: Any) -> Any:
    """Returns a function that makes batches of an order, with their size and whether the last one may be
    dropped; None for a batch sampler of the script's own."""
    batch_sampler = loader.batch_sampler
    if batch_sampler is None:
        return lambda order: (order, 1, False)
    if type(batch_sampler) is not torch.utils.data.BatchSampler:
        return None
    size, drop_last = batch_sampler.batch_size, batch_sampler.drop_last
    return lambda order: (type(batch_sampler)(order, size, drop_last), size, drop_last)


def _sampler_of(loader: Any) -> Any:
    return loader.sampler if loader.batch_sampler is None else loader.batch_sampler.sampler


def _is_distributed(sampler: Any) -> bool:
    distributed = sys.modules.get("torch.utils.data.distributed")
    return distributed is not None and type(sampler) is distributed.DistributedSampler
