"""The nodes, their agents' words and the jobs, as the API server gets them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from laneway.api import names
from laneway.api.rfc3339 import format_time
from laneway.operator.watch.apiserver import Raw

GPUS_PER_NODE = 8
MODELS = ("A100", "H100")
"""Three nodes of four have the first."""

POOLS = ("common", "research")
"""Label of the nodes: four of five have the first."""

_GIB = 2**30
_SEED = 7


def node_name(number: int) -> str:
    """Return the name of a node."""
    return f"n{number:04d}"


def node_number(name: str) -> int:
    """Return the number of a node."""
    return int(name[1:])


def a_node(number: int) -> Raw:
    """Return a Node that kwok plays, ready from the beginning."""
    name = node_name(number)
    capacity = {"cpu": "128", "memory": "1Ti", "pods": "110", names.GPU_PERCENT: str(100 * GPUS_PER_NODE)}
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Played",
        "lastHeartbeatTime": format_time(time.time()),
        "lastTransitionTime": format_time(time.time()),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": name, "pool": POOLS[number % 5 == 4]},
        },
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": [condition]},
    }


def a_gpu_node(number: int) -> Raw:
    """Return the GPUNode of a node, without its status."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "GPUNode",
        "metadata": {"name": node_name(number)},
        "spec": {},
    }


def agents_word(number: int) -> Raw:
    """Return what a node's agent applies to its GPUNode's status: eight free GPUs, a DaemonSet's pod, and the time."""
    now = format_time(time.time())
    ready = {"type": "Ready", "status": "True", "reason": "Played", "message": "", "lastTransitionTime": now}
    gpus = [
        {
            "uuid": f"GPU-{node_name(number)}-{index}",
            "index": index,
            "model": MODELS[number % 4 == 3],
            "memoryBytes": 80 * _GIB,
            "allocatableBytes": 79 * _GIB,
            "allocatablePercent": 100,
            "healthy": True,
        }
        for index in range(GPUS_PER_NODE)
    ]
    return {
        "apiVersion": names.API_VERSION,
        "kind": "GPUNode",
        "metadata": {"name": node_name(number)},
        "status": {
            "conditions": [ready],
            "observedAt": now,
            "otherPodsRequests": {"cpu": "100m", "pods": "1"},
            "gpuCount": len(gpus),
            "gpus": gpus,
        },
    }


def a_session(gpu: Raw, iterations: int, **whose: object) -> Raw:
    """Return what an agent says of a container that trains: a plain pod's on a whole GPU, unless ``whose`` says otherwise."""
    session = {
        "key": f"{gpu['index']:016x}",
        "namespace": "elsewhere",
        "pod": f"trains-on-{gpu['uuid'].lower()}",
        "podUID": f"uid-of-{gpu['uuid'].lower()}",
        "container": "trainer",
        "sharePercent": 100,
        "quotaBytes": gpu["allocatableBytes"],
        "lane": 0,
        "state": "Holding",
        "enforcement": "Cooperative",
        "profiled": True,
        "persistentBytes": 20 * _GIB,
        "ephemeralBytes": 30 * _GIB,
        "frameworkBytes": _GIB,
        "iterationMicroseconds": 100_000,
        "turns": iterations,
        "iterations": iterations,
        "gpuMilliseconds": 100 * iterations,
        "dataMilliseconds": iterations,
        "heldBytes": 45 * _GIB,
    }
    return session | whose


def gang_sizes(jobs: int) -> Iterator[int]:
    """Yield the number of workers of each job: 1 to 8, all as often, the same in each run."""
    source = random.Random(_SEED)
    for _ in range(jobs):
        yield source.randint(1, 8)


def a_job(name: str, namespace: str, workers: int) -> Raw:
    """Return a gang job; each worker has a whole GPU."""
    container = {
        "name": "trainer",
        "image": "example.invalid/trainer:1",
        "command": ["python", "train.py"],
        "env": [{"name": "RUN", "value": name}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "workers": workers,
            "gpus": {"type": "Count", "count": 1},
            "template": {"spec": {"containers": [container]}},
        },
    }
