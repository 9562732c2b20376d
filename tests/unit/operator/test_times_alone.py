"""Which times of a profile count: those measured while nobody shared the job's GPUs."""

from __future__ import annotations

import pytest
from laneway.api.training_job_status import ProfileStatus, TrainingJobStatus
from laneway.operator.cycle.template_evidence import larger
from laneway.operator.lifecycle.reconcile import reconcile
from laneway.operator.lifecycle.times_alone import with_times_alone
from laneway.operator.state.sessions import SessionIndex

from tests.unit.operator.builders import NOW, a_gpu_node, a_job, a_pod, a_session, a_view
from tests.unit.operator.builders.outcomes import context_of

ALONE = ProfileStatus(
    persistent_bytes=100,
    ephemeral_bytes=100,
    iterations=40,
    iteration_microseconds=100_000,
    iteration_spread_microseconds=5_000,
    data_microseconds=100_000,
)
BESIDE = ALONE.model_copy(
    update={
        "persistent_bytes": 300,
        "iterations": 900,
        "iteration_microseconds": 170_000,
        "iteration_spread_microseconds": 60_000,
    }
)
NEW = a_job("mine").placed("n1", at=NOW - 100).running(since=NOW - 90).record
POD = a_pod(NEW).running(since=NOW - 90).record
OTHER = a_pod(a_job("other").placed("n1", at=NOW - 50).running(since=NOW - 40).record).record


def evaluated(
    now: ProfileStatus | None, status: TrainingJobStatus, *, others_gpu: int = 0
) -> ProfileStatus | None:
    sessions = SessionIndex()
    on_gpu: dict[int, list[dict[str, object]]] = {0: [a_session(POD)], 1: []}
    on_gpu[others_gpu].append(a_session(OTHER))
    sessions.report("n1", a_gpu_node("n1", 2, sessions=on_gpu))
    return with_times_alone(now, status, [POD], sessions)


def ran(profile: ProfileStatus, attempt: int = 1) -> TrainingJobStatus:
    job = a_job("mine").placed("n1", at=NOW - 100).running(since=NOW - 90)
    status = job.ran(profile, at=NOW - 100).record.status
    return status.model_copy(update={"attempt": attempt})


def test_beside_others_the_times_stay_and_the_sizes_are_new() -> None:
    found = evaluated(BESIDE, ran(ALONE))
    assert found == ALONE.model_copy(update={"persistent_bytes": 300})


def test_alone_on_its_gpu_all_is_new() -> None:
    assert evaluated(BESIDE, ran(ALONE), others_gpu=1) == BESIDE


@pytest.mark.parametrize(
    "status", [NEW.status, ran(ALONE, attempt=2)], ids=["nothing before", "an earlier attempt"]
)
def test_times_that_were_never_alone_give_way_to_any_of_the_template(status: TrainingJobStatus) -> None:
    found = evaluated(BESIDE, status)
    assert found is not None
    assert found.iteration_microseconds == BESIDE.iteration_microseconds, "better than none"
    merged = larger(ALONE.model_copy(update={"iterations": 3}), found)
    assert merged is not None
    assert (merged.iteration_microseconds, merged.persistent_bytes) == (100_000, 300)


def test_a_job_that_was_never_alone_goes_on_measuring() -> None:
    first = evaluated(BESIDE, NEW.status)
    assert first is not None
    later = BESIDE.model_copy(update={"iteration_microseconds": 180_000, "iterations": 2000})
    found = evaluated(later, ran(first))
    assert found is not None
    assert (found.iteration_microseconds, found.iterations) == (180_000, 1)


def test_without_a_measurement_there_is_none() -> None:
    assert evaluated(None, ran(ALONE)) is None


def test_a_status_keeps_the_times_alone() -> None:
    """Its template's profile is made of it: a longer iteration would keep further jobs of the template from sharing."""
    job = a_job("mine").placed("n1", at=NOW - 100).running(since=NOW - 90).ran(ALONE, at=NOW - 100).record
    times = {"iterationMicroseconds": 170_000, "dataMicroseconds": 100_000}
    measured = a_session(POD, lane=0, profiled=True, persistentBytes=300, iterations=900, **times)
    view = a_view(
        [job], [POD, OTHER], [a_gpu_node("n1", 1, sessions={0: [measured, a_session(OTHER, lane=1)]})]
    )

    profile = reconcile(job, (POD,), context_of(view)).job.status.profile

    assert profile is not None
    assert (profile.iteration_microseconds, profile.persistent_bytes) == (100_000, 300)
