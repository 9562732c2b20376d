"""What the users of a namespace read of their jobs names no job of another namespace."""

from __future__ import annotations

from hypothesis import given, settings
from laneway.api.job_names import JobSentence
from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import WaitingStatus
from laneway.operator.cycle.cycle import CycleResult
from laneway.operator.cycle.plan_steps import explains, with_decision
from laneway.operator.cycle.start_estimates import StartEstimates
from laneway.operator.cycle.writes import JobWrite
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.state.records.priority_class import PriorityClassRecord
from laneway.scheduling import (
    ClusterSnapshot,
    Decision,
    Job,
    JobState,
    Plan,
    Policies,
    Preemption,
    PreemptionAction,
    PreemptionReason,
    WaitingReason,
)
from laneway.scheduling.config.operator_config import CycleConfig
from laneway.scheduling.explain import reasons
from laneway.scheduling.explain.reasons import awaiting_preemption

from tests.support.property_examples import examples
from tests.unit.core.scheduling import builders
from tests.unit.core.scheduling.builders import NOW as PLANNED
from tests.unit.core.scheduling.strategies import snapshots
from tests.unit.core.scheduling.whole_plan import informed
from tests.unit.operator.builders import NOW, a_gpu_node, a_job, a_pod, a_view, decided
from tests.unit.operator.visible_names import foreign_names

URGENT = PriorityClassRecord("urgent", 10, is_default=False)


def seen(job: Job) -> ReconciledJob:
    """The scheduler's job as the operator knows it."""
    namespace, name = job.key.split("/")
    made = a_job(name).metadata(namespace=namespace).visited()
    if job.placement:
        made.after(transitions.placed, job.placement, NOW - 60)
        if job.state is JobState.RUNNING:
            made.running(NOW - 50)
    return ReconciledJob(made.record, job.state)


def written(result: CycleResult, name: str) -> JobWrite:
    """What a cycle writes of the job of that name."""
    return next(write for write in result.writes if write.job.name == name)


def step(job: ReconciledJob, planned: Plan, estimates: StartEstimates) -> ReconciledJob:
    """The job after what the plan wants of it."""
    decision = Decision(
        dict(planned.starts), dict(planned.preemptions), list(planned.resumes), dict(planned.rescales)
    )
    return with_decision(
        job,
        decision,
        planned.waiting.get(job.job.key),
        queue=0,
        promoted=False,
        pods=(),
        now_seconds=NOW,
        with_estimate=estimates.added,
        refused=lambda: "",
    )


@settings(max_examples=examples(100))
@given(snapshots())
def test_no_policy_makes_a_status_or_an_event_name_a_job_of_another_namespace(
    case: tuple[ClusterSnapshot, Policies],
) -> None:
    snapshot, chosen = case
    scheduler = informed(snapshot, chosen)
    planned = scheduler.plan(PLANNED)
    estimates = StartEstimates(CycleConfig())
    estimates.update(scheduler, planned.waiting, PLANNED)
    keys = [job.key for job in snapshot.jobs]
    for job in snapshot.jobs:
        if not job.state.is_releasing:
            assert foreign_names(step(seen(job), planned, estimates), keys) == set()


def test_a_preempted_job_and_its_preemptor_of_another_namespace_are_not_told_who_the_other_is() -> None:
    placed = a_job("low").metadata(namespace="tenanta").placed("n1", at=NOW - 600)
    low = placed.running(since=NOW - 600).record
    urgent = a_job("high").metadata(namespace="tenantb").visited().spec(priorityClassName="urgent").record
    pods = [a_pod(low).running(since=NOW - 600).record]
    view = a_view([low, urgent], pods, [a_gpu_node("n1", gpus=1)], priority_classes=[URGENT])
    result = decided(view)

    victim, preemptor = written(result, "low"), written(result, "high")
    said = "Preempted by a job of another namespace (of a higher priority)."
    preemption = victim.status.preemption
    assert preemption is not None
    assert (preemption.preemptor, preemption.message) == ("", said)
    (event,) = victim.after.events
    assert event.message.startswith(said)
    assert event.others == ("tenantb/high",), "the log has the name"

    waiting = preemptor.status.waiting
    assert waiting is not None
    assert waiting.message.startswith(
        "Waiting for a job of another namespace to release its GPUs: preempted for this job."
    )
    assert (waiting.blockers, waiting.blockers_elsewhere) == ((), 1)
    assert preemptor.after.waits_for == ("tenanta/low",)
    (event,) = (event for event in preemptor.after.events if event.reason == "Preempting")
    assert event.message == "Preempting other jobs: a job of another namespace is evicted."
    assert event.others == ("tenanta/low",)
    for write in result.writes:
        assert foreign_names(write.after, [low.key, urgent.key]) == set()


def victim(key: str, action: PreemptionAction, cost_seconds: float) -> Preemption:
    message = JobSentence("Preempted by ", ("tenanta/new",), " (queue 0 before queue 1).")
    return Preemption(key, PreemptionReason.HIGHER_QUEUE, message, "tenanta/new", action, cost_seconds)


def test_a_preemptor_is_told_of_its_own_victims_by_name_and_of_the_others_by_number() -> None:
    victims = (
        victim("tenantb/one", PreemptionAction.EVICT, 50),
        victim("tenanta/old", PreemptionAction.PAUSE, 0.2),
        victim("tenantc/two", PreemptionAction.EVICT, 30),
    )
    new = ReconciledJob(a_job("new").metadata(namespace="tenanta").visited().record, JobState.WAITING)
    plan = Plan(
        preemptions={each.job: each for each in victims},
        waiting={"tenanta/new": awaiting_preemption(victims).at(1)},
    )
    after = step(new, plan, StartEstimates(CycleConfig()))
    waiting = after.job.status.waiting
    assert waiting is not None
    assert waiting.message.startswith(
        "Waiting for tenanta/old and 2 jobs of other namespaces to release their"
    )
    assert (waiting.blockers, waiting.blockers_elsewhere) == (("tenanta/old",), 2)
    assert [event.message for event in after.events] == [
        "Preempting other jobs: tenanta/old is paused (HigherQueue, expected cost 0.2 s); 2 jobs of other namespaces are evicted."
    ]


def test_a_waiting_job_is_told_how_many_jobs_of_other_namespaces_are_ahead() -> None:
    holder = a_job("holder").metadata(namespace="tenanta").placed("n1", at=NOW - 60).running().record
    waits = [
        a_job(name).metadata(namespace=namespace, creationTimestamp=format_time(NOW - 50 + number)).visited()
        for number, (namespace, name) in enumerate(
            [("tenanta", "first"), ("tenantb", "second"), ("tenantb", "third")]
        )
    ]
    view = a_view(
        [holder, *(each.record for each in waits)],
        [a_pod(holder).running().record],
        [a_gpu_node("n1", gpus=1)],
    )
    write = written(decided(view), "third")
    waiting = write.status.waiting
    assert waiting is not None
    assert (waiting.position, waiting.ahead, waiting.ahead_elsewhere) == (3, ("tenantb/second",), 1)


def waits(reason: WaitingReason) -> WaitingStatus:
    """What the status of a job of tenantb says of its reason to wait."""
    new = ReconciledJob(a_job("new").metadata(namespace="tenantb").visited().record, JobState.WAITING)
    after = step(new, Plan(waiting={"tenantb/new": reason.at(1)}), StartEstimates(CycleConfig()))
    waiting = after.job.status.waiting
    assert waiting is not None
    assert explains("tenantb/new", after.job.status, reason.at(1), lambda: "")
    return waiting


def test_the_blockers_are_those_of_the_message() -> None:
    holders = [builders.a_job(key).made for key in ("tenanta/1", "tenanta/2", "tenanta/3", "tenantb/own")]
    waiting = waits(reasons.reserved(holders, 60))
    assert "waits for GPUs of tenantb/own and 3 jobs of other namespaces, which" in waiting.message
    assert (waiting.blockers, waiting.blockers_elsewhere) == (("tenantb/own",), 3)


def test_of_many_blockers_sixteen_are_named() -> None:
    given = {f"tenantb/{number:04}": 1 for number in range(2000)} | {"tenanta/one": 1}
    waiting = waits(reasons.no_workers(builders.a_job("tenantb/new").made, 2001, given))
    assert "tenantb/0002, 1997 more and a job of another namespace." in waiting.message
    assert (len(waiting.blockers), waiting.blockers_elsewhere) == (16, 1)


def test_jobs_ahead_that_an_earlier_version_named_are_counted_at_the_next_write() -> None:
    now = WaitingStatus(reason="GPUsBusy", message="Busy.")
    before = WaitingStatus(
        reason="GPUsBusy",
        message="Busy.",
        ahead=("tenanta/one", "tenantb/two"),
        estimated_at=format_time(NOW - 60),
    )
    after = StartEstimates(CycleConfig()).added("tenanta/new", now, before)
    assert (after.ahead, after.ahead_elsewhere) == (("tenanta/one",), 1)
    again = StartEstimates(CycleConfig()).added("tenanta/new", now, after)
    assert (again.ahead, again.ahead_elsewhere) == (("tenanta/one",), 1)
