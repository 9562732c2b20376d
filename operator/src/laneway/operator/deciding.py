"""One cycle's decision, pure: from the frozen cache to what is to be written, job by job.

    view ─▶ standings (lifecycle) ─▶ snapshot ─▶ plan (laneway.scheduling) ─▶ statements

A statement is the difference between what a job has and what it is to have. Steps in the life of a job are written at once;
figures and sentences that merely keep changing (its place in the order, service, measured bytes) now and then.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from laneway.api import quantity
from laneway.api.clock_text import to_seconds
from laneway.api.conditions import is_true
from laneway.api.job_standing import WaitingStatus
from laneway.api.training_job import ConditionType, ProfileStatus, TrainingJobStatus, WorkerPlacementStatus
from laneway.operator import accounting, parking, transitions
from laneway.operator.cache import ClusterView
from laneway.operator.config import CycleConfig, OperatorConfig
from laneway.operator.gang import Surroundings
from laneway.operator.lifecycle import advance
from laneway.operator.metrics import Figures, GPUShare, JobFigures
from laneway.operator.node_orders import NodeStatement, order_statements
from laneway.operator.preemption_events import made_way_for
from laneway.operator.records.job_record import JobRecord
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.sessions import index_sessions
from laneway.operator.sick_gpus import sick_gpus
from laneway.operator.snapshot import build_snapshot
from laneway.operator.standing import Facts, Happening, Standing
from laneway.operator.templates import NOTHING_KNOWN, KnownTemplate, TemplateKey, known_templates, template_of
from laneway.scheduling import (
    Depth,
    InvalidPlan,
    JobState,
    Plan,
    Policies,
    Preemption,
    PreemptionReason,
    WaitingReason,
    next_decision_seconds,
    plan,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Memory:
    """What the engine remembers from cycle to cycle. None of it is needed to go on after a restart."""

    refusals: Mapping[tuple[str, int], str]
    """By job uid and attempt: what the API server said when it refused one of the attempt's objects."""

    written_seconds: Mapping[str, float]
    """By job uid: when its status was last written."""


@dataclass(frozen=True, slots=True)
class JobStatement:
    """What is to be written about one job."""

    job: JobRecord
    """As the cluster has it."""

    status: TrainingJobStatus
    """As it is to be."""

    write: bool
    """Whether the status is to be written now."""

    creates: tuple[WorkerPlacementStatus, ...] = ()
    """Workers whose pods are to be made."""

    profile: ProfileStatus | None = None
    """What is known of their template; None: nothing."""

    doomed: tuple[WorkerPod, ...] = ()
    """Pods to be deleted."""

    forsaken: tuple[WorkerPod, ...] = ()
    """Pods to be removed without waiting for their node, which does not answer."""

    happenings: tuple[Happening, ...] = ()
    expired: bool = False
    """The job is to be deleted."""

    waited_seconds: float | None = None
    """How long it had waited, where it is seen to run for the first time since."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.write or self.creates or self.doomed or self.forsaken or self.expired)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a cycle is to do."""

    statements: tuple[JobStatement, ...]
    """Those that are not empty."""

    figures: Figures
    due_seconds: float
    """When the next cycle is due though nothing changes."""

    plan: Plan
    orders: tuple[NodeStatement, ...] = ()
    """Nodes whose orders are to be others."""

    problem: str = ""
    """Why there is no plan, as a sentence; what happened to jobs is written all the same. Empty where there is one."""


def decide(
    view: ClusterView, memory: Memory, policies: Policies, config: OperatorConfig, now_seconds: float
) -> Decision:
    """Return what is to be written now."""
    sessions = index_sessions(view.gpu_nodes)
    facts = Facts(
        around=Surroundings(view.nodes, sessions, config.patience, now_seconds, sick_gpus(view.gpu_nodes)),
        priority_classes=view.priority_classes,
        refusals=memory.refusals,
    )
    standings = [_advance(job, view.pods.get(job.uid, ()), facts) for job in view.jobs]
    templates = known_templates(view.jobs)
    snapshot = build_snapshot(
        view,
        standings,
        sessions,
        config.lane_rules(),
        templates,
        now_seconds,
        active_percent=config.scheduling.active_percent,
    )
    problem = ""
    try:
        planned = plan(snapshot, now_seconds, policies)
    except InvalidPlan as error:
        planned, problem = Plan(), str(error)
    standings = [_with_plan(standing, planned, view, now_seconds) for standing in standings]
    drafts = [_draft(job, standing, templates) for job, standing in zip(view.jobs, standings, strict=True)]
    statements, later_seconds = _choose_writes(drafts, memory.written_seconds, config.cycle, now_seconds)
    due = [standing.due_seconds for standing in standings if standing.due_seconds is not None]
    if (plan_due_seconds := next_decision_seconds(snapshot, now_seconds, policies)) is not None:
        due.append(plan_due_seconds)
    return Decision(
        statements=tuple(statement for statement in statements if not statement.empty),
        figures=_figures(standings, now_seconds),
        due_seconds=min([now_seconds + config.cycle.resync_seconds, *due, *later_seconds]),
        plan=planned,
        orders=order_statements(view, standings),
        problem=problem,
    )


def _advance(job: JobRecord, pods: tuple[WorkerPod, ...], facts: Facts) -> Standing:
    """Advance a job; one that this version of the operator cannot make sense of must not stop the others."""
    try:
        return advance(job, pods, facts)
    except Exception as error:
        logger.exception("a job could not be judged and is left as it is", extra={"job": job.key})
        message = f"the operator cannot make sense of this job ({type(error).__name__}: {error}); see its log"
        return Standing(
            job.with_status(transitions.refused(job.status, "NotUnderstood", message, facts.now_seconds)),
            None,
        )


def _with_plan(standing: Standing, planned: Plan, view: ClusterView, now_seconds: float) -> Standing:
    """Take the step that the plan wants of a job."""
    job = standing.job
    status = job.status
    if standing.state is None:
        return standing
    if job.key in planned.queues and not job.finished:
        status = transitions.changed(status, queue=planned.queues[job.key])
    if job.key in planned.promotions:
        status = transitions.changed(status, service_at_promotion=status.attained_service)
    if (workers := planned.starts.get(job.key)) is not None:
        status = transitions.placed(status, workers, now_seconds)
        message = "; ".join(
            f"worker {each.worker} on {each.node}: {', '.join(each.gpus)}" for each in workers
        )
        happening = Happening("Placed", f"attempt {status.attempt}: {message}")
        return replace(
            standing.becomes(status, happening), state=JobState.STARTING, holds=workers, present=frozenset()
        )
    if (preemption := planned.preemptions.get(job.key)) is not None:
        return _make_way(standing.becomes(status), preemption, view.pods.get(job.uid, ()), now_seconds)
    if job.key in planned.resumes:
        happening = Happening("Resumed", "The GPUs' turns are free again: it goes on where it is.")
        return replace(
            standing.becomes(transitions.resumed(status, now_seconds), happening), state=JobState.RUNNING
        )
    happenings: tuple[Happening, ...] = ()
    if (reason := planned.waiting.get(job.key)) is not None:
        status = _explained(status, reason, now_seconds)
        happenings = made_way_for(job.key, planned)
    return standing.becomes(status, *happenings)


def _make_way(
    standing: Standing, preemption: Preemption, pods: tuple[WorkerPod, ...], now_seconds: float
) -> Standing:
    """Have a job make way as far as the plan says."""
    status, reason, message = standing.job.status, str(preemption.reason), preemption.message
    if preemption.depth is not Depth.EVICT:
        status = transitions.told_to_park(
            status, preemption.depth, reason, message, now_seconds, preemption.beneficiary
        )
        happening = Happening("Preempted", f"{message} It is told to {parking.WORDS[preemption.depth]}.")
        return standing.becomes(status, happening)
    if preemption.reason is PreemptionReason.SUSPENDED:
        status = transitions.unplaced(status, "Suspended", message, now_seconds, now_seconds)
        happening = Happening("Suspended", message)
    else:
        status = transitions.preempted(status, reason, message, now_seconds, preemption.beneficiary)
        happening = Happening("Preempted", message)
    doomed = tuple(pod for pod in pods if not pod.deleting)
    return replace(standing.becomes(status, happening), state=JobState.LEAVING, doomed=doomed)


def _explained(status: TrainingJobStatus, reason: WaitingReason, now_seconds: float) -> TrainingJobStatus:
    """Return the status of a waiting job with why it waits."""
    lately = (f"Kept away from {each.node} until {each.until}: {each.message}." for each in status.avoid)
    message = " ".join([reason.message, *lately])
    waiting = WaitingStatus(
        reason=str(reason.code),
        message=message,
        unblock=reason.unblock,
        position=reason.position,
        since=status.waiting.since if status.waiting else None,
        blockers=reason.blockers,
    )
    status = transitions.changed(status, waiting=waiting)
    if status.preemption is not None and status.placement:
        return status  # it stands aside, and has its GPUs all the same
    return transitions.with_conditions(
        status, now_seconds, (ConditionType.PLACED, False, waiting.reason, message)
    )


def _draft(
    job: JobRecord, standing: Standing, templates: Mapping[TemplateKey, KnownTemplate]
) -> JobStatement:
    status = standing.job.status
    key = template_of(job)
    goes_on = standing.state is JobState.STARTING and standing.job.placed and not standing.job.finished
    missing = (
        [worker for worker in status.placement if worker.worker not in standing.present] if goes_on else []
    )
    waited_seconds = None
    if standing.job.running and not job.running and job.status.waiting and job.status.waiting.since:
        running = transitions.since_seconds(status, ConditionType.RUNNING, 0.0)
        waited_seconds = max(0.0, running - to_seconds(job.status.waiting.since))
    return JobStatement(
        job=job,
        status=status,
        write=(_gist(status) != _gist(job.status) or bool(standing.happenings)) and not job.deleting,
        creates=tuple(missing),
        profile=templates.get(key, NOTHING_KNOWN).profile if missing and key is not None else None,
        doomed=standing.doomed,
        forsaken=standing.forsaken,
        happenings=standing.happenings,
        expired=standing.expired,
        waited_seconds=waited_seconds,
    )


def _choose_writes(
    drafts: list[JobStatement], written_seconds: Mapping[str, float], config: CycleConfig, now_seconds: float
) -> tuple[list[JobStatement], list[float]]:
    """Settle which statuses are written; return the statements, and when those that were put off are due."""
    due_seconds: list[float] = []
    changed: list[tuple[float, int]] = []
    for number, draft in enumerate(drafts):
        if draft.write or draft.job.deleting:
            continue
        interval_seconds = _interval_seconds(draft, config)
        if interval_seconds is None:
            continue
        last_seconds = max(written_seconds.get(draft.job.uid, 0.0), _counted_seconds(draft, config))
        if last_seconds + interval_seconds > now_seconds:
            due_seconds.append(last_seconds + interval_seconds)
        else:
            changed.append((last_seconds, number))
    chosen = {number for _, number in sorted(changed)[: config.explanations_per_cycle]}
    if len(chosen) < len(changed):
        due_seconds.append(now_seconds + 1.0)
    statements = [
        replace(draft, write=True, status=accounting.counted(draft.status, now_seconds))
        if draft.write or number in chosen
        else draft
        for number, draft in enumerate(drafts)
    ]
    return statements, due_seconds


def _interval_seconds(draft: JobStatement, config: CycleConfig) -> float | None:
    """Return how often what changed in a status may be written; None where nothing changed."""
    if draft.status != draft.job.status:
        return config.explain_seconds
    return config.service_seconds if draft.status.service_counted_at is not None else None


def _counted_seconds(draft: JobStatement, config: CycleConfig) -> float:
    """Return when service was last written, where that alone decides whether to write."""
    counted_at = draft.status.service_counted_at
    return to_seconds(counted_at) if counted_at is not None and draft.status == draft.job.status else 0.0


def _gist(status: TrainingJobStatus) -> tuple[object, ...]:
    """Return what of a status is a step in the job's life, and not merely a figure or a sentence that keeps changing."""
    return (
        tuple((each.type, each.status, each.reason) for each in status.conditions),
        status.observed_generation,
        status.attempt,
        status.placement,
        status.queue,
        status.service_at_promotion,
        status.profile is None,
        status.preemptions,
        status.preemption,
        status.restarts,
        status.waiting.reason if status.waiting else "",
        status.avoid,
        status.completion_time,
    )


def _figures(standings: list[Standing], now_seconds: float) -> Figures:
    unfinished = [standing for standing in standings if not standing.job.finished]
    return Figures(
        jobs=tuple(_job_figures(standing, now_seconds) for standing in unfinished),
        by_state=Counter(_state_name(standing) for standing in standings),
        by_queue=Counter(standing.job.status.queue for standing in unfinished),
    )


def _state_name(standing: Standing) -> str:
    job = standing.job
    if job.finished:
        return "succeeded" if is_true(job.status.conditions, ConditionType.SUCCEEDED) else "failed"
    if standing.state is JobState.LEAVING:
        return "preempting"
    if job.placed and not job.running and parking.parking_depth(job.status) is not None:
        return "parked"
    if job.placed:
        return "running" if job.running else "starting"
    return "suspended" if job.wish is not None and job.wish.spec.suspend else "waiting"


def _job_figures(standing: Standing, now_seconds: float) -> JobFigures:
    job = standing.job
    waiting = job.status.waiting
    waits = waiting is not None and waiting.since is not None and not job.running
    return JobFigures(
        namespace=job.namespace,
        job=job.name,
        attained_gpu_seconds=float(
            quantity.parse(accounting.counted(job.status, now_seconds).attained_service)
        ),
        waiting_seconds=max(0.0, now_seconds - to_seconds(waiting.since))
        if waits and waiting and waiting.since
        else None,
        shares=tuple(
            GPUShare(worker.node, gpu, worker.share_percent)
            for worker in standing.holds
            for gpu in worker.gpus
        ),
        progress=job.status.progress,
        profile=job.status.profile,
    )
