"""Who holds what of each GPU, kept from one decision to the next.

Holds are *settled* (the job stays, or starts by this decision), *parked* (it is paused or offloaded: it takes no turns),
*departing* (it is about to make way) or *reserved* (for a job that waits until somebody has made way). A :class:`View`
says which of them count; the free percent of every GPU in a view is indexed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from laneway.lanes import Crowd, Tenant, fits
from laneway.scheduling.free_index import FreeIndex
from laneway.scheduling.numbering import grouped, in_order, interned
from laneway.scheduling.plan_types import Depth
from laneway.scheduling.snapshot import GPU, Job, JobState, Node, WorkerPlacement
from laneway.scheduling.suitability import GPUClass, class_of
from laneway.scheduling.tenancy import foreign_tenant, parked_tenant, tenant_of
from laneway.scheduling.usable_gpus import UsableGPUs
from laneway.scheduling.views import LATER, NOW, Level, Look, View

_IDLE_DECISIONS = 1024
"""A view that was not asked for in so many decisions is no longer kept."""

_FAR_BEHIND = 4096
"""Changes of GPUs after which a view that nobody asks for is brought up to date all the same."""

_CAUGHT_UP_AT_ONCE = 1024
"""Of these, so many in one decision, so that no decision pays for all."""


class Kind(Enum):
    """What a hold is."""

    SETTLED = "settled"
    PARKED = "parked"
    DEPARTING = "departing"
    RESERVED = "reserved"


_SETTLED, _DEPARTING, _RESERVED = Kind.SETTLED, Kind.DEPARTING, Kind.RESERVED

_DEPTHS = {JobState.PAUSING: Depth.PAUSE, JobState.OFFLOADING: Depth.OFFLOAD}
"""How far jobs are making way that do not leave."""


@dataclass(slots=True)
class Entry:
    """One job's holds."""

    job: Job
    placement: tuple[WorkerPlacement, ...]
    kind: Kind
    shares: tuple[tuple[int, int], ...]
    """GPU number and percent of each hold."""

    percent: int
    """Of all of them together."""

    level: Level | None = None
    """None: it can't be made to make way."""

    depth: Depth = Depth.EVICT
    """Of a departing hold: what will be left of it."""


class Ledger:
    """The holds on every GPU, numbered in the order of (node, index, uuid)."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(sorted(nodes, key=lambda node: node.name))
        numbered = [(number, gpu) for number, node in enumerate(self.nodes) for gpu in in_order(node.gpus)]
        self.gpus: list[GPU] = [gpu for _, gpu in numbered]
        self.node_numbers: tuple[int, ...] = tuple(number for number, _ in numbered)
        self.classes: tuple[GPUClass, ...] = interned(class_of(gpu) for gpu in self.gpus)
        self.number = {gpu.uuid: number for number, gpu in enumerate(self.gpus)}
        self.gpus_of_node: tuple[tuple[int, ...], ...] = grouped(self.node_numbers, len(self.nodes))
        self._usable = UsableGPUs(self.classes, self.gpus_of_node)
        self._usable.note(range(len(self.nodes)), self.nodes, self.gpus)
        self.usable = self._usable.numbers
        """Numbers of the GPUs that may be given to jobs."""

        self.entries: dict[str, Entry] = {}
        self.held_percent: Counter[str] = Counter()
        """By namespace: what its jobs hold of all GPUs together."""

        self.frees = 0
        """Counts what may have given somebody room; while it stands still, what did not fit does not fit."""

        self._on: list[dict[str, tuple[int, Entry]]] = [{} for _ in self.gpus]
        self._limits = [
            (
                gpu.allocatable_percent if gpu.active_percent is None else gpu.active_percent,
                gpu.allocatable_percent,
            )
            for gpu in self.gpus
        ]
        self.parking = any(most_active < most for most_active, most in self._limits)
        """Whether there is room for jobs that are paused beside those that take turns."""

        self._foreign_percent = [gpu.foreign_percent for gpu in self.gpus]
        self._empty_percent = [
            max(0, most_active - foreign)
            for (most_active, _), foreign in zip(self._limits, self._foreign_percent, strict=True)
        ]
        """What is free of a GPU that no job holds. Who is parked is there beyond what may take turns, so this is the limit."""

        self._looks: dict[View, Look] = {}
        self._touched: list[int] = []
        """Numbers of GPUs on which something has changed, in order of time, as far back as a view has not seen it."""

    @property
    def usable_classes(self) -> tuple[GPUClass, ...]:
        """The classes of which there are GPUs that may be given to jobs, rising."""
        return self._usable.classes

    def renew(self, nodes: tuple[Node, ...]) -> bool:
        """Take over what is new of nodes, ordered by name; return False, and change nothing, where their GPUs are not those of
        before: then all has to be counted anew."""
        changed = [
            (number, node)
            for number, (before, node) in enumerate(zip(self.nodes, nodes, strict=False))
            if node is not before and node != before
        ]
        if len(nodes) != len(self.nodes) or not all(self._has_same_gpus(*each) for each in changed):
            return False
        self.nodes = nodes
        for _, node in changed:
            for gpu in node.gpus:
                place = self.number[gpu.uuid]
                self.gpus[place] = gpu
                self._foreign_percent[place] = gpu.foreign_percent
                self._empty_percent[place] = max(0, self._limits[place][0] - gpu.foreign_percent)
        if self._usable.note((number for number, _ in changed), self.nodes, self.gpus):
            self._looks.clear()
            self._touched.clear()
        else:
            places = [place for number, _ in changed for place in self.gpus_of_node[number]]
            self._touched.extend(places)
            for look in self._looks.values():
                for place in places:
                    look.crowds.pop(place, None)
        self.frees += 1
        return True

    def _has_same_gpus(self, number: int, node: Node) -> bool:
        places = self.gpus_of_node[number]
        return (
            node.name == self.nodes[number].name
            and len(node.gpus) == len(places)
            and all(
                gpu.uuid == self.gpus[place].uuid
                and gpu.index == self.gpus[place].index
                and class_of(gpu) == self.classes[place]
                for gpu, place in zip(in_order(node.gpus), places, strict=True)
            )
        )

    def usable_on(self, node: int, gpu_class: GPUClass) -> tuple[int, ...]:
        """Return the usable GPUs of a node and class, in rising order."""
        return self._usable.on(node, gpu_class)

    def look(self, view: View) -> Look:
        """Return what is free in a view. It is as of when it was asked for last: see :meth:`index`."""
        found = self._looks.get(view)
        if found is None:
            free = {number: self._free_percent(number, view) for number in sorted(self.usable)}
            index = FreeIndex(self.classes, self.node_numbers, free)
            found = self._looks[view] = Look(view, index, len(self._touched))
        found.idle_decisions = 0
        return found

    def index(self, look: Look) -> FreeIndex:
        """Return what is free in a view as of now. It catches up with what has changed since it was asked for last, so
        that a view which nobody asks for costs nothing, nor does an assumption that was taken back."""
        if look.seen < len(self._touched) or look.touched:
            self._catch_up(look, len(self._touched))
        return look.index

    def forget_idle_views(self) -> None:
        """Drop views that have not been asked for since many calls of this."""
        for look in list(self._looks.values()):
            look.idle_decisions += 1
            if look.idle_decisions > _IDLE_DECISIONS:
                del self._looks[look.view]
        self._catch_up_one()

    def _catch_up(self, look: Look, to: int) -> None:
        """Bring an index up to date with the touched GPUs up to the so-manieth."""
        look.touched.update(self._touched[look.seen : to])
        view, free, home = look.view, look.index.free, look.index.home
        for number in look.touched:
            index = home[number]
            if index is not None:
                before = free[number]
                after = free[number] = self._free_percent(number, view)
                if after != before:
                    index.move(number, before, after)
        look.touched.clear()
        look.seen = to

    def _catch_up_one(self) -> None:
        """Bring the view nearer to the present that is furthest behind, if it is far."""
        look = min(self._looks.values(), key=lambda look: look.seen, default=None)
        if look is None:
            self._touched.clear()
        elif len(self._touched) - look.seen > _FAR_BEHIND:
            self._catch_up(look, look.seen + _CAUGHT_UP_AT_ONCE)
        elif look.seen > _FAR_BEHIND:
            behind = look.seen
            del self._touched[:behind]
            for each in self._looks.values():
                each.seen -= behind

    def enter(
        self, job: Job, placement: tuple[WorkerPlacement, ...], kind: Kind, level: Level | None
    ) -> None:
        """Let a job hold what its placement says, and nothing else."""
        before, depth = self.entries.get(job.key), _DEPTHS.get(job.state, Depth.EVICT)
        if (
            before is not None
            and before.kind is kind
            and before.depth is depth
            and before.placement == placement
        ):
            was, before.job = before.job, job
            if was.profile != job.profile or (kind is Kind.PARKED and was.state is not job.state):
                self.frees += 1
                self._touch(before)
            if before.level != level:
                self._change_level(before, level)
            return
        self.leave(job.key)
        shares = tuple(
            (self.number[uuid], worker.share_percent)
            for worker in placement
            for uuid in worker.gpus
            if uuid in self.number  # else its node is gone from the cluster, and nothing is left to hold
        )
        percent = sum(percent for _, percent in shares)
        entry = self.entries[job.key] = Entry(job, placement, kind, shares, percent, level, depth)
        for number, share_percent in shares:
            self._on[number][job.key] = (share_percent, entry)
        self.held_percent[job.namespace] += entry.percent
        self._touch(entry)

    def leave(self, key: str) -> None:
        """Let a job hold nothing."""
        entry = self.entries.pop(key, None)
        if entry is not None:
            for number, _ in entry.shares:
                del self._on[number][key]
            self.held_percent[entry.job.namespace] -= entry.percent
            self.frees += 1
            self._touch(entry)

    def depart(self, key: str, depth: Depth = Depth.EVICT) -> None:
        """Count a job as making way. It is an assumption of one decision, so it does not count as having freed anything."""
        entry = self.entries[key]
        entry.kind, entry.depth = Kind.DEPARTING, depth
        self._touch(entry)

    def try_as(self, key: str, kind: Kind, depth: Depth) -> None:
        """Count a job as making way, or as staying again, for a question about what is free later, and for nothing else: all
        other views must not be asked until it is taken back, or confirmed by :meth:`depart`."""
        entry = self.entries[key]
        entry.kind, entry.depth = kind, depth
        self.look(LATER).touch(entry.shares)

    def resumable(self, key: str) -> bool:
        """Whether a parked job can take turns again where it is: the others there leave it turns and memory."""
        entry = self.entries[key]
        for number, percent in entry.shares:
            others = [held for held in self._on[number].values() if held[1].kind is not Kind.PARKED]
            active = self._foreign_percent[number] + sum(held for held, _ in others)
            gpu = self.gpus[number]
            tenants = [tenant for tenant in self.tenants(number, NOW) if tenant.key != key]
            if active + percent > self._limits[number][0] or not fits(
                gpu.allocatable_bytes, tenants, tenant_of(entry.job, gpu, percent), gpu.lane_rules
            ):
                return False
        return True

    def resume(self, key: str) -> None:
        """Count a parked job as taking turns. Like a departure, it is an assumption of one decision."""
        entry = self.entries[key]
        entry.kind = Kind.SETTLED
        self._touch(entry)

    def departing_from(self, placement: Iterable[WorkerPlacement]) -> tuple[str, ...]:
        """Return the jobs that are leaving these GPUs."""
        return self._on_gpus(placement, lambda entry: entry.kind is Kind.DEPARTING)

    def below(self, level: Level, placement: Iterable[WorkerPlacement]) -> tuple[str, ...]:
        """Return the jobs of larger levels that hold some of these GPUs."""
        return self._on_gpus(
            placement,
            lambda entry: (
                entry.kind in (Kind.SETTLED, Kind.PARKED) and entry.level is not None and entry.level > level
            ),
        )

    def sharers(self, number: int, view: View) -> list[Job]:
        """Return the jobs that count on a GPU in a view and take turns there, by key."""
        on = self._on[number]
        return [
            on[key][1].job
            for key in sorted(on)
            if _counts(on[key][1], view) and on[key][1].kind is not Kind.PARKED
        ]

    def tenants(self, number: int, view: View) -> list[Tenant]:
        """Return whose memory counts on a GPU in a view."""
        gpu = self.gpus[number]
        tenants = [foreign_tenant(foreign, gpu) for foreign in gpu.foreign]
        for percent, entry in self._on[number].values():
            parked = entry.kind is Kind.PARKED
            departing = entry.kind is Kind.DEPARTING and not view.now
            if (parked and entry.job.state is JobState.OFFLOADED) or (
                departing and entry.depth is not Depth.PAUSE
            ):
                continue
            if departing or (parked and _counts(entry, view)):
                tenants.append(parked_tenant(entry.job, gpu, percent))
            elif _counts(entry, view):
                tenants.append(tenant_of(entry.job, gpu, percent))
        return tenants

    def crowd(self, number: int, view: View) -> Crowd:
        """Return whose memory counts on a GPU in a view, summed up."""
        crowds = self.look(view).crowds
        found = crowds.get(number)
        if found is None:
            found = crowds[number] = Crowd.of(self.tenants(number, view), self.gpus[number].lane_rules)
        return found

    def _on_gpus(
        self, placement: Iterable[WorkerPlacement], wanted: Callable[[Entry], bool]
    ) -> tuple[str, ...]:
        numbers = [self.number[uuid] for worker in placement for uuid in worker.gpus]
        return tuple(
            sorted(
                {key for number in numbers for key, (_, entry) in self._on[number].items() if wanted(entry)}
            )
        )

    def _change_level(self, entry: Entry, level: Level | None) -> None:
        """Let other jobs than before make a job make way."""
        before, entry.level = entry.level, level
        for look in self._looks.values():
            if look.view.counts(before) != look.view.counts(level):
                look.touch(entry.shares)

    def _touch(self, entry: Entry) -> None:
        self._touched.extend([number for number, _ in entry.shares])
        for look in self._looks.values():
            if look.crowds:
                for number, _ in entry.shares:
                    look.crowds.pop(number, None)

    def _free_percent(self, number: int, view: View) -> int:
        """Return what is free of a GPU; 0 where more is held than it offers."""
        held = self._on[number]
        if not held:
            return self._empty_percent[number]
        active, parked, departing, reserved = self._foreign_percent[number], 0, 0, 0
        now, below = view
        for percent, entry in held.values():
            kind = entry.kind
            if kind is _SETTLED:
                if below is None or entry.level is None or entry.level <= below:
                    active += percent
            elif kind is _RESERVED:
                reserved += percent
            elif kind is _DEPARTING:
                departing += percent
                if not now and entry.depth is not Depth.EVICT:
                    parked += percent
            elif below is None or entry.level is None or entry.level <= below:
                parked += percent
        active += departing if now and departing > reserved else reserved
        most_active, most = self._limits[number]
        return max(0, min(most_active, most - parked) - active)


def _counts(entry: Entry, view: View) -> bool:
    """Whether a hold's memory and presence count in a view."""
    if entry.kind is Kind.RESERVED:
        return True
    if entry.kind is Kind.DEPARTING:
        return view.now
    return view.counts(entry.level)
