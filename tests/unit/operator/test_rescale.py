"""A job whose number of workers is changed: from ``kubectl scale`` to the attempt with the new number."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.api.attempt_status import AttemptOutcome
from laneway.api.job_conditions import WAITING_FOR_LANE, ConditionType
from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import ProfileStatus, RescaleStatus
from laneway.operator.cycle.cycle import CycleResult
from laneway.operator.cycle.writes import JobWrite
from laneway.operator.execute.manifests import worker_pod
from laneway.operator.lifecycle import rescaling, transitions
from laneway.operator.pacing import ENDED_HOLD_SECONDS, LATE_SECONDS
from laneway.operator.state.records.job_record import JobRecord, parse_job
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import (
    NOW,
    a_gpu_node,
    a_job,
    a_pod,
    a_session,
    a_view,
    condition_of,
    context_of,
    decided,
    placement_on,
    reasons,
    reconciled_job_of,
    snapshot_of,
    write_of,
)
from tests.unit.operator.builders.jobs import JobBuilder

MEASURED = ProfileStatus(persistent_bytes=2**30, ephemeral_bytes=2**29)


def elastic(workers: int, has: int = 2, *, since: float = NOW - 1000) -> JobBuilder:
    """A job of 1 to 4 workers that runs with some number, and is to have another."""
    job = a_job("e").spec(workers=has, minWorkers=1, maxWorkers=4)
    return job.placed(*["n1"] * has, at=since - 10).running(since=since).spec(workers=workers)


def pods_of(job: JobRecord, since: float = NOW - 1000) -> list[WorkerPod]:
    return [a_pod(job, rank).running(since=since).record for rank in range(job.attempt_workers)]


def cycle(
    job: JobRecord, pods: list[WorkerPod], *, gpus: int = 4, now: float = NOW, **config: Any
) -> CycleResult:
    view = a_view([job], pods, [a_gpu_node("n1", gpus=gpus)])
    return decided(view, now, config=OperatorConfig.model_validate(config))


def written(result: CycleResult) -> JobWrite:
    found = write_of(result, "e")
    assert found is not None
    return found


def test_a_scaled_job_is_stopped_and_starts_with_the_new_number() -> None:
    job = elastic(4).record
    pods = pods_of(job)
    stop = written(cycle(job, pods))
    assert stop.after.pods_to_delete == tuple(pods)
    assert stop.after.victims == tuple(pods), "they are looked at again before they are stopped"
    status = stop.status
    assert condition_of(status, "Placed") == ("False", "Rescaling")
    assert (status.preemptions, status.restarts, status.rescales, status.workers) == (0, 0, 1, 0)
    assert condition_of(status, "Preempted") == ("False", "NeverPreempted")
    assert reasons(stop.after) == ["Rescaling"]
    assert status.rescale is not None
    assert (status.rescale.from_workers, status.rescale.to_workers) == (2, 4)

    stopped = job.with_status(status)
    leaving = [a_pod(job, rank).running().deleting().record for rank in range(2)]
    meanwhile = write_of(cycle(stopped, leaving, now=NOW + 1), "e")
    assert meanwhile is None or not meanwhile.creates

    start = written(cycle(stopped, [], now=NOW + 20))
    assert [each.worker for each in start.creates] == [0, 1, 2, 3]
    assert (start.status.attempt, start.status.workers) == (2, 4)
    assert "Rescaled" not in reasons(start.after), "its workers do not run yet"
    starting = job.with_status(start.status)
    run = written(cycle(starting, pods_of(starting, NOW + 30), now=NOW + 40))
    assert [each.message for each in run.after.events if each.reason == "Rescaled"] == [
        "Rescaled from 2 to 4 workers."
    ]
    assert run.status.rescale is not None
    assert run.status.rescale.completed_at is not None
    later = job.with_status(
        transitions.unplaced(run.status, AttemptOutcome.PREEMPTED, "Preempted", "m", NOW + 50, NOW + 50)
    )
    again = later.with_status(transitions.placed(later.status, placement_on(*["n1"] * 4), NOW + 60))
    assert reasons(written(cycle(again, pods_of(again, NOW + 65), now=NOW + 70)).after) == ["Started"]


def test_a_job_that_starts_with_the_number_that_it_had_was_not_rescaled() -> None:
    stopped = transitions.rescaled(elastic(4).record.status, 4, "m", NOW)
    placed = transitions.placed(stopped, placement_on("n1", "n1"), NOW + 5)
    job = elastic(2).record.with_status(placed)
    assert reasons(written(cycle(job, pods_of(job, NOW + 10), now=NOW + 20)).after) == ["Started"]


def test_one_worker_of_an_elastic_job_is_a_process_group_of_its_own() -> None:
    """The script joins a process group with any number of workers."""
    job = elastic(1, has=1).record
    assert job.desired is not None
    made = worker_pod(job, job.desired.spec, job.status.placement[0], 1)
    variables = {each["name"]: each["value"] for each in made["spec"]["containers"][0]["env"]}
    assert (variables["WORLD_SIZE"], variables["RANK"], variables["MASTER_ADDR"]) == ("1", "0", "localhost")


@pytest.mark.parametrize(("wants", "events"), [(2, ["Accepted"]), (3, ["Accepted", "Rescaling"])])
def test_nothing_is_reported_of_a_job_with_the_number_that_it_is_to_have(
    wants: int, events: list[str]
) -> None:
    """Of its write, which its acceptance makes necessary, only another number brings an event."""
    job = elastic(wants).after(transitions.refused, "InvalidSpec", "m", NOW - 1).record
    result = cycle(job, pods_of(job))
    assert result.decision.held_rescales == {}
    assert result.decision.rescales == ({} if wants == 2 else {"ns/e": wants})
    assert reasons(written(result).after) == events


def test_it_runs_on_and_says_so_once_while_there_is_no_room() -> None:
    job = elastic(4).record
    pods = pods_of(job)
    held = written(cycle(job, pods, gpus=3))
    assert reasons(held.after) == ["RescalePending"]
    assert condition_of(held.status, "RescalePending") == ("True", "NoUsableNodes")
    assert held.after.pods_to_delete == ()
    assert held.status.placement == job.status.placement
    assert write_of(cycle(job.with_status(held.status), pods, gpus=3, now=NOW + 1), "e") is None
    withdrawn = written(cycle(elastic(2).record.with_status(held.status), pods, gpus=3))
    assert condition_of(withdrawn.status, "RescalePending") == ("False", "NotPending")
    assert withdrawn.writes_status, "at once, and not with the next figures"
    stopped = written(cycle(job.with_status(held.status), pods))
    assert condition_of(stopped.status, "RescalePending") == ("False", "NotPending")


def test_a_status_of_an_earlier_operator_can_be_read() -> None:
    """Its reason was one sentence in a field of its own."""
    raw = elastic(4).raw
    raw["status"]["rescalePending"] = "It runs on with 2 workers."
    job = parse_job(raw)
    assert not job.malformed_status
    assert condition_of(written(cycle(job, pods_of(job), gpus=3)).status, "RescalePending") == (
        "True",
        "NoUsableNodes",
    )


def test_an_attempt_has_its_own_number_of_workers_whatever_the_spec_says() -> None:
    job = elastic(4).record
    one_missing = reconciled_job_of(job, *pods_of(job)[:1])
    assert reasons(one_missing) == ["Disrupted"]
    starting = a_job("e").spec(workers=2, minWorkers=1, maxWorkers=4).placed("n1", "n1").spec(workers=3)
    completed = written(cycle(starting.record, []))
    assert [each.worker for each in completed.creates] == [0, 1]


def test_an_attempt_that_lost_workers_from_its_status_is_rolled_back() -> None:
    for placement in (placement_on("n1"), placement_on(*["n1"] * 5)):
        job = elastic(2).status(placement=transitions.placement_status(placement)).record
        assert "Rollback" in reasons(reconciled_job_of(job))


def test_a_job_of_an_earlier_operator_knows_its_workers_by_its_placement() -> None:
    job = elastic(4).status(attempt_workers=0).record
    assert job.attempt_workers == 2
    assert written(cycle(job, pods_of(job))).status.rescales == 1


def test_workers_that_had_ended_before_they_were_stopped_are_a_success() -> None:
    job = elastic(4).record
    ended = [a_pod(job, rank).ended(at=NOW - 10).record for rank in range(2)]
    status = transitions.rescaled(job.status, 4, "m", NOW)
    assert reasons(reconciled_job_of(job.with_status(status), *ended)) == ["Completed"]
    late = [a_pod(job, rank).ended(at=NOW).record for rank in range(2)]
    assert reasons(reconciled_job_of(job.with_status(status), *late)) == []


def test_a_rescale_is_followed_by_no_back_off() -> None:
    job = elastic(4).status(unstarted_attempts=3).record
    status = transitions.rescaled(job.status, 4, "m", NOW)
    assert reconciled_job_of(job.with_status(status)).state == "Waiting"


def test_the_scheduler_keeps_seeing_an_elastic_job_until_it_waits_again() -> None:
    """Else the policy gives its GPUs to others while its pods go, stops these for that, and asks again once it waits."""
    job = elastic(4).record
    stopped = job.with_status(transitions.rescaled(job.status, 4, "m", NOW))
    ended = [a_pod(job, rank).ended(at=NOW + 2).deleting().record for rank in range(2)]
    terminating = reconciled_job_of(stopped, *ended)
    assert terminating.state == "Terminating"
    assert [each.worker for each in terminating.holds] == [0, 1]
    assert reconciled_job_of(stopped).state == "Waiting"
    kept = reconciled_job_of(stopped, *ended, now=NOW + 2 + ENDED_HOLD_SECONDS)
    assert (kept.state, kept.holds) == (None, ()), "pods that stay hold no GPUs for ever"
    assert terminating.due_seconds <= NOW + 2 + ENDED_HOLD_SECONDS

    fast = [a_pod(job, rank).ended(at=NOW + 3600).deleting().record for rank in range(2)]
    assert reconciled_job_of(stopped, *fast).holds == (), "their node's clock is an hour fast"
    suspended = elastic(4).spec(suspend=True).record.with_status(stopped.status)
    assert reconciled_job_of(suspended, *ended).holds == (), "it does not start again"

    rigid = a_job("r").placed("n1").running().record
    preempted = rigid.with_status(
        transitions.unplaced(rigid.status, AttemptOutcome.PREEMPTED, "Preempted", "m", NOW, NOW)
    )
    gone_soon = a_pod(rigid).ended(at=NOW + 2).deleting().record
    assert reconciled_job_of(preempted, gone_soon).holds == (), "its GPUs are free for others at once"


@pytest.mark.parametrize(
    ("then", "requested"),
    [
        (elastic(4), 4),
        (elastic(4).metadata(deletionTimestamp=format_time(NOW)), None),
        (elastic(4).spec(suspend=True), None),
    ],
    ids=["it restarts", "it is deleted", "it is suspended"],
)
def test_only_a_job_that_restarts_holds_up_the_rescales_of_others(
    then: JobBuilder, requested: int | None
) -> None:
    stopped = then.record.with_status(transitions.rescaled(then.record.status, 4, "m", NOW))
    pods = [a_pod(elastic(4).record, rank).running().deleting().record for rank in range(2)]
    (seen,) = snapshot_of(a_view([stopped], pods, [a_gpu_node("n1")])).jobs
    assert (seen.state, seen.requested_workers) == ("Terminating", requested)


@pytest.mark.parametrize(("grace_seconds", "ends"), [(60, True), (3600, False)])
def test_only_gpus_that_are_free_soon_count_as_free(grace_seconds: int, ends: bool) -> None:
    """Else a policy would stop jobs for GPUs that a deleted job, which ignores SIGTERM, holds for an hour."""
    made = a_job("r").spec(preemption={"gracePeriodSeconds": grace_seconds}).placed("n1").running()
    pod = a_pod(made.record).running().deleting().record
    suspended = a_job("r").spec(preemption={"gracePeriodSeconds": grace_seconds}, suspend=True)
    for job in (
        made.metadata(deletionTimestamp=format_time(NOW)).record,
        suspended.placed("n1").running().record,
    ):
        (seen,) = snapshot_of(a_view([job], [pod], [a_gpu_node("n1")])).jobs
        assert seen.frees_soon is ends
    gone = a_gpu_node("n1", sessions={0: [a_session(pod, job="r", rank=0)]})
    (departure,) = snapshot_of(a_view([], [pod], [gone])).jobs
    assert departure.frees_soon is ends
    overdue_seconds = NOW + LATE_SECONDS
    (stuck,) = snapshot_of(a_view([], [pod], [gone]), overdue_seconds).jobs
    assert not stuck.frees_soon, "nothing ends its process, such as a hung driver"
    deleted = made.metadata(deletionTimestamp=format_time(NOW)).record
    assert (reconciled_job_of(deleted, pod).due_seconds == overdue_seconds) is ends
    shortened = a_pod(made.record).running().deleting()
    shortened.raw["metadata"]["deletionGracePeriodSeconds"] = 10
    assert shortened.record.grace_seconds == 10


@pytest.mark.parametrize(("grace_seconds", "rescales"), [(30, True), (3600, False)])
def test_no_job_is_stopped_for_gpus_that_a_deleted_job_holds_for_long(
    grace_seconds: int, rescales: bool
) -> None:
    made = a_job("r").gang(2).spec(preemption={"gracePeriodSeconds": grace_seconds})
    rigid = made.placed("n2", "n2").running().metadata(deletionTimestamp=format_time(NOW)).record
    job = elastic(2).record
    pods = [a_pod(rigid, rank).running().deleting().record for rank in range(2)] + pods_of(job)
    policies = {
        "elastic": {"policy": "pollux"},
        "preemption": {"policy": "lowest-first", "options": {"minRunSeconds": 0}},
    }
    view = a_view([rigid, job], pods, [a_gpu_node("n1", gpus=2), a_gpu_node("n2", gpus=2)])
    found = decided(view, config=OperatorConfig.model_validate({"scheduling": policies}))
    assert ("Rescaling" in reasons(written(found).after)) is rescales


def restarted(waited: float = 0.0) -> JobRecord:
    """Stopped at NOW, waited for GPUs for some time, and placed again after 60 s."""
    job = elastic(4).record
    status = transitions.rescaled(job.status, 4, "m", NOW)
    status = status.model_copy(update={"waited_milliseconds": round(1000 * waited)})
    return job.with_status(transitions.placed(status, placement_on(*["n1"] * 4), NOW + 60))


def test_its_cost_is_the_time_without_training_less_the_wait_for_gpus() -> None:
    for waited, cost in ((0.0, 75_000), (50.0, 25_000)):
        status = transitions.started(restarted(waited).status, "AllWorkersRun", "m", NOW + 75)
        assert status.rescale is not None
        assert status.rescale.cost_milliseconds == cost
        resumed = transitions.freed(
            transitions.kept_from_gpus(status, WAITING_FOR_LANE, "m", NOW + 80), NOW + 90
        )
        assert resumed.rescale == status.rescale


@pytest.mark.parametrize(("watched_since", "cost"), [(NOW, 90_000), (NOW + 80, 75_000)])
def test_its_cost_lasts_to_the_first_turn_if_the_operator_has_watched(
    watched_since: float, cost: int
) -> None:
    status = transitions.started(restarted().status, "AllWorkersRun", "m", NOW + 75)
    context = context_of(a_view(), now=NOW + 90)
    context = type(context)(context.state, context.timeouts, context.now_seconds, {}, {}, watched_since)
    assert rescaling.with_first_turn(status, 0, context) is status
    turned = rescaling.with_first_turn(status, 1, context)
    assert turned.rescale is not None
    assert (turned.rescale.cost_milliseconds, turned.rescale.trained) == (cost, True)
    assert rescaling.with_first_turn(turned, 2, context) is turned


def test_an_attempt_that_did_not_start_leaves_the_cost_unknown() -> None:
    status = transitions.unplaced(
        restarted().status, AttemptOutcome.ROLLED_BACK, "GangTimeout", "m", NOW + 180, NOW + 180
    )
    status = transitions.placed(status, placement_on(*["n1"] * 4), NOW + 200)
    started = transitions.started(status, "AllWorkersRun", "m", NOW + 210)
    assert started.rescale is not None
    assert started.rescale.cost_milliseconds is None


def test_a_profile_with_other_workers_does_not_count() -> None:
    job = elastic(4).status(profile=MEASURED).record
    assert snapshot_of(a_view([job], pods_of(job), [a_gpu_node("n1", gpus=4)])).jobs[0].profile is not None
    status = transitions.rescaled(job.status, 4, "m", NOW)
    waiting = job.with_status(status)
    assert snapshot_of(a_view([waiting], (), [a_gpu_node("n1", gpus=4)])).jobs[0].profile is None
    assert transitions.placed(status, placement_on(*["n1"] * 4), NOW).profile is None
    assert transitions.placed(status, placement_on(*["n1"] * 2), NOW).profile == MEASURED


def test_each_number_of_workers_is_a_template_of_its_own() -> None:
    two, four = elastic(2).record, elastic(4).record
    assert two.template_hash == four.template_hash
    assert a_pod(four).record.template_hash == four.template_hash
    assert four.desired is not None
    assert four.desired.template_hash != four.template_hash
    rigid = a_job("e").gang(2).record
    assert rigid.template_hash == two.template_hash


def test_a_range_that_changes_while_the_job_is_suspended_counts_from_its_next_attempt() -> None:
    ran = elastic(2).after(transitions.suspended, "m", NOW).status(profile=MEASURED)
    suspended = ran.spec(workers=3, minWorkers=3, maxWorkers=6, suspend=True)
    assert suspended.record.attempt_workers == 2, "what it had, though the range has it no more"
    resumed = suspended.spec(suspend=False).record
    assert snapshot_of(a_view([resumed], (), [a_gpu_node("n1", gpus=4)])).jobs[0].profile is None
    start = written(cycle(resumed, []))
    assert (start.status.attempt_workers, len(start.creates)) == (3, 3)
    rigid = suspended.spec(workers=2, minWorkers=None, maxWorkers=None, suspend=False).record
    status = reconciled_job_of(
        rigid.with_status(start.status.model_copy(update={"selector": "s"}))
    ).job.status
    assert status.selector == ""


def test_only_a_job_with_a_range_has_a_selector() -> None:
    assert reconciled_job_of(elastic(2).record).job.status.selector == "laneway.dev/job-uid=uid-e"
    assert reconciled_job_of(a_job("r").visited().record).job.status.selector == ""


def test_the_scheduler_plans_with_what_a_rescale_costs() -> None:
    rescale = RescaleStatus(
        from_workers=1, to_workers=2, attempt=0, since=format_time(NOW - 900), cost_milliseconds=42_000
    )
    job = elastic(4).status(rescale=rescale).record
    planned = snapshot_of(a_view([job], pods_of(job), [a_gpu_node("n1", gpus=4)])).jobs[0]
    assert (planned.rescale_seconds, planned.rescaled_seconds) == (42.0, NOW - 900)
    assert (planned.demand.workers, planned.requested_workers, planned.demand.elastic) == (2, 4, False)


def test_workers_outside_the_range_are_refused_with_what_to_write() -> None:
    for fields in ({"minWorkers": 2, "maxWorkers": 4}, {"minWorkers": 1}):
        assert "minWorkers" in a_job("e").spec(workers=1, **fields).record.problem


POLLUX: dict[str, Any] = {"elastic": {"policy": "pollux"}}


def test_a_policy_gives_a_job_more_workers_than_its_spec_after_the_minimum_run_time() -> None:
    job = elastic(2).record
    pods = pods_of(job)
    stop = written(cycle(job, pods, scheduling=POLLUX))
    assert stop.status.rescale is not None
    assert (stop.status.rescale.to_workers, stop.status.rescales) == (4, 1)
    start = written(cycle(job.with_status(stop.status), [], now=NOW + 30, scheduling=POLLUX))
    assert (start.status.attempt_workers, len(start.creates)) == (4, 4)
    young = elastic(2, since=NOW - 100).record
    assert cycle(young, pods_of(young, NOW - 100), scheduling=POLLUX).decision.rescales == {}


def test_it_is_reported_once_that_a_policy_decides_and_the_spec_does_not() -> None:
    job = elastic(4).record
    pods = pods_of(job)
    first = written(cycle(job, pods, gpus=2, scheduling=POLLUX))
    assert condition_of(first.status, "RescalePending") == ("False", "ElasticPolicyDecides")
    assert [each.message for each in first.after.events if each.reason == "ElasticPolicyDecides"] == [
        "The elastic policy pollux chooses the number of workers; spec.workers is not used."
    ]
    reported = job.with_status(first.status)
    assert write_of(cycle(reported, pods, gpus=2, scheduling=POLLUX), "e") is None
    without = written(cycle(reported, pods))
    assert condition_of(without.status, "RescalePending") == ("False", "NotPending")
    starts = written(
        cycle(a_job("e").spec(workers=2, minWorkers=1, maxWorkers=4).visited().record, [], scheduling=POLLUX)
    )
    assert reasons(starts.after) == ["Placed", "ElasticPolicyDecides"]
    rigid = a_job("e").gang(2).placed("n1", "n1", at=NOW - 1010).running(since=NOW - 1000).record
    of_rigid = written(cycle(rigid, pods_of(rigid), scheduling=POLLUX)).status
    assert transitions.condition(of_rigid, ConditionType.RESCALE_PENDING) is None


def test_a_policy_takes_workers_for_a_waiting_rigid_job() -> None:
    job, rigid = elastic(4, has=4).record, a_job("r").gang(2).visited().record
    view = a_view([job, rigid], pods_of(job), [a_gpu_node("n1", gpus=4)])
    result = decided(view, config=OperatorConfig.model_validate({"scheduling": POLLUX}))
    assert result.decision.rescales == {"ns/e": 2}


def test_a_policy_leaves_jobs_without_a_range_and_those_that_may_not_be_preempted_alone() -> None:
    rigid = a_job("e").gang(2).placed("n1", "n1", at=NOW - 1010).running(since=NOW - 1000).record
    never = elastic(2).spec(preemption={"mode": "Never"}).record
    for job in (rigid, never):
        assert cycle(job, pods_of(job), scheduling=POLLUX).decision.rescales == {}
