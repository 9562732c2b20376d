"""Jobs as a cluster of several teams has them: templates, shares, models, pools and priorities differ. The same in each run."""

from __future__ import annotations

import random
import time

from laneway.api import names
from laneway.api.conditions import Condition
from laneway.api.job_conditions import ConditionType
from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import TrainingJobStatus, WorkerPlacementStatus
from laneway.operator.watch.apiserver import Raw

from tests.performance.scale.objects import GPUS_PER_NODE, MODELS, POOLS, node_name

PRIORITIES = {"batch": -1000, "urgent": 1000}
"""The value of each PriorityClass; most jobs name none."""

_SEED = "mix"
_IMAGES = ("bert", "diffusion", "gnn", "gpt", "llama", "resnet", "unet", "whisper")
_DAY_SECONDS = 86_400.0


def a_mixed_job(name: str, namespace: str, workers: int) -> Raw:
    """Return a gang job; what it runs and needs follows from its name. Half of the jobs have a template of their own."""
    source = random.Random(f"{_SEED} {name}")
    pod: Raw = {"containers": [_trainer(source, name)]}
    if source.random() < 0.1:
        pod["nodeSelector"] = {"pool": source.choice(POOLS)}
    spec: Raw = {"workers": workers, "gpus": _gpus(source, workers), "template": {"spec": pod}}
    if source.random() < 0.2:
        spec["priorityClassName"] = source.choice(sorted(PRIORITIES))
    if source.random() < 0.2:
        spec["placement"] = source.choice(("Consolidate", "Spread"))
    if source.random() < 0.03:
        spec["preemption"] = {"mode": "Never"}
    if spec["gpus"]["type"] == "Count" and source.random() < 0.1:
        spec["sharing"] = "Exclusive"
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def ended_status(number: int, job: Raw) -> Raw:
    """Return the status of a job that ended within the last five days; one of ten failed."""
    source = random.Random(f"{_SEED} ended {number}")
    ran_seconds = source.uniform(60, 20_000)
    ended_seconds = time.time() - source.uniform(600, 5 * _DAY_SECONDS)
    started, ended = format_time(ended_seconds - ran_seconds), format_time(ended_seconds)
    end = ConditionType.FAILED if source.random() < 0.1 else ConditionType.COMPLETE
    workers = job["spec"]["workers"]
    status = TrainingJobStatus(
        conditions=tuple(
            Condition(
                type=each,
                status="True" if each in (end, ConditionType.ACCEPTED) else "False",
                reason="Ended" if each == end else "Played",
                message="",
                last_transition_time=started if each == ConditionType.ACCEPTED else ended,
                observed_generation=1,
            )
            for each in ConditionType
        ),
        observed_generation=1,
        attempt=1,
        attained_service_gpu_milliseconds=int(1e3 * ran_seconds) * workers,
        executed_milliseconds=int(1e3 * ran_seconds),
        placement=tuple(_place(number + rank, rank) for rank in range(workers)),
        start_time=started,
        completion_time=ended,
    )
    return status.to_json()


def _place(gpu: int, rank: int) -> WorkerPlacementStatus:
    node = node_name(gpu // GPUS_PER_NODE)
    return WorkerPlacementStatus(
        worker=rank, node=node, gpus=(f"GPU-{node}-{gpu % GPUS_PER_NODE}",), share_percent=100
    )


def _trainer(source: random.Random, name: str) -> Raw:
    image = source.choice(_IMAGES)
    batch = 32 << _IMAGES.index(image) % 4
    env = [{"name": "BATCH_SIZE", "value": str(batch)}]
    if source.random() < 0.5:
        env.append({"name": "RUN", "value": name})
    return {
        "name": "trainer",
        "image": f"example.invalid/{image}:{source.randint(1, 2)}",
        "command": ["python", f"train_{image}.py"],
        "env": env,
        "resources": {"requests": {"cpu": str(source.choice((1, 2, 4))), "memory": f"{2 * batch}Mi"}},
    }


def _gpus(source: random.Random, workers: int) -> Raw:
    """Most jobs want whole GPUs; half of the jobs of one or two workers want less."""
    if workers <= 2 and source.random() < 0.5:
        gpus: Raw = source.choice(
            (
                {"type": "Share", "sharePercent": 50},
                {"type": "Share", "sharePercent": 25},
                {"type": "Memory", "memory": "30Gi"},
            )
        )
    else:
        gpus = {"type": "Count", "count": 1}
    if source.random() < 0.2:
        gpus["models"] = [f"{source.choice(MODELS)}*"]
    return gpus
