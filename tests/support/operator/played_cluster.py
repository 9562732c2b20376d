"""A real API server on which the test plays the parts that are not there: kube-scheduler, kubelets and node agents."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from laneway.api import names
from laneway.api.rfc3339 import format_time
from laneway.operator.state.resources import (
    GPU_NODES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    TRAINING_JOBS,
    TRAINING_PROFILES,
)
from laneway.operator.watch.apiserver import APPLY_PATCH, ApiError, ApiServer, Raw

from tests.support.operator.waiting import until

GIB = 2**30
_HEARTBEAT_SECONDS = 5.0

PLAYED_IN_LABEL = "played-in"
"""Of objects that are in no namespace: the namespace of the test that made them."""


class PlayedCluster:
    """What one test sees and does: nodes of its own, and jobs that accept only these nodes' GPUs."""

    def __init__(self, api: ApiServer, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.model = f"GPU of {namespace}"
        self.digest = "sha256:1"
        """Of every image that a container started from now on runs."""

        self._nodes: list[str] = []
        self._ready: set[str] = set()
        self._beating = asyncio.Lock()
        self._classes: list[str] = []

    # ---- nodes and their agents

    async def add_node(
        self, name: str, gpus: int = 1, memory_bytes: int = 80 * GIB, percent: int = 100, **figures: Any
    ) -> str:
        """Add a ready Node and its GPUNode, whose GPUs offer this many shares and have these further
        figures; returns the node's full name."""
        full = await self.add_node_without_agent(name)
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "GPUNode",
            "metadata": self._of_node(full),
            "spec": {},
        }
        await self.api.request("POST", GPU_NODES.path(), body=body)
        status = [
            {**self._gpu(full, index, memory_bytes), "allocatablePercent": percent, **figures}
            for index in range(gpus)
        ]
        await self.report(full, status)
        return full

    async def add_node_without_agent(self, name: str) -> str:
        """Add a ready Node; returns its full name."""
        full = f"{self.namespace}-{name}"
        self._nodes.append(full)
        body = {"apiVersion": "v1", "kind": "Node", "metadata": self._of_node(full)}
        await self.api.request("POST", NODES.path(), body=body)
        await self.set_ready(full, True)
        await until(f"{full} is untainted", lambda: self._untainted(full))
        return full

    def _of_node(self, full: str) -> Raw:
        return {"name": full, "labels": {PLAYED_IN_LABEL: self.namespace}}

    async def remove_node(self, node: str) -> None:
        """Delete a Node and its GPUNode: the machine is gone for good."""
        async with self._beating:
            self._ready.discard(node)
        self._nodes.remove(node)
        await self.api.request("DELETE", GPU_NODES.path(name=node))
        await self.api.request("DELETE", NODES.path(name=node))

    async def set_ready(self, node: str, ready: bool) -> None:
        """Say as its kubelet whether a node is ready; :meth:`beat` repeats that it is."""
        async with self._beating:
            (self._ready.add if ready else self._ready.discard)(node)
            await self._say_ready(node, ready)

    async def beat(self) -> None:
        """Keep reporting that nodes are ready, as their kubelets do: Kubernetes gives up a node that is
        silent for long (:data:`tests.support.control_planes.NODE_GRACE_SECONDS`)."""
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            async with self._beating:
                for node in sorted(self._ready):
                    await self._say_ready(node, True)

    async def _say_ready(self, node: str, ready: bool) -> None:
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "reason": "Played",
            "lastHeartbeatTime": format_time(time.time()),
            "lastTransitionTime": format_time(time.time()),
        }
        await self._patch(
            NODES.path(name=node, subresource="status"), {"status": {"conditions": [condition]}}
        )

    async def report(self, node: str, gpus: Sequence[Raw]) -> None:
        """Write a GPUNode's status as its agent."""
        now = format_time(time.time())
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Played",
            "message": "",
            "lastTransitionTime": now,
        }
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "GPUNode",
            "metadata": {"name": node},
            "status": {"conditions": [ready], "observedAt": now, "gpuCount": len(gpus), "gpus": list(gpus)},
        }
        await self.api.request(
            "PATCH",
            GPU_NODES.path(name=node, subresource="status"),
            query={"fieldManager": names.NODE_FIELD_MANAGER, "force": "true"},
            body=body,
            content_type=APPLY_PATCH,
        )

    def _gpu(self, node: str, index: int, memory_bytes: int) -> Raw:
        return {
            "uuid": f"GPU-{node}-{index}",
            "index": index,
            "model": self.model,
            "memoryBytes": memory_bytes,
            "allocatableBytes": memory_bytes,
            "allocatablePercent": 100,
            "healthy": True,
        }

    async def set_health(self, node: str, gpu_index: int, reason: str = "", for_seconds: float = 0.0) -> None:
        """Say as its agent that a GPU is out of use, and for how long it has been; without a reason: that it is healthy."""
        gpus = (await self.api.request("GET", GPU_NODES.path(name=node)))["status"]["gpus"]
        gpu = gpus[gpu_index]
        gpu |= {"healthy": not reason, "healthReason": reason}
        gpu.pop("unhealthySince", None)
        if reason:
            gpu["unhealthySince"] = format_time(time.time() - for_seconds)
        await self.report(node, gpus)

    async def add_session(self, pod: Raw, gpu_index: int, **figures: Any) -> None:
        """Report as the agent that a worker's container holds a GPU of its node."""
        node = pod["spec"]["nodeName"]
        found = await self.api.request("GET", GPU_NODES.path(name=node))
        gpus = found["status"]["gpus"]
        gpus[gpu_index].setdefault("sessions", []).append(
            {
                "key": f"{len(gpus[gpu_index].get('sessions', ())):016x}",
                "namespace": self.namespace,
                "pod": pod["metadata"]["name"],
                "podUID": pod["metadata"]["uid"],
                "container": "trainer",
                "sharePercent": 100,
                "quotaBytes": gpus[gpu_index]["allocatableBytes"],
                "state": "Holding",
                **figures,
            }
        )
        await self.report(node, gpus)

    async def set_sessions(self, node: str, pods: Sequence[Raw], **figures: Any) -> None:
        """Report as the agent something new of the sessions of these pods."""
        uids = {pod["metadata"]["uid"] for pod in pods}
        gpus = (await self.api.request("GET", GPU_NODES.path(name=node)))["status"]["gpus"]
        for gpu in gpus:
            for session in gpu.get("sessions") or ():
                if session["podUID"] in uids:
                    session.update(figures)
        await self.report(node, gpus)

    async def orders(self, node: str) -> dict[str, str]:
        """Return what a node is ordered, by the uid of the pod."""
        spec = (await self.api.request("GET", GPU_NODES.path(name=node))).get("spec") or {}
        return {each["podUID"]: each["order"] for each in spec.get("orders") or ()}

    async def until_orders(self, node: str, orders: dict[str, str]) -> None:
        """Wait until a node is ordered this and nothing else."""

        async def look() -> bool:
            return await self.orders(node) == orders

        await until(f"{node} is ordered {orders}", look)

    async def add_priority_class(self, name: str, value: int) -> str:
        """Add a PriorityClass; returns its full name."""
        full = f"{self.namespace}-{name}"
        self._classes.append(full)
        body = {
            "apiVersion": PRIORITY_CLASSES.api_version,
            "kind": PRIORITY_CLASSES.kind,
            "metadata": {"name": full, "labels": {PLAYED_IN_LABEL: self.namespace}},
            "value": value,
        }
        await self.api.request("POST", PRIORITY_CLASSES.path(), body=body)
        return full

    # ---- jobs

    async def submit(
        self, name: str, *, gpus: Raw | None = None, template: Raw | None = None, **spec: Any
    ) -> Raw:
        """Create a TrainingJob that accepts only this test's GPUs."""
        container = {"name": "trainer", "image": "example.invalid/trainer"}
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "TrainingJob",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "gpus": {**(gpus or {"type": "Count", "count": 1}), "models": [self.model]},
                "template": template or {"spec": {"containers": [container]}},
                **spec,
            },
        }
        return await self.api.request("POST", TRAINING_JOBS.path(self.namespace), body=body)

    async def job(self, name: str) -> Raw:
        """Return the current TrainingJob."""
        return await self.api.request("GET", TRAINING_JOBS.path(self.namespace, name))

    async def change(self, name: str, spec: Raw) -> None:
        """Change a TrainingJob's spec as its user."""
        await self._patch(TRAINING_JOBS.path(self.namespace, name), {"spec": spec})

    async def delete_job(self, name: str) -> None:
        """Delete a TrainingJob as its user."""
        await self.api.request("DELETE", TRAINING_JOBS.path(self.namespace, name))

    async def condition(self, job: str, kind: str) -> Raw:
        """Return a condition of a job; empty while it is not set."""
        found = (await self.job(job)).get("status", {}).get("conditions", ())
        return next((each for each in found if each["type"] == kind), {})

    async def until_condition(
        self, job: str, kind: str, status: str = "True", reason: str | None = None, seconds: float = 60.0
    ) -> Raw:
        """Wait for a condition of a job, and return it."""

        async def look() -> Raw | None:
            found = await self.condition(job, kind)
            return found if found.get("status") == status and reason in (None, found["reason"]) else None

        return await until(f"{job}: {kind} is {status} {reason or ''}", look, seconds)

    async def until_waiting(self, job: str, reason: str, seconds: float = 60.0) -> Raw:
        """Wait until a job waits for a reason, and return its status's `waiting`."""

        async def look() -> Raw | None:
            waiting: Raw = (await self.job(job)).get("status", {}).get("waiting") or {}
            return waiting if waiting.get("reason") == reason else None

        return await until(f"{job} waits for {reason}", look, seconds)

    async def profiles(self) -> dict[str, Raw]:
        """Return the statuses of the TrainingProfiles by name."""
        found = await self.api.request("GET", TRAINING_PROFILES.path(self.namespace))
        return {each["metadata"]["name"]: each["status"] for each in found["items"]}

    # ---- pods, as kube-scheduler and kubelet

    async def pods(self, job: str) -> list[Raw]:
        """Return the pods of a job, ordered by rank."""
        query = {"labelSelector": f"{names.JOB_LABEL}={job}"}
        found = await self.api.request("GET", PODS.path(self.namespace), query=query)
        return sorted(found["items"], key=lambda pod: int(pod["metadata"]["labels"][names.RANK_LABEL]))

    async def until_pods(
        self, job: str, count: int, attempt: int | None = None, seconds: float = 60.0
    ) -> list[Raw]:
        """Wait until a job has this many pods (of that attempt, none being deleted), and return them."""

        async def look() -> list[Raw] | None:
            found = [pod for pod in await self.pods(job) if "deletionTimestamp" not in pod["metadata"]]
            if attempt is not None:
                found = [
                    pod for pod in found if pod["metadata"]["labels"][names.ATTEMPT_LABEL] == str(attempt)
                ]
            return found if len(found) == count else None

        return await until(f"{job} has {count} pods of attempt {attempt}", look, seconds)

    async def run(self, pod: Raw) -> Raw:
        """Bind a pod to the node that it is pinned to, and start its container."""
        await self.bind(pod)
        return await self.start(pod)

    async def bind(self, pod: Raw) -> None:
        """Bind a pod to the node that it is pinned to."""
        name = pod["metadata"]["name"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "uid": pod["metadata"]["uid"]},
            "target": {"kind": "Node", "name": pinned_node(pod)},
        }
        await self.api.request("POST", PODS.path(self.namespace, name, "binding"), body=binding)

    async def start(self, pod: Raw) -> Raw:
        """Start a bound pod's container."""
        return await self._say(pod, "Running", {"running": {"startedAt": format_time(time.time())}})

    async def run_all(self, job: str, count: int, attempt: int | None = None) -> list[Raw]:
        """Wait for a gang's pods and run them all."""
        return [await self.run(pod) for pod in await self.until_pods(job, count, attempt)]

    async def finish(self, pod: Raw, exit_code: int = 0, reason: str = "", message: str = "") -> Raw:
        """End a pod's container."""
        terminated = {
            "exitCode": exit_code,
            "reason": reason or ("Completed" if exit_code == 0 else "Error"),
            "message": message,
            "startedAt": format_time(time.time()),
            "finishedAt": format_time(time.time()),
        }
        return await self._say(pod, "Succeeded" if exit_code == 0 else "Failed", {"terminated": terminated})

    async def refuse(self, pod: Raw, reason: str, message: str) -> None:
        """Refuse a pod as the kubelet of its node."""
        status = {"phase": "Failed", "reason": reason, "message": message}
        await self._patch(PODS.path(self.namespace, pod["metadata"]["name"], "status"), {"status": status})

    async def take_away(self, pod: Raw) -> None:
        """Take a pod away as the kubelet does when its containers have ended."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": pod["metadata"]["uid"]},
        }
        try:
            await self.api.request("DELETE", PODS.path(self.namespace, pod["metadata"]["name"]), body=body)
        except ApiError as error:
            if error.status not in (404, 409):  # it is gone, or another is in its place
                raise

    async def let_go(self, job: str) -> None:
        """Take the pods of a job that are being deleted away, as the kubelet does when their containers have ended."""
        for pod in await self.pods(job):
            if "deletionTimestamp" in pod["metadata"]:
                await self.take_away(pod)

    async def until_leaving(self, job: str, count: int) -> None:
        """Wait until this many pods of a job are being deleted, then remove them."""

        async def look() -> bool:
            return sum("deletionTimestamp" in pod["metadata"] for pod in await self.pods(job)) == count

        await until(f"{count} pods of {job} are being deleted", look)
        await self.let_go(job)

    async def events(self, job: str) -> list[str]:
        """Return the reasons of a job's events, in order."""
        found = await self.api.request("GET", f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")
        of_job = [each for each in found["items"] if each["regarding"].get("name") == job]
        return [each["reason"] for each in sorted(of_job, key=lambda each: each["eventTime"])]

    async def until_event(self, job: str, reason: str) -> None:
        """Wait until a job has an event with this reason: events are written after the statuses that they report."""

        async def look() -> bool:
            return reason in await self.events(job)

        await until(f"{job} has the event {reason}", look)

    async def clean_up(self) -> None:
        """Delete all that the test made."""
        self._ready.clear()
        await self.api.request("DELETE", TRAINING_JOBS.path(self.namespace))
        for pod in (await self.api.request("GET", PODS.path(self.namespace)))["items"]:
            await self.take_away(pod)
        await self.api.request("DELETE", TRAINING_PROFILES.path(self.namespace))
        for name in self._nodes:
            await self.api.request("DELETE", GPU_NODES.path(name=name))
            await self.api.request("DELETE", NODES.path(name=name))
        for name in self._classes:
            await self.api.request("DELETE", PRIORITY_CLASSES.path(name=name))

    async def _untainted(self, node: str) -> bool:
        return not (await self.api.request("GET", NODES.path(name=node)))["spec"].get("taints")

    async def _say(self, pod: Raw, phase: str, state: Raw) -> Raw:
        containers = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": f"{container['image']}@{self.digest}",
                "ready": phase == "Running",
                "restartCount": 0,
                "state": state,
            }
            for container in pod["spec"]["containers"]
        ]
        status = {"phase": phase, "containerStatuses": containers}
        return await self._patch(
            PODS.path(self.namespace, pod["metadata"]["name"], "status"),
            {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status},
        )

    async def _patch(self, path: str, body: Raw) -> Raw:
        return await self.api.request("PATCH", path, body=body, content_type="application/merge-patch+json")


def pinned_node(pod: Raw) -> str:
    """Return the node that the operator has chosen for a pod."""
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    node: str = terms["nodeSelectorTerms"][0]["matchFields"][-1]["values"][0]
    return node
