"""Many pods that hold sessions: created and checked together against every record of what they hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from laneway.api.device_ids import container_key, shares_of
from laneway.api.names import GPU_PERCENT

from hack.cluster.embedded import RunningCluster
from hack.cluster.kubectl import Kubectl
from hack.cluster.probes import wait_until
from hack.cluster.progress import ClusterError
from hack.demo.api import Api
from tests.e2e.holders import (
    CONNECTED,
    KubeletRecords,
    agent_processes,
    environment_of,
    pod_of_process,
    published_sessions,
    record_seen_by,
)
from tests.support.device_plugin.builders import raw_job

_CREATORS = 8


@dataclass(frozen=True)
class Crowd:
    """The plain pods of a namespace. ``agents`` are the agents' addresses, by node, and ``agent_pods`` their pods."""

    namespace: str
    cluster: RunningCluster
    kubectl: Kubectl
    api: Api
    agents: Mapping[str, str]
    agent_pods: Collection[str]

    def create(self, *batches: list[dict[str, Any]], user: str = "") -> None:
        """Create the objects of each batch at once, and the batches one after the other; as ``user`` if given."""
        verb = ("create", *(("--as", user) if user else ()))
        with ThreadPoolExecutor(_CREATORS) as pool:
            for batch in batches:
                parts = [batch[part::_CREATORS] for part in range(_CREATORS)]
                for outcome in [pool.submit(self._send, part, *verb) for part in parts if part]:
                    outcome.result()

    def replace(self, pods: list[dict[str, Any]], user: str) -> None:
        """Delete pods and create others of the same names as ``user``, all at once."""
        verb = ("replace", "--force", "--grace-period=1", "--as", user)
        with ThreadPoolExecutor(_CREATORS) as pool:
            for outcome in [pool.submit(self._send, [pod], *verb) for pod in pods]:
                outcome.result()

    def own_job(self, name: str) -> str:
        """Create a TrainingJob that owns workers and that no operator runs; return its uid."""
        job = json.dumps(raw_job(name))
        made = self.kubectl.run(
            *("create", "--namespace", self.namespace, "-o", "json", "-f", "-"), stdin=job
        )
        uid: str = json.loads(made)["metadata"]["uid"]
        return uid

    def _send(self, items: list[dict[str, Any]], *verb: str) -> None:
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        self.kubectl.run(*verb, "--namespace", self.namespace, "-f", "-", stdin=document)

    def pods(self) -> list[dict[str, Any]]:
        """All pods of the namespace."""
        return self.api.items(f"/api/v1/namespaces/{self.namespace}/pods")

    def running(self) -> dict[str, dict[str, Any]]:
        """The pods that run, by name."""
        return {pod["metadata"]["name"]: pod for pod in self.pods() if pod["status"]["phase"] == "Running"}

    def refused(self) -> list[str]:
        """The reasons with which the kubelets refused pods (a pod whose container failed has no such reason)."""
        return [
            f"{pod['metadata']['name']}: {pod['status']['reason']}: {pod['status'].get('message')}"
            for pod in self.pods()
            if pod["status"]["phase"] == "Failed" and pod["status"].get("reason")
        ]

    def delete(self) -> None:
        """Delete all and wait until they are gone."""
        here = ("--namespace", self.namespace)
        self.kubectl.run("delete", "replicasets", "--all", *here, "--cascade=orphan")
        self.kubectl.run("delete", "pods", "--all", *here, "--grace-period=1", "--timeout=240s")

    def sessions(self) -> list[dict[str, Any]]:
        """Returns the sessions of the namespace that the agents report.

        Raises:
            ClusterError: one does not answer.
        """
        return [
            session
            for pod in self.agent_pods
            for session in agent_processes(self.kubectl, pod)
            if session["namespace"] == self.namespace
        ]

    def wait_until_connected(
        self, names: Collection[str], ignoring: Collection[str] = (), seconds: float = 240
    ) -> dict[str, dict[str, Any]]:
        """Waits until each pod, and no other, has one session with a living process; returns the sessions by pod.

        Raises:
            ClusterError: not in time; says what the others are up to.
        """
        found: list[dict[str, Any]] = []

        def all_connected() -> bool:
            try:
                found[:] = (session for session in self.sessions() if session["pod"] not in ignoring)
            except ClusterError:
                return False
            connected = Counter(session["pod"] for session in found if _is_connected(session))
            return connected == Counter(set(names)) == Counter(session["pod"] for session in found)

        try:
            wait_until(all_connected, f"the agents know the sessions of {len(names)} pods", seconds)
        except ClusterError as error:
            here = Counter(each["pod"] for each in found)
            others = [each for each in found if not _is_connected(each) or here[each["pod"]] > 1]
            unseen, strange = sorted(set(names) - set(here)), sorted(set(here) - set(names))
            raise ClusterError(f"{error}: {others}; no session: {unseen}; strange: {strange}") from error
        return {session["pod"]: session for session in found}

    def connected(self) -> set[str]:
        """The pods whose processes are connected to their agents now."""
        return {session["pod"] for session in self.sessions() if _is_connected(session)}

    def check_identities(
        self,
        running: Mapping[str, dict[str, Any]],
        *,
        without_folder: Collection[str] = (),
        ignoring: Collection[str] = (),
    ) -> dict[str, dict[str, Any]]:
        """Checks that kubelet, agent, GPUNode and process agree on the GPU of each pod; returns the sessions by pod.

        Args:
            running: the pods, by name; no other has a session.
            without_folder: those of them whose own folders have been wiped, so that these say nothing.
            ignoring: pods of which nothing is demanded.
        """
        sessions = self.wait_until_connected(running, ignoring)
        held: dict[str, tuple[str, ...]] = {}
        published: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

        def all_are_shown() -> bool:
            # A kubelet that has just started lists no pod for some seconds.
            held.update(self._held_ids())
            published.update({status["pod"]: (gpu, status) for gpu, status in self._published()})
            return set(running) <= set(held) and set(running) <= set(published)

        wait_until(all_are_shown, "kubelets and GPUNodes show the holders", 120)
        for name, pod in running.items():
            gpu, status = published[name]
            _check_process(pod, sessions[name], held[name])
            if name not in without_folder:
                _check_folder(pod, sessions[name], held[name])
            ((uuid, percent),) = shares_of(held[name]).items()
            shown = (gpu["uuid"], status["podUID"], status["sharePercent"])
            assert shown == (uuid, pod["metadata"]["uid"], percent), name
        return sessions

    def _held_ids(self) -> dict[str, tuple[str, ...]]:
        """The ids of each pod, by the kubelets' records."""
        found: dict[str, tuple[str, ...]] = {}
        for node in self.cluster.nodes:
            records = KubeletRecords(node.plan.name, node.plan.folder / "var-lib" / "kubelet")
            try:
                found |= {
                    name: ids for (namespace, name), ids in records.ids() if namespace == self.namespace
                }
            finally:
                records.close()
        return found

    def _published(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        for node in self.kubectl.get("gpunodes")["items"]:
            for gpu, session in published_sessions(node):
                if session["namespace"] == self.namespace:
                    yield gpu, session


def _is_connected(session: dict[str, Any]) -> bool:
    """Whether the container's one process is connected. It may still wait for a lane: the shares are overcommitted."""
    processes = session["processes"]
    return session["state"] in CONNECTED and len(processes) == 1 and processes[0]["connected"]


def _check_process(pod: dict[str, Any], session: dict[str, Any], ids: tuple[str, ...]) -> None:
    """The agent and the session's process say the same as the kubelet and the API server."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    ((gpu, percent),) = shares_of(ids).items()
    assert percent == int(pod["spec"]["containers"][0]["resources"]["limits"][GPU_PERCENT]), name
    said = (session["gpu"], session["share_percent"], session["key"])
    assert said == (gpu, percent, container_key(ids)), name
    pid = session["processes"][0]["pid"]
    assert pod_of_process(pid) == uid, name
    environment = environment_of(pid)
    assert environment["HOSTNAME"] == name
    assert environment["LANEWAY_GPUS"] == gpu, name
    assert environment["LANEWAY_SHARE_PERCENT"] == str(percent), name


def _check_folder(pod: dict[str, Any], session: dict[str, Any], ids: tuple[str, ...]) -> None:
    """What lies in the container's own folder, as its process sees it, names it."""
    metadata = pod["metadata"]
    record = record_seen_by(session["processes"][0]["pid"])
    named = (record["namespace"], record["pod"], record["pod_uid"], record["container"])
    assert named == (metadata["namespace"], metadata["name"], metadata["uid"], "trainer")
    assert (sorted(record["device_ids"]), record["shares"]) == (sorted(ids), shares_of(ids)), metadata["name"]
