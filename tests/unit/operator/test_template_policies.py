"""A template's profile affects its next job: memory in lanes, remaining time, spreading."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.api.training_job_status import ProfileStatus
from laneway.operator.lifecycle import transitions
from laneway.operator.state.records.gpu_node_record import GPUNodeRecord
from laneway.operator.state.records.job_record import JobRecord
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import GIB, NOW, JobBuilder, a_gpu_node, a_job, a_pod, a_view, decided

SMALL = ProfileStatus(
    persistent_bytes=4 * GIB, ephemeral_bytes=10 * GIB, iterations=99, iteration_microseconds=100_000
)


def of_template(name: str, command: str, **spec: Any) -> JobBuilder:
    """A job that runs a command of its own."""
    container = {"name": "trainer", "image": "i", "command": [command]}
    return a_job(name).spec(template={"spec": {"containers": [container]}}, **spec)


def ended(
    builder: JobBuilder, workers: int = 1, profile: ProfileStatus | None = None, **figures: Any
) -> JobRecord:
    """One that succeeded a while ago, with what was measured of it."""
    ran = builder.placed(*["n1"] * workers).running().ran(profile)
    return ran.after(transitions.succeeded, "done", NOW - 4, NOW - 4).status(**figures).record


def scheduling(**policies: str) -> OperatorConfig:
    stages = {stage: {"policy": policy.replace("_", "-")} for stage, policy in policies.items()}
    return OperatorConfig.model_validate({"scheduling": stages})


def started(
    nodes: list[GPUNodeRecord], config: OperatorConfig, *jobs: JobRecord, holders: tuple[JobRecord, ...] = ()
) -> set[str]:
    pods = [a_pod(job, worker.worker).running().record for job in holders for worker in job.status.placement]
    decision = decided(a_view([*jobs, *holders], pods, nodes), config=config).decision
    return {key.removeprefix("ns/") for key in decision.starts}


IDLE_HALF = SMALL.model_copy(update={"data_microseconds": 100_000})


@pytest.mark.parametrize(("profile", "both"), [(None, False), (IDLE_HALF, True)])
def test_jobs_of_a_known_template_share_a_gpu_that_their_quotas_do_not(
    profile: ProfileStatus | None, both: bool
) -> None:
    share = {"gpus": {"type": "Share", "sharePercent": 60}}
    before = ended(of_template("before", "train", **share), profile=profile)
    jobs = [of_template(name, "train", **share).visited().record for name in ("a", "b")]
    nodes = [a_gpu_node("n1", gpus=1, percent=800)]
    found = started(nodes, OperatorConfig(sharing="lanes"), before, *jobs)
    assert found == ({"a", "b"} if both else {"a"})


@pytest.mark.parametrize(("profile", "joins"), [(SMALL, False), (IDLE_HALF, True)])
def test_the_lanes_policy_lets_a_job_join_another_while_that_loads_data(
    profile: ProfileStatus, joins: bool
) -> None:
    whole = {"gpus": {"type": "Count", "count": 1}}
    before = ended(of_template("before", "train", **whole), profile=profile)
    there = of_template("there", "train", **whole).placed("n1").running().status(profile=profile)
    comes = of_template("comes", "train", **whole).visited().record
    nodes = [a_gpu_node("n1", gpus=1, percent=800)]
    found = started(nodes, OperatorConfig(sharing="lanes"), before, comes, holders=(there.record,))
    assert found == ({"comes"} if joins else set())


@pytest.mark.parametrize(("short", "first"), [("a", "a"), ("b", "b")])
def test_srtf_goes_by_how_long_others_of_the_template_ran(short: str, first: str) -> None:
    before = [
        ended(
            of_template(f"before-{name}", name), executed_milliseconds=60_000 if name == short else 7_200_000
        )
        for name in ("a", "b")
    ]
    jobs = [of_template(name, name).visited().record for name in ("a", "b")]
    assert started([a_gpu_node("n1", gpus=1)], scheduling(order="srtf"), *before, *jobs) == {first}


@pytest.mark.parametrize(("largest", "starts"), [(9, False), (1, True)])
def test_tiresias_spreads_a_gang_unless_its_template_was_seen_to_be_skewed(
    largest: int, starts: bool
) -> None:
    measured = SMALL.model_copy(update={"model_bytes": 10 * GIB, "largest_tensor_bytes": largest * GIB})
    before = ended(of_template("before", "train", workers=4), workers=4, profile=measured)
    gang = of_template("gang", "train", workers=4).visited().record
    others = tuple(a_job(f"on-{node}").gang(2).placed(node, node).running().record for node in ("n1", "n2"))
    nodes = [a_gpu_node(node) for node in ("n1", "n2")]
    config = scheduling(order="fifo", placement="tiresias")
    assert started(nodes, config, before, gang, holders=others) == ({"gang"} if starts else set())
