"""What the components of a cluster with 500 jobs expose, made from the metrics that they declare.

Each counter and histogram grows from one scrape to the next, as if all happened all the time. NVIDIA's dcgm-exporter is there, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, product

from laneway.api.metric import BUILD_INFO, MetricSpec
from laneway.operator.metrics import JOB_WAITING

from hack.reference.metrics import METRICS

NAMESPACES = [f"team-{number}" for number in range(40)]
NODES = [f"node-{number:02}" for number in range(63)]
GPUS_OF_NODE = 8
JOBS = 500
RUNNING = 400
"""The others wait. Each that runs has one GPU."""

PAUSED_JOB = 3
"""It has its GPU and waits."""

_COMPONENTS = {"Operator": "operator", "Node agent": "node-agent", "Device plugin": "device-plugin"}
_SEEN = {
    "queue": ["0", "1", "2"],
    "method": ["GET", "PATCH", "POST"],
    "code": ["200", "201", "409", "503", "<error>"],
    "verb": ["create", "apply", "delete"],
    "resource": ["pods", "trainingjobs"],
    "result": ["ok", "conflict", "refused"],
    "stage": ["order"],
    "model": ["A100", "L4"],
    "lane": ["0", "1"],
    "reason": ["stalled"],
}
"""Values of labels that no specification lists."""

_DCGM = ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_SM_ACTIVE")

_OF_GPU = {"index": "0", "model": "A100", "xid": "79", "class": "reset"}

Labels = dict[str, str]


def job_labels(number: int) -> Labels:
    """Return the labels of a job."""
    return {"namespace": NAMESPACES[number % len(NAMESPACES)], "training_job": f"job-{number}"}


def gpu_labels(number: int) -> Labels:
    """Return the labels of a GPU."""
    return {"node": NODES[number // GPUS_OF_NODE], "gpu_uuid": f"GPU-{number}"}


class Exporter:
    """The pages for Prometheus, each newer than the one before."""

    def __init__(self) -> None:
        self._scrapes = count(1)

    def pages(self) -> dict[str, str]:
        """Return the pages by component; the agents, and the plugins, of all nodes share one."""
        scrape = next(self._scrapes)
        pages = {
            component: "".join(text for spec in METRICS[name] for text in _family(spec, component, scrape))
            for name, component in _COMPONENTS.items()
        }
        process = f"process_cpu_seconds_total {scrape}\nprocess_resident_memory_bytes 1e8\n"
        pages = {component: page + process for component, page in pages.items()}
        gpus = range(len(NODES) * GPUS_OF_NODE)
        return pages | {
            "dcgm-exporter": "".join(
                f'{metric}{{UUID="GPU-{gpu}",gpu="{gpu % GPUS_OF_NODE}",Hostname="{gpu_labels(gpu)["node"]}"}} 0.5\n'
                for metric in _DCGM
                for gpu in gpus
            )
        }


def _family(spec: MetricSpec, component: str, scrape: int) -> Iterator[str]:
    for labels in _series(spec, component):
        text = ",".join(f'{name}="{value}"' for name, value in labels.items())
        if spec.kind == "histogram":
            comma = "," if text else ""
            yield f'{spec.name}_bucket{{{text}{comma}le="1"}} {scrape}\n'
            yield f'{spec.name}_bucket{{{text}{comma}le="10"}} {2 * scrape}\n'
            yield f'{spec.name}_bucket{{{text}{comma}le="+Inf"}} {2 * scrape}\n'
            yield f"{spec.name}_sum{{{text}}} {6 * scrape}\n{spec.name}_count{{{text}}} {2 * scrape}\n"
        else:
            yield f"{spec.name}{{{text}}} {scrape if spec.kind == 'counter' else 0.5}\n"


def _series(spec: MetricSpec, component: str) -> Iterator[Labels]:
    if spec is BUILD_INFO:
        yield {"component": component, "version": "1.0"}
        return
    for objects in _objects(spec):
        further = [label for label in spec.labels if label not in objects]
        for values in product(*(_values(spec, label) for label in further)):
            yield objects | dict(zip(further, values, strict=True))


def _objects(spec: MetricSpec) -> Iterator[Labels]:
    """Yield the labels of the jobs, containers, GPUs, nodes or namespaces that there are series for."""
    labels = spec.labels
    if spec is JOB_WAITING:
        yield from (job_labels(number) for number in (PAUSED_JOB, *range(RUNNING, JOBS)))
    elif "pod" in labels or {"training_job", "gpu_uuid"} <= set(labels):
        for number in range(RUNNING):
            found = {**gpu_labels(number), **job_labels(number), "pod": f"job-{number}-0"}
            yield {label: found[label] for label in labels if label in found}
    elif "training_job" in labels:
        yield from (job_labels(number) for number in range(JOBS))
    elif "gpu_uuid" in labels:
        for number in range(len(NODES) * GPUS_OF_NODE):
            namespace = {"namespace": job_labels(number)["namespace"]} if "namespace" in labels else {}
            yield gpu_labels(number) | namespace
    elif "node" in labels:
        yield from ({"node": node} for node in NODES)
    elif "namespace" in labels:
        yield from ({"namespace": namespace} for namespace in NAMESPACES)
    else:
        yield {}


def _values(spec: MetricSpec, label: str) -> Sequence[str]:
    if "gpu_uuid" in spec.labels and label in _OF_GPU:
        return [_OF_GPU[label]]
    return spec.values.get(label) or _SEEN[label]
