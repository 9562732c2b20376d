"""Why a job waits that could run in this cluster, in words for its user: what happened, why, and what to do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from laneway.api.job_names import JobSentence, within
from laneway.api.training_job import PlacementMode
from laneway.scheduling.explain.mps_limit import awaiting_mps_limit
from laneway.scheduling.gpus.capacity import ClusterCapacity, needs
from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.host_resources import NOTHING, format_amount, format_requests, scarcest
from laneway.scheduling.model.plan import Preemption, PreemptionAction, WaitingCode, WaitingReason
from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.placement.best_fit import BestFit
from laneway.scheduling.placement.policy import PlacementPolicy, SharesGPUs


def suspended() -> WaitingReason:
    """Return the reason of a suspended job."""
    return WaitingReason(
        WaitingCode.SUSPENDED,
        "The job is suspended.",
        "Set spec.suspend to false to let it compete for GPUs.",
    )


def not_reached() -> WaitingReason:
    """Return the reason of a job that a truncated cycle did not reach."""
    return WaitingReason(
        WaitingCode.NOT_CONSIDERED,
        "Many jobs ahead of it are starting in this cycle.",
        "It is considered in the next cycle, within a moment.",
    )


def no_workers(job: Job, elastic_gpus: int, given: Mapping[str, int]) -> WaitingReason:
    """Return the reason of an elastic job that the elastic policy gives no workers.

    Args:
        job: the job, with the fewest workers that it may have.
        elastic_gpus: the GPUs that jobs without a range leave to elastic jobs.
        given: the workers of each elastic job.
    """
    others = tuple(sorted(key for key, workers in given.items() if workers))
    lacking = job.demand.gpus - elastic_gpus
    if lacking > 0:
        return WaitingReason(
            WaitingCode.AWAITING_WORKERS,
            f"The elastic policy gives it no workers for now: it needs {needs(job.demand)} at least, and jobs without a range of workers leave "
            f"{elastic_gpus} to elastic jobs.",
            "It starts when enough of those jobs have ended.",
            lacking_gpus=lacking,
        )
    said = f"The elastic policy gives it no workers for now: it needs {needs(job.demand)} at least"
    return WaitingReason(
        WaitingCode.AWAITING_WORKERS,
        JobSentence(f"{said}, and the {elastic_gpus} GPUs for elastic jobs go to ", others, ".")
        if others
        else f"{said}.",
        "It starts when one of those jobs ends, or when the policy takes workers from them: it divides the GPUs again every minute.",
        blockers=others,
    )


def awaiting_round() -> WaitingReason:
    """Return the reason of a job that is not part of a round that begins."""
    return WaitingReason(
        WaitingCode.BEHIND_OTHERS,
        "Other jobs run in this round: they have had less of their share.",
        "It starts in a later round, or once these jobs have their GPUs and others are idle.",
    )


def paused(state: JobState) -> WaitingReason:
    """Return the reason of a paused or offloaded job that cannot resume."""
    return WaitingReason(
        WaitingCode.GPUS_BUSY,
        f"The job is {state.lower()}: a job ahead of it uses its GPUs.",
        "It resumes in place when that job ends or is preempted.",
    )


_STARTS_WHEN = {
    PreemptionAction.PAUSE: "It starts when they have stopped at the end of an iteration.",
    PreemptionAction.OFFLOAD: "It starts when their memory is on the host.",
    PreemptionAction.EVICT: "It starts when their workers have saved checkpoints and are gone.",
}


def awaiting_preemption(preemptions: Sequence[Preemption]) -> WaitingReason:
    """Return the reason of a job for which others are preempted."""
    victims = tuple(each.job for each in preemptions)
    largest = max((each.action for each in preemptions), key=list(PreemptionAction).index)
    its, cost_of = ("its", "it costs") if len(victims) == 1 else ("their", "it costs each of them")
    cost_seconds = max(each.cost_seconds for each in preemptions)
    return WaitingReason(
        WaitingCode.AWAITING_PREEMPTION,
        JobSentence(
            "Waiting for ",
            victims,
            f" to release {its} GPUs: preempted for this job; {cost_of} about {format_seconds(cost_seconds)}.",
            after_unnamed=f" to release {its} GPUs: preempted for this job.",
        ),
        _STARTS_WHEN[largest],
        blockers=victims,
    )


def format_seconds(value: float) -> str:
    """Return a time in seconds for people: ``0.2 s``, ``50 s``."""
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def awaiting_release(releasing: Sequence[str]) -> WaitingReason:
    """Return the reason of a job that is pipelined on GPUs which others are releasing.

    Args:
        releasing: the keys of jobs, ``namespace/name``, and of pods' sessions that end, which say more after the pod's name.
    """
    names = tuple(dict.fromkeys("/".join(key.split("/")[:2]) for key in releasing))
    return WaitingReason(
        WaitingCode.AWAITING_RELEASE,
        JobSentence("Waiting for ", names, f" to release {'its' if len(names) == 1 else 'their'} GPUs."),
        "It starts when their workers are gone or paused.",
        blockers=names,
    )


def reserved(holders: Sequence[Job], start_seconds: float) -> WaitingReason:
    """Return the reason of a job that goes first and waits for its start time.

    Args:
        holders: the jobs that must release GPUs until then.
        start_seconds: the time until then; infinite: unknown.
    """
    keys = tuple(holder.key for holder in holders)
    when = "when they end" if math.isinf(start_seconds) else f"in about {format_seconds(start_seconds)}"
    return WaitingReason(
        WaitingCode.HAS_RESERVATION,
        JobSentence("Goes first, and waits for GPUs of ", keys, ", which may not be preempted yet."),
        f"It starts {when}; until then no job may start that would delay it.",
        blockers=keys,
    )


def behind_reservation(key: str) -> WaitingReason:
    """Return the reason of a job that would delay one that goes first."""
    return WaitingReason(
        WaitingCode.BEHIND_OTHERS,
        JobSentence(
            "",
            (key,),
            " goes first and has GPUs reserved; this job could not be preempted when that one is to start.",
        ),
        "It is considered once that job has started, or when other GPUs are free.",
        blockers=(key,),
    )


def behind(key: str) -> WaitingReason:
    """Return the reason of a job that may not pass another one."""
    return WaitingReason(
        WaitingCode.BEHIND_OTHERS,
        JobSentence(
            "", (key,), " is ahead of it and waits for the same GPUs; the order policy lets no job pass."
        ),
        "It is considered once that job has started.",
        blockers=(key,),
    )


def waiting_for_others(
    job: Job, capacity: FreeCapacity, cluster_capacity: ClusterCapacity, placement: PlacementPolicy
) -> WaitingReason:
    """Return the reason of a job that does not fit on idle GPUs, and for which no job is preempted."""
    free_gpus = capacity.free_gpus(job)
    reason = (
        _awaiting_host_resources(job, capacity, placement)
        or _awaiting_consolidation(job, capacity, placement)
        or _awaiting_memory(job, capacity)
        or awaiting_mps_limit(job, capacity)
        or _awaiting_better_place(job, capacity, placement)
        or _fragmented(job, capacity, free_gpus)
        or _busy(job, cluster_capacity, capacity.avoided(job), free_gpus)
    )
    if job.demand.preempts:
        return reason
    refused = "kube-scheduler or a kubelet refused its workers: no job is preempted for it until that may have changed."
    return replace(reason, unblock=f"{reason.unblock} {refused}")


def _awaiting_host_resources(
    job: Job, capacity: FreeCapacity, placement: PlacementPolicy
) -> WaitingReason | None:
    """Return the reason of a job that would start if its pods requested nothing beside GPUs."""
    demand = job.demand
    limits = capacity.host_limits(job)
    if not limits:
        return None
    bare = replace(job, demand=replace(demand, requests=NOTHING))
    if placement.place(bare, capacity) is None:
        return None
    left = {node: capacity.host_left(node) or {} for node in sorted(limits)}
    short = Counter(scarcest(demand.requests, each) for each in left.values())
    lacking = min(short, key=lambda name: (-short[name], name))
    node = max(left, key=lambda each: left[each].get(lacking, 0))
    has = format_amount(lacking, max(0, left[node].get(lacking, 0)))
    return WaitingReason(
        WaitingCode.HOST_RESOURCES_BUSY,
        f"It needs {needs(demand)}, which are available, but their nodes have too little {lacking} left: each worker "
        f"requests {format_requests(demand.requests)}, and {capacity.node_name(node)} has {has} left.",
        f"It starts when pods there end, or when the template requests less {lacking}.",
    )


def _awaiting_consolidation(
    job: Job, capacity: FreeCapacity, placement: PlacementPolicy
) -> WaitingReason | None:
    """Return the reason of a gang that waits for fewer nodes, by its own mode or by the policy."""
    mode = job.demand.mode
    if job.demand.workers == 1 or mode is PlacementMode.SPREAD or not capacity.has_enough_gpus(job):
        return None
    looser = (
        (PlacementMode.AUTO, PlacementMode.SPREAD)
        if mode is PlacementMode.CONSOLIDATE
        else (PlacementMode.SPREAD,)
    )
    for other in looser:
        anywhere = placement.place(replace(job, demand=replace(job.demand, mode=other)), capacity)
        if anywhere is not None:
            wanted = _nodes(capacity.fewest_nodes(job))
            spread = len({worker.node for worker in anywhere})
            return WaitingReason(
                WaitingCode.AWAITING_CONSOLIDATION,
                f"It needs {needs(job.demand)} on {wanted}; the free GPUs are on {_nodes(spread)}.",
                f"It starts when {wanted} can hold it; with placement: {other} it would start now.",
            )
    return None


def _awaiting_memory(job: Job, capacity: FreeCapacity) -> WaitingReason | None:
    best = capacity.awaited_profile(job)
    if best is None:
        return None
    return WaitingReason(
        WaitingCode.AWAITING_PROFILE,
        within(
            f"It needs {needs(job.demand)}, and the shared GPUs have too little memory for it: ",
            best.message,
            ".",
        ),
        "It can start when the first iterations of these jobs have been measured, or when one of them ends.",
        lacking_bytes=best.lacking_bytes,
        blockers=best.blockers,
    )


def _awaiting_better_place(
    job: Job, capacity: FreeCapacity, placement: PlacementPolicy
) -> WaitingReason | None:
    if isinstance(placement, BestFit) or not capacity.has_enough_gpus(job):
        return None
    if BestFit().place(job, capacity) is None:
        return None
    if isinstance(placement, SharesGPUs):
        return WaitingReason(
            WaitingCode.AWAITING_BETTER_PLACE,
            f"It needs {needs(job.demand)}. No GPUs are free for it alone, and it joins no other jobs: together they would do too little "
            "more, or one of them would lose more than its maxSlowdownPercent.",
            "It starts when GPUs become free, or when jobs run on them with which it can share.",
        )
    return WaitingReason(
        WaitingCode.AWAITING_BETTER_PLACE,
        f"It needs {needs(job.demand)}, and they are available; the placement policy {type(placement).__name__} waits for GPUs "
        f"where it, or the jobs that it would share them with, run faster.",
        "It starts when other GPUs become free; with the placement policy best-fit it would start now.",
    )


def _fragmented(job: Job, capacity: FreeCapacity, free_gpus: int) -> WaitingReason | None:
    demand = job.demand
    if free_gpus >= demand.gpus > 1:
        return WaitingReason(
            WaitingCode.GPUS_FRAGMENTED,
            f"It needs {needs(demand)}; {free_gpus} are available, but no node has {demand.gpus_per_worker} of them "
            f"for each worker.",
            "It starts when GPUs of the same node become free.",
        )
    share_percent = min((share for _, share in capacity.choices(job)), default=0)
    free_percent, most_percent = capacity.unshared_sum_percent(job), capacity.most_unshared_percent(job)
    if not most_percent < share_percent <= free_percent / demand.gpus:
        return None
    return WaitingReason(
        WaitingCode.GPUS_FRAGMENTED,
        f"It needs {needs(demand)}; {free_percent} percent are free in total, but at most {most_percent} percent on one GPU.",
        "It starts when more of the same GPU becomes free.",
        lacking_gpus=demand.gpus - free_gpus,
    )


def _busy(
    job: Job, cluster_capacity: ClusterCapacity, avoided: frozenset[int], free_gpus: int
) -> WaitingReason:
    lacking = max(1, job.demand.gpus - free_gpus)
    unusable = cluster_capacity.unusable(job.demand, avoided)
    return WaitingReason(
        WaitingCode.GPUS_BUSY,
        f"It needs {needs(job.demand)}; {free_gpus} of {cluster_capacity.suitable_gpus(job.demand)} suitable GPUs "
        f"{'is' if free_gpus == 1 else 'are'} available{f'; {unusable}' if unusable else ''}.",
        f"It starts when {lacking} more {'GPU becomes' if lacking == 1 else 'GPUs become'} available, as other jobs end or are "
        "preempted.",
        lacking_gpus=lacking,
    )


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
