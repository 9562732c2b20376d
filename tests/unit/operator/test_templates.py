"""What was measured of a job holds for the next of the same template: from status to plan and pod."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.api.training_job_status import ProfileStatus
from laneway.operator.cycle.template_evidence import larger
from laneway.operator.cycle.templates import NOTHING_KNOWN, Profiles, TemplateBook, from_node, to_node
from laneway.operator.execute.manifests import worker_pod
from laneway.operator.state.records.job_record import JobRecord, parse_job
from laneway.operator.state.records.worker_pod import WorkerPod, parse_worker_pod
from laneway.operator.state.sessions import measured_profile
from laneway.scheduling import Profile

from tests.unit.operator.builders import (
    GIB,
    NOW,
    JobBuilder,
    a_gpu_node,
    a_job,
    a_node,
    a_pod,
    a_session,
    a_view,
    decided,
    snapshot_of,
    write_of,
)

MEASURED = ProfileStatus(
    persistent_bytes=4 * GIB,
    ephemeral_bytes=10 * GIB,
    framework_bytes=GIB,
    iteration_microseconds=250_000,
    iteration_spread_microseconds=9_000,
    data_microseconds=40_000,
    iterations=500,
    model_bytes=GIB,
    largest_tensor_bytes=GIB // 4,
)


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "trainer", "image": "i", "command": ["python", "train.py"], **fields}


def template(*containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers or (container(),)), **fields}}


def hash_of(builder: JobBuilder) -> str:
    desired = builder.record.desired
    assert desired is not None, builder.record.problem
    return desired.template_hash


SAME = a_job().share(50).spec(template=template())


@pytest.mark.parametrize(
    ("story", "other", "same"),
    [
        ("the name", a_job("other").share(50).spec(template=template()), True),
        (
            "the GPU models that it accepts: a profile is kept for each",
            a_job()
            .spec(gpus={"type": "Share", "sharePercent": 50, "models": ["A100"]})
            .spec(template=template()),
            True,
        ),
        (
            "a variable",
            a_job().share(50).spec(template=template(container(env=[{"name": "BATCH_SIZE", "value": "8"}]))),
            False,
        ),
        (
            "variables from elsewhere",
            a_job().share(50).spec(template=template(container(envFrom=[{"configMapRef": {"name": "c"}}]))),
            False,
        ),
        ("the folder", a_job().share(50).spec(template=template(container(workingDir="/b"))), False),
        (
            "labels, volumes and containers beside the trainer",
            a_job()
            .share(50)
            .spec(template=template(container(), {"name": "sidecar", "image": "logs"}, volumes=[])),
            True,
        ),
        ("the image", a_job().share(50).spec(template=template(container(image="j"))), False),
        (
            "the command",
            a_job().share(50).spec(template=template(container(command=["python", "eval.py"]))),
            False,
        ),
        ("the arguments", a_job().share(50).spec(template=template(container(args=["--batch=64"]))), False),
        ("the share", a_job().share(60).spec(template=template()), False),
        ("the size of the gang", a_job().share(50).gang(2).spec(template=template()), False),
    ],
)
def test_what_makes_a_template(story: str, other: JobBuilder, same: bool) -> None:
    assert (hash_of(SAME) == hash_of(other)) == same, story


def with_env(*env: dict[str, Any]) -> str:
    return hash_of(a_job().share(50).spec(template=template(container(env=list(env)))))


@given(
    st.permutations([{"name": name, "value": "1"} for name in "ABC"]),
    st.permutations(["name", "image", "command"]),
)
def test_neither_the_order_of_variables_nor_that_of_fields_makes_another_template(
    env: list[dict[str, Any]], order: list[str]
) -> None:
    fields = container(env=env)
    reordered = {name: fields[name] for name in [*order, "env"]}
    want = with_env(*({"name": name, "value": "1"} for name in "ABC"))
    assert hash_of(a_job().share(50).spec(template=template(reordered))) == want


def test_a_variable_counts_with_its_value_or_where_that_comes_from() -> None:
    eight, many = ({"name": "BATCH_SIZE", "value": text} for text in ("8", "512"))
    secret = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    other = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "other"}}}
    found = [with_env(eight), with_env(many), with_env(secret), with_env(other), with_env()]
    assert len(set(found)) == len(found)
    assert with_env(eight, many) == with_env(many), "of two, the later counts"
    assert with_env({"name": "EMPTY"}) == with_env({"name": "EMPTY", "value": ""})


def seen(name: str, profile: ProfileStatus | None = MEASURED, **metadata: Any) -> JobRecord:
    """A job that runs and was measured."""
    return a_job(name).share(50).metadata(**metadata).placed("n1", percent=50).ran(profile).record


def book_of(*jobs: JobRecord, profiles: Profiles | None = None, now: float = NOW) -> TemplateBook:
    book = TemplateBook()
    for job in jobs:
        book.note(job.uid, job, now)
    profiles = profiles or {}
    keys = [record.key for there in profiles.values() for record in there.values()]
    book.refresh(profiles, keys, now)
    return book


def test_a_template_is_known_by_all_of_its_jobs_with_the_most_memory_that_one_needed() -> None:
    big = MEASURED.model_copy(update={"ephemeral_bytes": 20 * GIB, "iterations": 3, "persistent_bytes": 1})
    want = MEASURED.model_copy(update={"ephemeral_bytes": 20 * GIB})
    book = book_of(seen("a"), seen("b", big), seen("c", None))
    assert book.of(a_job().share(50).record).profile == want
    assert larger(big, MEASURED) == want


def test_what_one_namespace_measured_does_not_count_in_another() -> None:
    book, waiting = book_of(seen("a")), a_job("b").share(50)
    assert book.of(waiting.record).profile == MEASURED
    assert book.of(waiting.metadata(namespace="others").record) == NOTHING_KNOWN


def test_a_job_whose_spec_is_wrong_tells_nothing() -> None:
    raw = a_job().placed("n1").ran(MEASURED).raw
    raw["spec"]["gpus"] = {}
    broken = parse_job(raw)
    assert broken.desired is None
    book = TemplateBook()
    book.note(broken.uid, broken, NOW)
    assert book.refresh({}, (), NOW) == set()


def test_a_profile_comes_back_from_the_node_as_it_went_there() -> None:
    there = to_node(MEASURED)
    assert there.persistent_bytes == 3 * GIB, "there the framework's is beside it"
    assert from_node(there) == MEASURED.model_copy(update={"iterations": 0})


def planned_profile(job: JobRecord, others: list[JobRecord], pods: list[WorkerPod]) -> Profile | None:
    """The figures that the planner counts a job with."""
    view = a_view([job, *others], pods=pods, gpu_nodes=[a_gpu_node("n1")], nodes=[a_node("n1")])
    snapshot = snapshot_of(view)
    return next(each.profile for each in snapshot.jobs if each.key == job.key)


def test_a_waiting_job_is_planned_with_what_is_known_of_its_template() -> None:
    waiting = a_job("next").share(50).visited().record
    counted = planned_profile(waiting, [seen("before")], [])
    assert counted is not None
    assert (counted.persistent_bytes, counted.ephemeral_bytes) == (4 * GIB, 10 * GIB)
    assert planned_profile(waiting, [seen("before", None)], []) is None


def test_a_job_that_started_before_anything_was_known_counts_as_its_node_counts_it() -> None:
    running = a_job("older").share(50).placed("n1", percent=50).running().record
    unknown = a_pod(running).running().record
    assert planned_profile(running, [seen("before")], [unknown]) is None
    assert running.desired is not None
    made = worker_pod(running, running.desired.spec, running.status.placement[0], 1, to_node(MEASURED))
    made["metadata"].update(uid="uid-made", resourceVersion="1")
    counted = planned_profile(running, [], [parse_worker_pod(made)])
    assert counted is not None
    assert counted.ephemeral_bytes == 10 * GIB


def test_pods_are_made_with_what_is_known_of_their_template() -> None:
    placed = a_job("next").share(50).placed("n1", percent=50).record
    view = a_view([placed, seen("before")], gpu_nodes=[a_gpu_node("n1")], nodes=[a_node("n1")])
    write = write_of(decided(view), "next")
    assert write is not None
    assert len(write.creates) == 1
    assert write.profile == MEASURED


def test_what_the_nodes_measured_becomes_the_jobs_profile() -> None:
    job = a_job().gang(2).placed("n1", "n1").running().record
    pods = [a_pod(job, rank).running().record for rank in (0, 1)]
    figures: dict[str, Any] = {"profiled": True, "iterations": 10, "persistentBytes": 5, "ephemeralBytes": 6}
    slow = {"iterationMicroseconds": 30, "iterationSpreadMicroseconds": 4, "frameworkBytes": 2}
    fast = {"iterationMicroseconds": 20, "iterationSpreadMicroseconds": 9, "frameworkBytes": 3}
    node = a_gpu_node(
        "n1",
        sessions={0: [a_session(pods[0], **figures, **slow)], 1: [a_session(pods[1], **figures, **fast)]},
    )
    profile = measured_profile(pods, a_view(gpu_nodes=[node]).sessions)
    assert profile is not None
    assert (
        profile.framework_bytes,
        profile.iteration_microseconds,
        profile.iteration_spread_microseconds,
    ) == (
        3,
        30,
        4,
    )


@pytest.mark.parametrize("text", ["{}", "nonsense", '{"persistent_bytes": -1, "ephemeral_bytes": 0}'])
def test_an_annotation_that_is_no_profile_says_nothing(text: str) -> None:
    job = a_job().placed("n1").record
    raw = a_pod(job).raw
    raw["metadata"]["annotations"]["laneway.dev/profile"] = text
    assert parse_worker_pod(raw).profile is None
