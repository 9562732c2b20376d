"""What a cycle notes about one job before it plans: what happened to its workers, and whether the planner is to see it.

``advance`` is a pure function of the job, its pods and its nodes. It moves the status on by as many steps as the facts
demand, and says which pods have to go. What the job is to do next is the planner's decision, taken from all standings.

    admission ─▶ an attempt: gang (verdict), parking ─▶ attempt_end ─▶ between_attempts ─▶ the plan, or the next attempt
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from laneway.api.job_standing import WaitingStatus
from laneway.api.training_job import ConditionType, TrainingJobStatus
from laneway.operator import parking, transitions
from laneway.operator.admission import admit
from laneway.operator.attempt_end import end_attempt
from laneway.operator.between_attempts import after_the_end, had_succeeded, leaving, wait
from laneway.operator.deadline import deadline_due_seconds, past_deadline
from laneway.operator.gang import Attempt, Outcome, Verdict, due_on_sick_gpus_seconds, has_run, judge
from laneway.operator.progress import progress_made
from laneway.operator.records.job_record import JobRecord
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.sessions import actual_gpus, measured_profile, turns_taken
from laneway.operator.standing import Facts, Happening, Standing
from laneway.scheduling import Depth, JobState, WorkerPlacement


@dataclass(frozen=True, slots=True)
class _Terms:
    """What an attempt is held to. Of a spec that became wrong while the job ran, only what the status says is left."""

    workers: int
    backoff_limit: int
    deadline_seconds: int | None


def advance(job: JobRecord, pods: tuple[WorkerPod, ...], facts: Facts) -> Standing:
    """Return where the job stands after what happened to it."""
    if job.spoiled:
        return Standing(job, None)
    mine = tuple(pod for pod in pods if pod.attempt == job.status.attempt)
    # Nodes report the last figures of a worker when it has ended already, so this comes before every other question.
    standing = Standing(job, None).becomes(_measured(job.status, mine, facts))
    if job.finished:
        return leaving(after_the_end(standing, facts), pods, facts)
    if job.deleting:
        return leaving(standing, pods, facts)
    standing = standing.becomes(
        transitions.first_visited(standing.job.status, job.created_seconds, facts.now_seconds)
    )
    standing = admit(standing, pods, facts)
    if job.placed:
        standing = _follow(standing, _terms(job), pods, facts)
    elif (succeeded := had_succeeded(standing, pods, facts)) is not None:
        return leaving(after_the_end(succeeded, facts), pods, facts)
    if standing.job.placed and not standing.job.finished:
        return standing if job.wish is not None else _unplannable(standing)
    return wait(leaving(standing, pods, facts), pods, facts)


def _terms(job: JobRecord) -> _Terms:
    if job.wish is None:
        return _Terms(max(1, len(job.status.placement)), job.status.restarts + 1, None)
    spec = job.wish.spec
    return _Terms(job.wish.demand.workers, spec.backoff_limit, spec.active_deadline_seconds)


def _unplannable(standing: Standing) -> Standing:
    """A job whose spec became wrong while it runs goes on; the planner sees strangers on its GPUs, which nobody can move."""
    return replace(standing, state=None, holds=(), accounted=frozenset())


def _follow(standing: Standing, terms: _Terms, pods: tuple[WorkerPod, ...], facts: Facts) -> Standing:
    """Judge the current attempt, and take the step that the verdict demands."""
    job, now_seconds = standing.job, facts.now_seconds
    if len(job.status.placement) != terms.workers:
        message = f"the status places {len(job.status.placement)} of {terms.workers} workers"
        lost = transitions.unplaced(job.status, "PlacementLost", message, now_seconds, now_seconds)
        return standing.becomes(lost, Happening("Rollback", message, warning=True))
    mine = tuple(pod for pod in pods if pod.attempt == job.status.attempt)
    parked = parking.parking_depth(job.status)
    attempt = Attempt(
        workers=terms.workers,
        placed_seconds=transitions.since_seconds(job.status, ConditionType.PLACED, now_seconds),
        was_running=job.running or parked is not None,
        pods=mine,
        placed_on={each.worker: each.node for each in job.status.placement},
        refused=facts.refusals.get((job.uid, job.status.attempt), ""),
    )
    verdict = judge(attempt, facts.around)
    if verdict.started_seconds is not None and not job.running and parked is None:
        standing = _start(standing, attempt, verdict, now_seconds)
    standing = replace(standing, present=frozenset(pod.rank for pod in mine))
    if verdict.outcome not in (Outcome.STARTING, Outcome.RUNNING):
        return end_attempt(standing, terms.backoff_limit, verdict, facts, ran=has_run(attempt))
    strays = tuple(pod for pod in pods if pod.attempt != job.status.attempt and not pod.deleting)
    standing = replace(standing, doomed=strays)
    if (over := past_deadline(standing, terms.deadline_seconds, now_seconds)) is not None:
        return over
    if parked is not None:
        return _stand_aside(standing, parked, terms.deadline_seconds, mine, facts)
    return _go_on(standing, terms, mine, verdict, facts)


def _start(standing: Standing, attempt: Attempt, verdict: Verdict, now_seconds: float) -> Standing:
    assert verdict.started_seconds is not None
    # Containers' times have whole seconds and the node's own clock: never before the placement, never in the future.
    start_seconds = min(now_seconds, max(verdict.started_seconds, attempt.placed_seconds))
    workers = "the worker runs" if attempt.workers == 1 else f"all {attempt.workers} workers run"
    status = transitions.started(standing.job.status, "AllWorkersRun", workers, start_seconds)
    nodes = ", ".join(sorted({worker.node for worker in status.placement}))
    return standing.becomes(status, Happening("Started", f"attempt {status.attempt}: {workers} on {nodes}"))


def _go_on(
    standing: Standing, terms: _Terms, mine: tuple[WorkerPod, ...], verdict: Verdict, facts: Facts
) -> Standing:
    status, now_seconds = standing.job.status, facts.now_seconds
    due_seconds, move_seconds = None, due_on_sick_gpus_seconds(mine, facts.around)
    if verdict.outcome == Outcome.STARTING:
        waiting = status.waiting or WaitingStatus(reason=transitions.STARTING, message="")
        waiting = waiting.model_copy(
            update={"reason": transitions.STARTING, "message": verdict.message, "unblock": ""}
        )
        status = transitions.changed(status, waiting=waiting)
        placed_seconds = transitions.since_seconds(status, ConditionType.PLACED, now_seconds)
        due_seconds = placed_seconds + facts.around.patience.gang_timeout_seconds
    else:
        due_seconds = deadline_due_seconds(status, terms.deadline_seconds, now_seconds)
    running = verdict.outcome == Outcome.RUNNING
    state = JobState.RUNNING if running else JobState.STARTING
    back_seconds = None
    if running:
        around = facts.around
        back_seconds = parking.coming_back_until_seconds(
            status, mine, around.sessions, around.patience, now_seconds
        )
    due = (due_seconds, move_seconds, back_seconds)
    return replace(
        _holding(standing.becomes(_corrected(status, mine, facts)), mine, state),
        parkable=running and parking.can_park(mine, facts.around.sessions),
        coming_back=back_seconds is not None,
        due_seconds=min((each for each in due if each is not None), default=None),
    )


def _stand_aside(
    standing: Standing, depth: Depth, limit_seconds: int | None, mine: tuple[WorkerPod, ...], facts: Facts
) -> Standing:
    """Follow a job that was told to make way without ending."""
    status, now_seconds, around = standing.job.status, facts.now_seconds, facts.around
    assert status.preemption is not None
    if standing.job.wish is not None and standing.job.wish.spec.suspend:
        message = "It is suspended while it makes way for another: its workers end at their next checkpoint."
        suspended = transitions.unplaced(status, "Suspended", message, now_seconds, now_seconds)
        return standing.becomes(suspended, Happening("Suspended", message))
    seen = parking.look(status, depth, mine, around.sessions, around.patience, now_seconds)
    if seen.in_vain:
        message = f"{status.preemption.message} {seen.in_vain[0].upper()}{seen.in_vain[1:]}."
        was = transitions.condition(status, ConditionType.PREEMPTED)
        reason = was.reason if was is not None else "HigherQueue"
        evicted = transitions.preempted(
            status, reason, message, now_seconds, beneficiary=status.preemption.beneficiary
        )
        return replace(standing.becomes(evicted, Happening("Preempted", message)), yielding=mine)
    if seen.just_done:
        status = transitions.parked(status, now_seconds)
        standing = standing.becomes(status, Happening(transitions.PARKED[depth], f"{_PARKED_WORDS[depth]}."))
    standing = _holding(standing.becomes(_corrected(status, mine, facts)), mine, seen.state)
    due = (
        seen.due_seconds,
        due_on_sick_gpus_seconds(mine, around),
        deadline_due_seconds(status, limit_seconds, now_seconds),
    )
    return replace(
        standing,
        # Who is paused can go further without ending; who is offloaded cannot.
        parkable=seen.state is JobState.PAUSED and parking.can_park(mine, around.sessions),
        due_seconds=min((each for each in due if each is not None), default=None),
    )


_PARKED_WORDS = {
    Depth.PAUSE: "Its workers have stopped between two iterations; their memory stays on the GPU",
    Depth.OFFLOAD: "Its workers have stopped between two iterations, and their memory is on the host",
}


def _holding(standing: Standing, mine: tuple[WorkerPod, ...], state: JobState) -> Standing:
    """The job has what its placement says."""
    accounted = frozenset(pod.uid for pod in mine)
    return replace(standing, state=state, holds=_as_plan(standing.job.status), accounted=accounted)


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
