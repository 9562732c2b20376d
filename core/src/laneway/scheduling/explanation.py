"""Why a job that could run in this cluster does not start now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from laneway.api.training_job import PlacementMode
from laneway.lanes import RefusalReason
from laneway.scheduling.placement.best_fit import BestFit
from laneway.scheduling.placement.policy import PlacementPolicy
from laneway.scheduling.plan_types import Depth, Preemption, WaitingCode, WaitingReason
from laneway.scheduling.room import Room
from laneway.scheduling.snapshot import Job, JobState
from laneway.scheduling.supply import Supply, count_suited, needs

_NAMED = 3
"""So many jobs are named in a sentence; of more, the number is said."""


def suspended() -> WaitingReason:
    """Return the reason of a job that its user does not want to run."""
    return WaitingReason(
        WaitingCode.SUSPENDED, "It is suspended.", "Set spec.suspend to false to let it compete for GPUs."
    )


def not_reached() -> WaitingReason:
    """Return the reason of a job that a decision did not come to, as many had started before it."""
    return WaitingReason(
        WaitingCode.NOT_CONSIDERED,
        "Many jobs that go before it are being started.",
        "It is considered next, within a moment.",
    )


def not_allotted() -> WaitingReason:
    """Return the reason of a malleable job that gets no workers for now."""
    return WaitingReason(
        WaitingCode.NOT_ADMITTED,
        "The elastic policy gives it no workers for now: others make better use of the GPUs.",
        "It starts when GPUs become idle, or when its share is due.",
    )


def parked(state: JobState) -> WaitingReason:
    """Return the reason of a paused or offloaded job that does not go on."""
    return WaitingReason(
        WaitingCode.GPUS_BUSY,
        f"It is {state.lower()}: a job that goes before it has the turns of its GPUs.",
        "It goes on where it is when that job ends or makes way.",
    )


_WHEN_MADE_WAY = {
    Depth.PAUSE: "It starts when they have stopped between two iterations.",
    Depth.OFFLOAD: "It starts when their memory is on the host.",
    Depth.EVICT: "It starts when their workers have saved their checkpoints and are gone.",
}


def awaiting_preemption(preemptions: Sequence[Preemption]) -> WaitingReason:
    """Return the reason of a job for which others make way."""
    victims = [each.job for each in preemptions]
    furthest = max((each.depth for each in preemptions), key=list(Depth).index)
    makes, them = ("makes", "it") if len(victims) == 1 else ("make", "each of them")
    cost_seconds = max(each.cost_seconds for each in preemptions)
    return WaitingReason(
        WaitingCode.AWAITING_PREEMPTION,
        f"{listed(victims)} {makes} way for it, at a cost of about {seconds(cost_seconds)} for {them}.",
        _WHEN_MADE_WAY[furthest],
        blockers=tuple(victims),
    )


def seconds(value: float) -> str:
    """Return a time as people read it: ``0.2 s``, ``50 s``."""
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def awaiting_departure(leaving: Sequence[str]) -> WaitingReason:
    """Return the reason of a job whose GPUs are held by jobs that leave, or are about to be parked."""
    return WaitingReason(
        WaitingCode.AWAITING_DEPARTURE,
        f"GPUs are kept for it that {listed(leaving)} {'is' if len(leaving) == 1 else 'are'} leaving.",
        "It starts when their workers are gone, or have stopped to make way.",
        blockers=tuple(leaving),
    )


def behind(key: str) -> WaitingReason:
    """Return the reason of a job whose turn it is not."""
    return WaitingReason(
        WaitingCode.BEHIND_OTHERS,
        f"{key} comes before it and waits for room on the same GPUs; the order policy lets nobody pass.",
        f"It is considered once {key} has started.",
        blockers=(key,),
    )


def waiting_for_others(job: Job, room: Room, supply: Supply, placement: PlacementPolicy) -> WaitingReason:
    """Return the reason of a job that does not fit in what is free, and for which nobody makes way."""
    return (
        _awaiting_consolidation(job, room, placement)
        or _awaiting_memory(job, room)
        or _awaiting_better_place(job, room, placement)
        or _fragmented(job, room)
        or _busy(job, room, supply)
    )


def listed(keys: Sequence[str]) -> str:
    """Name a few jobs, and count the others."""
    if len(keys) <= _NAMED:
        return " and ".join([", ".join(keys[:-1]), keys[-1]] if len(keys) > 1 else keys)
    return f"{', '.join(keys[:_NAMED])} and {len(keys) - _NAMED} more"


def _awaiting_consolidation(job: Job, room: Room, placement: PlacementPolicy) -> WaitingReason | None:
    """Return the reason of a gang that its own mode, or the policy, has wait for fewer nodes than are free now."""
    mode = job.demand.mode
    if job.demand.workers == 1 or mode is PlacementMode.SPREAD:
        return None
    looser = (
        (PlacementMode.AUTO, PlacementMode.SPREAD)
        if mode is PlacementMode.CONSOLIDATE
        else (PlacementMode.SPREAD,)
    )
    for other in looser:
        anywhere = placement.place(replace(job, demand=replace(job.demand, mode=other)), room)
        if anywhere is not None:
            nodes = room.fewest_nodes(job)
            spread = len({worker.node for worker in anywhere})
            return WaitingReason(
                WaitingCode.AWAITING_CONSOLIDATION,
                f"It needs {needs(job.demand)} on {_nodes(nodes)}; what is free lies on {_nodes(spread)}.",
                f"It starts when {_nodes(nodes)} can hold it; with placement: {other} it would start now.",
            )
    return None


def _awaiting_memory(job: Job, room: Room) -> WaitingReason | None:
    refusals = list(room.memory_refusals(job))
    if len(refusals) + room.free_gpus(job) < job.demand.gpus:
        return None
    best = min(refusals, key=lambda why: why.reason is not RefusalReason.AWAITING_PROFILE, default=None)
    if best is None or best.reason is not RefusalReason.AWAITING_PROFILE:
        return None
    return WaitingReason(
        WaitingCode.AWAITING_PROFILE,
        f"It needs {needs(job.demand)}, and shared GPUs lack memory for it: {best.message}.",
        "It can start when the first iterations of these jobs have shown what they use, or when one ends.",
        lacking_bytes=best.lacking_bytes,
        blockers=best.blockers,
    )


def _awaiting_better_place(job: Job, room: Room, placement: PlacementPolicy) -> WaitingReason | None:
    if isinstance(placement, BestFit) or BestFit().place(job, room) is None:
        return None
    return WaitingReason(
        WaitingCode.AWAITING_BETTER_PLACE,
        f"It needs {needs(job.demand)}, and there is room; the placement policy {type(placement).__name__} waits for a place "
        f"that serves it, or those it would share GPUs with, better.",
        "It starts when other GPUs become free; with the placement policy best-fit it would start now.",
    )


def _fragmented(job: Job, room: Room) -> WaitingReason | None:
    demand = job.demand
    free_gpus = room.free_gpus(job)
    if free_gpus >= demand.gpus > 1:
        return WaitingReason(
            WaitingCode.GPUS_FRAGMENTED,
            f"It needs {needs(demand)}; {free_gpus} have room for it, and no nodes have {demand.gpus_per_worker} "
            f"together for each of the workers.",
            "It starts when GPUs of the same node become free.",
        )
    share_percent = min((share for _, share in room.choices(job)), default=0)
    needed_percent = share_percent * demand.gpus
    if not share_percent or room.free_sum_percent(job) < needed_percent:
        return None
    return WaitingReason(
        WaitingCode.GPUS_FRAGMENTED,
        f"It needs {needs(demand)}; {room.free_sum_percent(job)} percent are free in sum, and at most "
        f"{room.most_free_percent(job)} percent of one GPU; {_have_room(free_gpus)}.",
        "It starts when more of the same GPU becomes free.",
        lacking_gpus=demand.gpus - free_gpus,
    )


def _busy(job: Job, room: Room, supply: Supply) -> WaitingReason:
    free_gpus = room.free_gpus(job)
    lacking = max(1, job.demand.gpus - free_gpus)
    return WaitingReason(
        WaitingCode.GPUS_BUSY,
        f"It needs {needs(job.demand)}; of the {count_suited(supply.suited(job.demand))}, {_have_room(free_gpus)}.",
        f"It starts when {lacking} more {'GPU has' if lacking == 1 else 'GPUs have'} room, as others end or make way.",
        lacking_gpus=lacking,
    )


def _have_room(gpus: int) -> str:
    if gpus == 0:
        return "none has room"
    return "1 has room" if gpus == 1 else f"{gpus} have room"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
