"""What a cycle notes about one job before it plans: what happened to its workers, and whether the planner is to see it.

``advance`` is a pure function of the job, its pods and its nodes. It moves the status on by as many steps as the facts
demand, and says which pods have to go. What the job is to do next is the planner's decision, taken from all standings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from laneway.api.clock_text import to_seconds, to_text
from laneway.api.training_job import ConditionType, TrainingJobStatus, WaitingStatus
from laneway.operator import accounting, transitions
from laneway.operator.gang import (
    Attempt,
    Outcome,
    Surroundings,
    Verdict,
    due_on_sick_gpus_seconds,
    judge,
)
from laneway.operator.progress import progress_made
from laneway.operator.records.job_record import JobRecord, Wish
from laneway.operator.records.priority_class import PriorityClassRecord
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.sessions import actual_gpus, measured_profile, turns_taken
from laneway.scheduling import JobState, WorkerPlacement

_LONGEST_BACKOFF_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Happening:
    """Something worth an event."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a job stands in this cycle."""

    job: JobRecord
    """With the status that it is to have, as far as known."""

    state: JobState | None
    """As the planner is to see it; None: not at all."""

    holds: tuple[WorkerPlacement, ...] = ()
    """What the planner is to count as held by it."""

    accounted: frozenset[str] = frozenset()
    """Uids of the pods that ``holds`` stands for."""

    doomed: tuple[WorkerPod, ...] = ()
    """Pods to be deleted."""

    present: frozenset[int] = frozenset()
    """Ranks of the current attempt that have a pod."""

    happenings: tuple[Happening, ...] = ()
    priority: int = 0
    due_seconds: float | None = None
    """When it has to be looked at again though nothing changes."""

    expired: bool = False
    """It ended long enough ago to be deleted."""

    def becomes(self, status: TrainingJobStatus, *happenings: Happening) -> Standing:
        """Return this standing with another status, and what happened."""
        if status is self.job.status and not happenings:
            return self
        return replace(self, job=self.job.with_status(status), happenings=(*self.happenings, *happenings))


@dataclass(frozen=True, slots=True)
class Facts:
    """What all jobs are judged by."""

    around: Surroundings
    priority_classes: Mapping[str, PriorityClassRecord]
    refusals: Mapping[tuple[str, int], str]
    """By job uid and attempt: what the API server said when it refused one of the attempt's objects."""

    @property
    def now_seconds(self) -> float:
        """The time of the cycle."""
        return self.around.now_seconds


def advance(job: JobRecord, pods: tuple[WorkerPod, ...], facts: Facts) -> Standing:
    """Return where the job stands after what happened to it."""
    if job.spoiled:
        return Standing(job, None)
    mine = tuple(pod for pod in pods if pod.attempt == job.status.attempt)
    # Nodes report the last figures of a worker when it has ended already, so this comes before every other question.
    standing = Standing(job, None).becomes(_measured(job.status, mine, facts))
    if job.finished:
        return _leaving(_after_the_end(standing, facts), pods, facts)
    if job.deleting:
        return _leaving(standing, pods, facts)
    standing = standing.becomes(
        transitions.first_visited(standing.job.status, job.created_seconds, facts.now_seconds)
    )
    standing = _admit(standing, pods, facts)
    if job.wish is None:
        return standing
    if job.placed:
        standing = _follow(standing, job.wish, pods, facts)
    if standing.job.placed and not standing.job.finished:
        return standing
    return _wait(_leaving(standing, pods, facts), pods, facts)


def _admit(standing: Standing, pods: tuple[WorkerPod, ...], facts: Facts) -> Standing:
    job, now_seconds = standing.job, facts.now_seconds
    reason, message = "InvalidSpec", job.problem
    if job.wish is not None:
        name = job.wish.spec.priority_class_name
        priority = _priority(name, facts.priority_classes)
        if priority is None and job.placed:
            priority = max(
                (pod.priority for pod in pods), default=0
            )  # the class was deleted; what runs keeps its value
        if priority is not None:
            standing = replace(standing, priority=priority)
            status = _observed(transitions.admitted(job.status, now_seconds), job)
            was = transitions.condition(job.status, ConditionType.ADMITTED)
            if was is not None and was.status == "True":
                return standing.becomes(status)
            return standing.becomes(status, Happening("Admitted", "the job may be scheduled"))
        reason = "UnknownPriorityClass"
        message = (
            f"priorityClassName: there is no PriorityClass {name!r}: create it, or write one of "
            f"{', '.join(sorted(facts.priority_classes)) or 'those that you create'}, or leave it out"
        )
    was = transitions.condition(job.status, ConditionType.ADMITTED)
    status = _observed(transitions.refused(job.status, reason, message, now_seconds), job)
    if not job.placed:
        waiting = WaitingStatus(
            reason=reason,
            message=message,
            unblock="a corrected spec" if reason == "InvalidSpec" else "the PriorityClass being there",
            since=status.waiting.since if status.waiting else to_text(job.created_seconds),
        )
        status = transitions.changed(status, waiting=waiting)
    news = (
        ()
        if was is not None and (was.reason, was.message) == (reason, message)
        else (Happening("Refused", message, warning=True),)
    )
    return standing.becomes(status, *news)


def _priority(name: str | None, classes: Mapping[str, PriorityClassRecord]) -> int | None:
    if name is None:
        return next((each.value for each in classes.values() if each.is_default), 0)
    found = classes.get(name)
    return None if found is None else found.value


def _observed(status: TrainingJobStatus, job: JobRecord) -> TrainingJobStatus:
    return transitions.changed(status, observed_generation=job.generation)


def _follow(standing: Standing, wish: Wish, pods: tuple[WorkerPod, ...], facts: Facts) -> Standing:
    """Judge the current attempt, and take the step that the verdict demands."""
    job, now_seconds = standing.job, facts.now_seconds
    if len(job.status.placement) != wish.demand.workers:
        message = f"the status places {len(job.status.placement)} of {wish.demand.workers} workers"
        lost = transitions.unplaced(job.status, "PlacementLost", message, now_seconds, now_seconds)
        return standing.becomes(lost, Happening("Rollback", message, warning=True))
    mine = tuple(pod for pod in pods if pod.attempt == job.status.attempt)
    attempt = Attempt(
        workers=wish.demand.workers,
        placed_seconds=transitions.since_seconds(job.status, ConditionType.PLACED, now_seconds),
        was_running=job.running,
        pods=mine,
        refused=facts.refusals.get((job.uid, job.status.attempt), ""),
    )
    verdict = judge(attempt, facts.around)
    if verdict.started_seconds is not None and not job.running:
        standing = _start(standing, attempt, verdict, now_seconds)
    standing = replace(standing, present=frozenset(pod.rank for pod in mine))
    if verdict.outcome in (Outcome.STARTING, Outcome.RUNNING):
        return _go_on(standing, wish, mine, verdict, facts, pods)
    return _end_attempt(standing, wish, verdict, facts)


def _start(standing: Standing, attempt: Attempt, verdict: Verdict, now_seconds: float) -> Standing:
    assert verdict.started_seconds is not None
    # Containers' times have whole seconds and the node's own clock: never before the placement, never in the future.
    start_seconds = min(now_seconds, max(verdict.started_seconds, attempt.placed_seconds))
    workers = "the worker runs" if attempt.workers == 1 else f"all {attempt.workers} workers run"
    status = transitions.started(standing.job.status, "AllWorkersRun", workers, start_seconds)
    nodes = ", ".join(sorted({worker.node for worker in status.placement}))
    return standing.becomes(status, Happening("Started", f"attempt {status.attempt}: {workers} on {nodes}"))


def _go_on(
    standing: Standing,
    wish: Wish,
    mine: tuple[WorkerPod, ...],
    verdict: Verdict,
    facts: Facts,
    pods: tuple[WorkerPod, ...],
) -> Standing:
    status, now_seconds = standing.job.status, facts.now_seconds
    limit_seconds = wish.spec.active_deadline_seconds
    due_seconds, move_seconds = None, due_on_sick_gpus_seconds(mine, facts.around)
    if verdict.outcome == Outcome.STARTING:
        waiting = status.waiting or WaitingStatus(reason=transitions.STARTING, message="")
        waiting = waiting.model_copy(
            update={"reason": transitions.STARTING, "message": verdict.message, "unblock": ""}
        )
        status = transitions.changed(status, waiting=waiting)
        placed_seconds = transitions.since_seconds(status, ConditionType.PLACED, now_seconds)
        due_seconds = placed_seconds + facts.around.patience.gang_timeout_seconds
    elif limit_seconds is not None:
        left_seconds = limit_seconds - accounting.executed_seconds(accounting.counted(status, now_seconds))
        due_seconds = now_seconds + left_seconds
        if left_seconds <= 0:
            message = f"the job ran for {limit_seconds} s, its activeDeadlineSeconds"
            ended = transitions.failed(status, "DeadlineExceeded", message, now_seconds, now_seconds)
            return standing.becomes(ended, Happening("Failed", message, warning=True))
    corrected = _corrected(status, mine, facts)
    state = JobState.RUNNING if verdict.outcome == Outcome.RUNNING else JobState.STARTING
    return replace(
        standing.becomes(corrected),
        state=state,
        holds=_as_plan(corrected),
        accounted=frozenset(pod.uid for pod in mine),
        doomed=tuple(pod for pod in pods if pod.attempt != status.attempt and not pod.deleting),
        due_seconds=min((each for each in (due_seconds, move_seconds) if each is not None), default=None),
    )


def _end_attempt(standing: Standing, wish: Wish, verdict: Verdict, facts: Facts) -> Standing:
    status, now_seconds, patience = standing.job.status, facts.now_seconds, facts.around.patience
    message = verdict.message
    end_seconds = now_seconds if verdict.ended_seconds is None else min(now_seconds, verdict.ended_seconds)
    if verdict.outcome == Outcome.SUCCEEDED:
        return standing.becomes(
            transitions.succeeded(status, message, end_seconds, now_seconds), Happening("Succeeded", message)
        )
    if verdict.outcome == Outcome.FAILED:
        limit = wish.spec.backoff_limit
        if status.restarts >= limit:
            why = (
                f"{message}; it was restarted {status.restarts} times, its backoffLimit" if limit else message
            )
            ended = transitions.failed(status, verdict.reason, why, end_seconds, now_seconds)
            return standing.becomes(ended, Happening("Failed", why, warning=True))
        again = transitions.restarted(status, "WorkerFailed", message, end_seconds, now_seconds)
        note = f"{message}; restart {again.restarts} of at most {limit}"
        return standing.becomes(again, Happening("Restarted", note, warning=True))
    status = transitions.unplaced(status, verdict.reason, message, end_seconds, now_seconds)
    until_seconds = now_seconds + patience.avoid_node_seconds
    if verdict.avoid and patience.avoid_node_seconds:
        status = transitions.kept_away(status, verdict.avoid, message, until_seconds, now_seconds)
    reason = "Rollback" if verdict.outcome == Outcome.ROLLED_BACK else "Disrupted"
    return standing.becomes(status, Happening(reason, message, warning=True))


def _measured(status: TrainingJobStatus, mine: tuple[WorkerPod, ...], facts: Facts) -> TrainingJobStatus:
    """Return the status with what the nodes measured of this attempt; figures never go back."""
    sessions = facts.around.sessions
    taken = status.turns_before_attempt + turns_taken(mine, sessions)
    profile = measured_profile(mine, sessions) or status.profile
    progress = progress_made(status.progress, mine, sessions, facts.now_seconds)
    return transitions.changed(status, turns=max(status.turns, taken), profile=profile, progress=progress)


def _corrected(status: TrainingJobStatus, mine: tuple[WorkerPod, ...], facts: Facts) -> TrainingJobStatus:
    """Return the status with the GPUs that the kubelets really gave, where these make a placement of distinct GPUs."""
    actual = {pod.rank: actual_gpus(pod, facts.around.sessions) for pod in mine}
    placement = tuple(
        worker.model_copy(update={"gpus": actual[worker.worker]})
        if len(actual.get(worker.worker, ())) == len(worker.gpus)
        else worker
        for worker in status.placement
    )
    gpus = [gpu for worker in placement for gpu in worker.gpus]
    if placement == status.placement or len(set(gpus)) != len(gpus):
        return status
    return transitions.changed(status, placement=placement)


def _as_plan(status: TrainingJobStatus) -> tuple[WorkerPlacement, ...]:
    return tuple(
        WorkerPlacement(worker.worker, worker.node, worker.gpus, worker.share_percent)
        for worker in status.placement
    )


def _leaving(standing: Standing, pods: tuple[WorkerPod, ...], facts: Facts) -> Standing:
    """The job is not to have workers: those that are alive have to go, and hold their GPUs until they are gone."""
    alive = [pod for pod in pods if not pod.ended]
    finished = standing.job.finished
    # The pods of a finished job stay for their logs; those of one that is to start again are in its way.
    doomed = tuple(pod for pod in (alive if finished else pods) if not pod.deleting)
    holding: dict[int, WorkerPlacement] = {}
    accounted = set()
    for pod in alive:
        gpus = actual_gpus(pod, facts.around.sessions)
        if gpus and pod.share_percent and pod.rank not in holding:
            holding[pod.rank] = WorkerPlacement(pod.rank, pod.node, gpus, pod.share_percent)
            accounted.add(pod.uid)
    holds = tuple(holding[rank] for rank in sorted(holding))
    return replace(
        standing,
        state=JobState.LEAVING if holds and standing.job.wish is not None else None,
        holds=holds,
        accounted=frozenset(accounted) if standing.job.wish is not None else frozenset(),
        doomed=doomed,
        present=frozenset(),
    )


def _wait(standing: Standing, pods: tuple[WorkerPod, ...], facts: Facts) -> Standing:
    """Say whether a job without GPUs is up for the plan; if not, its status says why."""
    job, now_seconds = standing.job, facts.now_seconds
    if job.finished or not _is_admitted(job):
        return standing
    status = transitions.changed(job.status, avoid=transitions.unexpired(job.status.avoid, now_seconds))
    standing = standing.becomes(status)
    if pods:
        names = ", ".join(f"{pod.name} on {pod.node or 'no node'}" for pod in pods[:3])
        message = f"its last workers are ending: {names}" + (
            f" and {len(pods) - 3} more" if len(pods) > 3 else ""
        )
        unblock = "their end; a pod on a node that does not answer goes when the node is back, deleted, or tainted out-of-service"
        return standing.becomes(_waits_for(status, transitions.ENDING, message, unblock))
    again_seconds = _backoff_until(status, facts)
    if again_seconds is not None and again_seconds > now_seconds:
        placed = transitions.condition(status, ConditionType.PLACED)
        message = placed.message if placed else ""
        waiting = _waits_for(
            status,
            transitions.BACKING_OFF,
            f"{message}; starts again not before {to_text(again_seconds)}",
            "time",
        )
        return replace(standing.becomes(waiting), due_seconds=again_seconds)
    due_seconds = min((to_seconds(each.until) for each in status.avoid), default=None)
    return replace(standing, state=JobState.WAITING, due_seconds=due_seconds)


def _backoff_until(status: TrainingJobStatus, facts: Facts) -> float | None:
    """Return when a job that failed or was refused may be tried again; the Placed condition remembers what happened."""
    placed = transitions.condition(status, ConditionType.PLACED)
    if placed is None or placed.status != "False":
        return None
    since_seconds, patience = to_seconds(placed.last_transition_time), facts.around.patience
    if placed.reason == "WorkerFailed":
        wait_seconds = patience.restart_backoff_seconds * 2.0 ** max(0, status.restarts - 1)
        return since_seconds + min(wait_seconds, _LONGEST_BACKOFF_SECONDS)
    if placed.reason == "PodRefused":
        return since_seconds + patience.refusal_backoff_seconds
    return None


def _waits_for(status: TrainingJobStatus, reason: str, message: str, unblock: str) -> TrainingJobStatus:
    since = status.waiting.since if status.waiting else None
    waiting = WaitingStatus(reason=reason, message=message, unblock=unblock, since=since)
    return transitions.changed(status, waiting=waiting)


def _is_admitted(job: JobRecord) -> bool:
    found = transitions.condition(job.status, ConditionType.ADMITTED)
    return found is not None and found.status == "True"


def _after_the_end(standing: Standing, facts: Facts) -> Standing:
    """See to it that an ended job is deleted in time."""
    job = standing.job
    ttl_seconds = job.wish.spec.ttl_seconds_after_finished if job.wish else None
    completed = job.status.completion_time
    if ttl_seconds is None or completed is None or job.deleting:
        return standing
    due_seconds = to_seconds(completed) + ttl_seconds
    return replace(standing, due_seconds=due_seconds, expired=due_seconds <= facts.now_seconds)
