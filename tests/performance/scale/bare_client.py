"""The baseline for pods bound per second: a client that only creates and binds the pods that the operator would create.

The client builds the pods with the operator's code and sends as many parallel requests. It binds them itself, so the pods name
another scheduler. :func:`create` leaves binding to kube-scheduler, as the operator does: compared with that run, the operator
is slower only by the cost of its own work.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from itertools import count

from laneway.api.training_job_status import WorkerPlacementStatus
from laneway.operator.execute.manifests import worker_pod
from laneway.operator.state.records.job_record import parse_job
from laneway.operator.state.resources import PODS
from laneway.operator.watch.apiserver import ApiServer, Raw

from tests.performance.scale.client import for_each
from tests.performance.scale.objects import GPUS_PER_NODE, a_job, gang_sizes, node_name


@dataclass(frozen=True, slots=True)
class BareClient:
    """Its result."""

    pods: int
    seconds: float

    @property
    def pods_a_second(self) -> float:
        """Pods created and bound."""
        return self.pods / self.seconds


async def create_and_bind(api: ApiServer, namespace: str, gpus: int) -> BareClient:
    """Fill a number of GPUs with the pods of gangs like the operator's jobs, and measure the time."""
    pods = _pods(namespace, gpus, scheduler="bare-client")

    async def run(pod: Raw, node: str) -> None:
        await api.request("POST", PODS.path(namespace), body=pod)
        name = pod["metadata"]["name"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": node},
        }
        await api.request("POST", PODS.path(namespace, name, "binding"), body=binding)

    began = time.monotonic()
    await for_each(partial(run, pod, node) for pod, node in pods)
    return BareClient(len(pods), time.monotonic() - began)


async def create(api: ApiServer, namespace: str, gpus: int) -> int:
    """Create the same pods, for kube-scheduler to bind; return how many."""
    pods = _pods(namespace, gpus)
    await for_each(partial(api.request, "POST", PODS.path(namespace), body=pod) for pod, _ in pods)
    return len(pods)


def _pods(namespace: str, gpus: int, scheduler: str | None = None) -> list[tuple[Raw, str]]:
    places = (
        (
            node_name(place // GPUS_PER_NODE),
            f"GPU-{node_name(place // GPUS_PER_NODE)}-{place % GPUS_PER_NODE}",
        )
        for place in count()
    )
    # The names differ between runs: a late write of kwok for a deleted pod would change a new pod of the same name.
    prefix = scheduler or "scheduled"
    found: list[tuple[Raw, str]] = []
    for number, workers in enumerate(gang_sizes(gpus)):
        raw = a_job(f"{prefix}-{number}", namespace, workers)
        raw["metadata"] |= {"uid": f"00000000-0000-0000-0000-{number:012d}", "resourceVersion": "1"}
        raw["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        job = parse_job(raw)
        assert job.desired is not None
        for rank in range(workers):
            if len(found) == gpus:
                return found
            node, gpu = next(places)
            worker = WorkerPlacementStatus(worker=rank, node=node, gpus=(gpu,), share_percent=100)
            pod = worker_pod(job, job.desired.spec, worker, 1)
            if scheduler is not None:
                pod["spec"]["schedulerName"] = scheduler
            # Its job does not exist, and it must not be collected as garbage.
            pod["metadata"].pop("ownerReferences")
            # The operator is not to take it for a worker of its own.
            pod["metadata"]["labels"] = {
                f"bare-{key}": value for key, value in pod["metadata"]["labels"].items()
            }
            found.append((pod, node))
    return found
