"""The operator runs Gavel's rounds on nodes with several GPU models, by what templates have shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import ProfileStatus
from laneway.api.training_profile import ModelProfileStatus, TrainingProfileStatus
from laneway.operator.cycle.cycle import Cycle, CycleResult
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.state.records.gpu_node_record import GPUNodeRecord
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.profile_record import ProfileRecord, parse_profile
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import (
    GIB,
    NOW,
    JobBuilder,
    a_gpu_node,
    a_job,
    a_node,
    a_pod,
    a_view,
    decided,
    write_of,
)

CONFIG = OperatorConfig.model_validate({"scheduling": {"order": {"policy": "gavel-las"}}})
NODES = [a_node("fast"), a_node("slow")]


def gpus_of(name: str, model: str) -> GPUNodeRecord:
    """A node with one GPU of a model."""
    node = a_gpu_node(name, gpus=1)
    return replace(node, gpus=tuple(gpu.model_copy(update={"model": model}) for gpu in node.gpus))


GPU_NODES = [gpus_of("fast", "V100"), gpus_of("slow", "K80")]


def of_template(name: str, command: str, **spec: Any) -> JobBuilder:
    """A job that runs a command of its own."""
    container = {"name": "trainer", "image": "i", "command": [command]}
    return a_job(name).spec(template={"spec": {"containers": [container]}}, **spec)


def profile_of(job: JobRecord, **milliseconds: int) -> ProfileRecord:
    """What its template has shown: the time of an iteration by model."""
    assert job.desired is not None
    models = tuple(
        ModelProfileStatus(
            model=model.upper(),
            last_started=format_time(NOW),
            profile=ProfileStatus(
                persistent_bytes=GIB, ephemeral_bytes=GIB, iteration_microseconds=1000 * each
            ),
        )
        for model, each in milliseconds.items()
    )
    name = job.desired.template_hash
    metadata = {"namespace": "ns", "name": name, "uid": f"uid-{name}"}
    return parse_profile({"metadata": metadata, "status": TrainingProfileStatus(models=models).to_json()})


def nodes_of(result: CycleResult) -> dict[str, str]:
    return {key.removeprefix("ns/"): placement[0].node for key, placement in result.decision.starts.items()}


def test_jobs_start_on_the_models_that_their_templates_gain_most_by() -> None:
    small, large = (
        of_template("a-small", "small").visited().record,
        of_template("large", "large").visited().record,
    )
    profiles = [profile_of(small, v100=100, k80=110), profile_of(large, v100=100, k80=900)]
    view = a_view([small, large], gpu_nodes=GPU_NODES, nodes=NODES, profiles=profiles)
    assert nodes_of(decided(view, config=CONFIG)) == {"a-small": "slow", "large": "fast"}


def test_a_job_on_the_wrong_model_is_moved_when_a_round_begins_and_told_why() -> None:
    small = of_template("small", "small").placed("fast").running(since=NOW - 3600).record
    large = of_template("large", "large").placed("slow").running(since=NOW - 3600).record
    pods = [a_pod(job).running(since=NOW - 3600).record for job in (small, large)]
    profiles = [profile_of(small, v100=100, k80=110), profile_of(large, v100=100, k80=900)]
    view = a_view([small, large], pods, GPU_NODES, NODES, profiles=profiles)
    cycle = Cycle(CONFIG)
    first = cycle.run(view, WriteHistory({}, {}), NOW)
    assert first.decision.preemptions == {}, "a new operator moves nobody at once"
    assert first.due_seconds <= NOW + 360
    second = cycle.run(view, WriteHistory({}, {}), NOW + 360)
    write = write_of(second, "large")
    assert write is not None
    preempted = next(each for each in write.status.conditions if each.type == "Preempted")
    assert (preempted.status, preempted.reason) == ("True", "Reassigned")
    assert preempted.message == "Its round on K80 is over: it continues on V100."
