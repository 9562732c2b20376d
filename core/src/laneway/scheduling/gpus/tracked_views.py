"""The views that are in use, each with its index, kept current with the changes of the allocations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from laneway.scheduling.gpus.free_index import FreeIndex
from laneway.scheduling.gpus.host_limits import HostLimits
from laneway.scheduling.gpus.hosts_left import HostsLeft
from laneway.scheduling.gpus.views import Level, TrackedView, View
from laneway.scheduling.model.gpu_class import GPUClass

_IDLE_DECISIONS = 1024
"""Cycles after which an unused view is dropped."""

_FAR_BEHIND = 4096
"""Changes of GPUs after which an unused view is brought up to date all the same."""

_CAUGHT_UP_AT_ONCE = 1024
"""The most of these changes that one cycle applies, so that no cycle pays for all of them."""


class TrackedViews:
    """The views of one cluster's allocations. GPUs and nodes are given by their numbers."""

    def __init__(
        self,
        classes: Sequence[GPUClass],
        node_numbers: Sequence[int],
        pool_numbers: Sequence[int],
        nodes: int,
        usable: Collection[int],
        free_percent: Callable[[int, View], int],
    ) -> None:
        """Track no view yet.

        Args:
            classes: by GPU.
            node_numbers: by GPU.
            pool_numbers: by GPU.
            nodes: the number of nodes.
            usable: the GPUs that may be given to jobs now; changes of it are followed by :meth:`clear`.
            free_percent: returns what is free of a GPU in a view.
        """
        self._classes = classes
        self._node_numbers = node_numbers
        self._pool_numbers = pool_numbers
        self._nodes = nodes
        self._usable = usable
        self._free_percent = free_percent
        self._tracked: dict[View, TrackedView] = {}
        self._touched: list[int] = []
        """The GPUs that changed, in order of time; changes that every view has seen are dropped."""

    def track(self, view: View) -> TrackedView:
        """Return a view with its index, as of the last :meth:`index` call for it."""
        found = self._tracked.get(view)
        if found is None:
            free = {number: self._free_percent(number, view) for number in sorted(self._usable)}
            index = FreeIndex(self._classes, self._node_numbers, self._pool_numbers, free)
            limits, left = HostLimits(self._nodes), HostsLeft(self._nodes)
            found = self._tracked[view] = TrackedView(view, index, limits, left, len(self._touched))
        found.idle_decisions = 0
        return found

    def index(self, tracked: TrackedView) -> FreeIndex:
        """Return what is free in a view now.

        The index catches up here with the changes since the last call, so an unused view costs nothing.
        """
        if tracked.seen < len(self._touched) or tracked.touched:
            self._catch_up(tracked, len(self._touched))
        return tracked.index

    def drop_unused(self) -> None:
        """Drop the views that were not used in many cycles; called once a cycle."""
        for tracked in list(self._tracked.values()):
            tracked.idle_decisions += 1
            if tracked.idle_decisions > _IDLE_DECISIONS:
                del self._tracked[tracked.view]
        self._catch_up_one()

    def touch(self, gpus: Collection[int]) -> None:
        """Note a change of some GPUs."""
        self._touched.extend(gpus)
        for tracked in self._tracked.values():
            if tracked.memory_usage:
                for number in gpus:
                    tracked.memory_usage.pop(number, None)

    def change_level(
        self, before: Level | None, after: Level | None, shares: tuple[tuple[int, int], ...]
    ) -> None:
        """Note that other jobs than before may preempt what holds these shares."""
        for tracked in self._tracked.values():
            if tracked.view.counts(before) != tracked.view.counts(after):
                tracked.touch(shares)

    def clear(self) -> None:
        """Drop all views: other GPUs than before are usable."""
        self._tracked.clear()
        self._touched.clear()

    def _catch_up(self, tracked: TrackedView, to: int) -> None:
        """Apply changes to an index, up to a position in the list of changed GPUs."""
        tracked.touched.update(self._touched[tracked.seen : to])
        view, free, home = tracked.view, tracked.index.free, tracked.index.home
        for number in tracked.touched:
            index = home[number]
            if index is not None:
                before = free[number]
                after = free[number] = self._free_percent(number, view)
                if after != before:
                    index.move(number, before, after)
                    tracked.index.of_pool[self._pool_numbers[number]] += after - before
        for hosts in (tracked.host_limits, tracked.hosts_left):
            if hosts.in_use:
                hosts.note(map(self._node_numbers.__getitem__, tracked.touched))
        tracked.touched.clear()
        tracked.seen = to

    def _catch_up_one(self) -> None:
        """Apply some changes to the view that is furthest behind, if it is far behind."""
        tracked = min(self._tracked.values(), key=lambda tracked: tracked.seen, default=None)
        if tracked is None:
            self._touched.clear()
        elif len(self._touched) - tracked.seen > _FAR_BEHIND:
            self._catch_up(tracked, tracked.seen + _CAUGHT_UP_AT_ONCE)
        elif tracked.seen > _FAR_BEHIND:
            behind = tracked.seen
            del self._touched[:behind]
            for each in self._tracked.values():
                each.seen -= behind
