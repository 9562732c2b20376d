"""Two hundred pods at once on two real nodes: every session names its own pod and a GPU that the pod holds, and no GPU is
ever promised twice. Looked at throughout, by everybody who has a say; see `witness`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from typing import Any

import pytest
from laneway.api.device_ids import container_key, shares_of
from laneway.api.names import GPU_PERCENT, GPUS_ANNOTATION

from hack.cluster.probes import wait_until
from hack.demo.install import SYSTEM_NAMESPACE, system_pods
from tests.e2e.conftest import Bench, Laneway
from tests.e2e.manifests import session_pod
from tests.e2e.who_holds_what import (
    CONNECTED,
    KubeletRecords,
    PodKey,
    Process,
    agent_sessions,
    published_sessions,
)
from tests.e2e.witness import Witness

OFFERED_PERCENT = 200
"""Of each GPU: see hack/demo/values.yaml."""

EQUAL_PERCENT = 8
EQUAL_A_GPU = 12
UNEQUAL_PERCENTS = (3, 4, 5, 6, 7, 8, 9, 10, 11)
UNEQUAL_A_NODE = 52
"""With the equal ones 93 percent of all that is on offer, and so that best fit cannot run out of room for the largest."""

CREATORS = 8


@pytest.fixture
def agents(laneway: Laneway) -> dict[str, str]:
    """The agents' addresses, by node."""
    pods = (
        laneway.kubectl.get("pod", name, "--namespace", SYSTEM_NAMESPACE)
        for name in system_pods(laneway.installation.target, "node")
    )
    return {pod["spec"]["nodeName"]: pod["status"]["podIP"] for pod in pods}


@pytest.fixture
def gpus(laneway: Laneway) -> dict[str, list[str]]:
    """The uuids of each node's GPUs, once the nodes have published them."""
    found: dict[str, list[str]] = {}

    def all_say() -> bool:
        for node in laneway.kubectl.get("gpunodes")["items"]:
            found[node["metadata"]["name"]] = [gpu["uuid"] for gpu in node.get("status", {}).get("gpus", ())]
        return len(found) == 2 and all(found.values())

    wait_until(all_say, "both nodes publish their GPUs", 60)
    return found


@pytest.fixture
def crowd(bench: Bench) -> Iterator[Crowd]:
    made = Crowd(bench)
    try:
        yield made
    finally:
        made.delete()


class Crowd:
    """Many plain pods, made and looked at together."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._kubectl = bench.laneway.kubectl

    def create(self, *batches: list[dict[str, Any]]) -> None:
        """Create the pods of each batch at once, and the batches one after the other."""
        with ThreadPoolExecutor(CREATORS) as pool:
            for batch in batches:
                for outcome in [pool.submit(self._create, batch[part::CREATORS]) for part in range(CREATORS)]:
                    outcome.result()

    def _create(self, items: list[dict[str, Any]]) -> None:
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        self._kubectl.run("create", "--namespace", self._bench.namespace, "-f", "-", stdin=document)

    def pods(self) -> list[dict[str, Any]]:
        return self._bench.laneway.api.items(f"/api/v1/namespaces/{self._bench.namespace}/pods")

    def wait_until_running(self, count: int, seconds: float) -> dict[str, dict[str, Any]]:
        """Wait until so many pods run, and none was refused; return them by name."""
        running: dict[str, dict[str, Any]] = {}

        def all_run() -> bool:
            nonlocal running
            pods = self.pods()
            refused = [pod["status"].get("message") for pod in pods if pod["status"]["phase"] == "Failed"]
            assert not refused, refused
            running = {pod["metadata"]["name"]: pod for pod in pods if pod["status"]["phase"] == "Running"}
            return len(running) == count

        wait_until(all_run, f"{count} pods run", seconds)
        return running

    def delete(self) -> None:
        """Delete all and wait until they are gone."""
        self._kubectl.run(
            *("delete", "pods", "--all", "--namespace", self._bench.namespace),
            *("--grace-period=1", "--timeout=180s"),
        )


def test_two_hundred_pods_created_at_once(
    bench: Bench, crowd: Crowd, agents: dict[str, str], gpus: dict[str, list[str]]
) -> None:
    chosen = {
        f"equal-{number}": (node, uuid)
        for number, (node, uuid) in enumerate(
            (node, uuid) for _ in range(EQUAL_A_GPU) for node, uuids in gpus.items() for uuid in uuids
        )
    }
    unequal = {
        f"unequal-{number}": (node, percent)
        for number, (node, percent) in enumerate(
            (node, percent) for percent in islice(cycle(UNEQUAL_PERCENTS), UNEQUAL_A_NODE) for node in gpus
        )
    }
    assert len(chosen) + len(unequal) == 200

    with Witness(bench.laneway, agents, OFFERED_PERCENT) as witness:
        crowd.create(
            [
                session_pod(name, EQUAL_PERCENT, node=node, annotations={GPUS_ANNOTATION: uuid})
                for name, (node, uuid) in chosen.items()
            ],
            [session_pod(name, percent, node=node) for name, (node, percent) in unequal.items()],
        )
        running = crowd.wait_until_running(200, 240)
        sessions = wait_until_connected(bench, agents, set(running))

    assert witness.violations == []
    assert all(count > 10 for count in witness.looks.values()), witness.looks
    assert len(witness.looks) == 3 * len(gpus), witness.looks
    assert max(witness.most_percent.values()) > OFFERED_PERCENT // 2
    held = held_ids(bench)
    published = {session["pod"]: (gpu["uuid"], session) for gpu, session in published_here(bench)}
    for name, pod in running.items():
        check_identity(pod, sessions[name], held[name], published[name])
    assert {name: sessions[name]["gpu"] for name in chosen} == {
        name: uuid for name, (_, uuid) in chosen.items()
    }
    assert {name: sessions[name]["share_percent"] for name in unequal} == {
        name: percent for name, (_, percent) in unequal.items()
    }


def wait_until_connected(
    bench: Bench, agents: Mapping[str, str], names: set[str]
) -> dict[str, dict[str, Any]]:
    """Wait until each of the pods has one session with a living process, and nobody else has; return them by pod."""
    found: list[dict[str, Any]] = []

    def all_connected() -> bool:
        found[:] = (
            session
            for address in agents.values()
            for session in agent_sessions(address)
            if session["namespace"] == bench.namespace
        )
        connected = Counter(session["pod"] for session in found if is_connected(session))
        return connected == Counter(names) == Counter(session["pod"] for session in found)

    wait_until(all_connected, f"the agents know the sessions of {len(names)} pods", 60)
    return {session["pod"]: session for session in found}


def is_connected(session: dict[str, Any]) -> bool:
    """Whether the container's one process is connected. It may still wait for a lane: the shares are overcommitted."""
    processes = session["processes"]
    return session["state"] in CONNECTED and len(processes) == 1 and processes[0]["connected"]


def held_ids(bench: Bench) -> dict[str, tuple[str, ...]]:
    """The ids of each of the test's pods, by the kubelets' records."""
    found: dict[str, tuple[str, ...]] = {}
    for node in bench.laneway.cluster.nodes:
        records = KubeletRecords(node.plan.name, node.plan.folder / "var-lib" / "kubelet")
        try:
            mine: list[tuple[PodKey, tuple[str, ...]]] = [
                (key, ids) for key, ids in records.ids() if key[0] == bench.namespace
            ]
        finally:
            records.close()
        found |= {name: ids for (_, name), ids in mine}
    return found


def published_here(bench: Bench) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for node in bench.laneway.kubectl.get("gpunodes")["items"]:
        for gpu, session in published_sessions(node):
            if session["namespace"] == bench.namespace:
                yield gpu, session


def check_identity(
    pod: dict[str, Any],
    session: dict[str, Any],
    ids: tuple[str, ...],
    published: tuple[str, dict[str, Any]],
) -> None:
    """All that have a say agree on which pod this is and which GPU it has."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    ((gpu, percent),) = shares_of(ids).items()
    limit = pod["spec"]["containers"][0]["resources"]["limits"][GPU_PERCENT]
    assert percent == int(limit), name
    assert (session["gpu"], session["share_percent"], session["key"]) == (gpu, percent, container_key(ids)), (
        name
    )
    gpu_published, status = published
    assert (gpu_published, status["podUID"], status["sharePercent"]) == (gpu, uid, percent), name
    process = Process.of(session["processes"][0]["pid"])
    assert process.pod_uids == {uid}, name
    assert process.environment["HOSTNAME"] == name
    assert process.environment["LANEWAY_GPUS"] == gpu, name
    assert process.environment["LANEWAY_SHARE_PERCENT"] == str(percent), name
    record = process.record
    assert (record["namespace"], record["pod"], record["pod_uid"]) == (
        pod["metadata"]["namespace"],
        name,
        uid,
    )
    assert (sorted(record["device_ids"]), record["shares"]) == (sorted(ids), {gpu: percent}), name
