"""Thirty-six pods at once on two real nodes, and in `make test-long` 72 and 200: every session names its own pod and a GPU that the pod holds,
and no GPU is ever promised twice. All records are compared throughout; see `witness`.

Then parts of the node die in the middle of a race of pods: nothing is allocated twice, running pods continue, and the state is
consistent after the race. These pods are replicas, because a kubelet whose device plugin is away refuses pods for good.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import pytest

from hack.cluster.probes import wait_until
from tests.e2e.conftest import Laneway
from tests.e2e.crowd import Crowd
from tests.e2e.kills import all_ready, kill, restart_kubelets, wipe_sockets
from tests.e2e.manifests import (
    OFFERED_PERCENT,
    OPERATOR_USER,
    session_pod,
    session_replicas,
    worker_metadata,
)
from tests.e2e.witness import Witness


@dataclass(frozen=True)
class Load:
    """Pods that take most of two nodes; best fit always has room left for the largest."""

    equal_percent: int
    equal_a_gpu: int
    unequal_percents: tuple[int, ...]
    unequal_a_node: int
    replaced: int
    """Of the equal pods."""


THIRTY_SIX = Load(24, 2, (4, 8, 12, 16, 20, 24), 10, 6)
"""79 percent of all shares."""

SEVENTY_TWO = Load(12, 4, (2, 4, 6, 8, 10, 12), 20, 12)
"""81 percent of all shares."""

TWO_HUNDRED = Load(4, 12, (1, 2, 3, 4, 5, 6), 52, 24)
"""93 percent of all shares."""

BLOWS: dict[str, Callable[[Laneway], None]] = {
    "plugins-killed": lambda laneway: kill(laneway, "device-plugin"),
    "agents-killed": lambda laneway: kill(laneway, "node-agent"),
    "kubelets-restarted": restart_kubelets,
    "both-killed": lambda laneway: kill(laneway, "device-plugin", "node-agent"),
}
PERCENTS = (2, 3, 6)
BEGUN = 4
"""The number of running pods at which a blow falls."""


@pytest.mark.parametrize(
    ("number", "load"),
    [
        (36, THIRTY_SIX),
        pytest.param(72, SEVENTY_TWO, marks=pytest.mark.long),
        pytest.param(200, TWO_HUNDRED, marks=pytest.mark.long),
    ],
)
def test_many_pods_created_at_once(
    laneway: Laneway, crowd: Crowd, gpus: dict[str, list[str]], number: int, load: Load
) -> None:
    """Each equal pod names its GPU, as the operator's workers do; the others are placed by best fit."""
    places = [(node, uuid) for _ in range(load.equal_a_gpu) for node, uuids in gpus.items() for uuid in uuids]
    sizes = [
        (node, size) for size in islice(cycle(load.unequal_percents), load.unequal_a_node) for node in gpus
    ]
    chosen = {f"equal-{index}": place for index, place in enumerate(places)}
    unequal = {f"unequal-{index}": size for index, size in enumerate(sizes)}
    assert len(chosen) + len(unequal) == number

    owner = crowd.own_job("equal")
    equal_pods = [
        session_pod(name, load.equal_percent, node=node, metadata=worker_metadata(name, owner, uuid))
        for name, (node, uuid) in chosen.items()
    ]
    unequal_pods = [session_pod(name, percent, node=node) for name, (node, percent) in unequal.items()]

    with Witness(laneway.cluster, laneway.api, crowd.agents) as witness:
        crowd.create(equal_pods, user=OPERATOR_USER)
        crowd.create(unequal_pods)
        first = wait_until_all_run(crowd, number)
        sessions = crowd.check_identities(first)

        # Their ids go to other pods of their names at once, while the nodes are full.
        crowd.replace(equal_pods[: load.replaced], OPERATOR_USER)
        second = wait_until_all_run(crowd, number)
        sessions_then = crowd.check_identities(second)

    print(witness.summary())
    assert witness.violations == []
    assert len(witness.looks) == 3 * len(gpus)
    assert all(count > 10 for count in witness.looks.values()), witness.looks
    assert all(percent > OFFERED_PERCENT // 2 for percent in witness.most_percent.values())
    others = [name for name in first if uid(first[name]) != uid(second[name])]
    assert sorted(others) == sorted(pod["metadata"]["name"] for pod in equal_pods[: load.replaced])
    for found in (sessions, sessions_then):
        assert {name: found[name]["gpu"] for name in chosen} == {
            name: uuid for name, (_, uuid) in chosen.items()
        }
        assert {name: found[name]["share_percent"] for name in unequal} == {
            name: percent for name, (_, percent) in unequal.items()
        }


def wait_until_all_run(crowd: Crowd, number: int) -> dict[str, dict[str, Any]]:
    """Wait until all pods run, none refused; return them by name."""

    def all_run() -> bool:
        assert not crowd.refused()
        return len(crowd.running()) == number

    wait_until(all_run, f"{number} pods run", 360)
    return crowd.running()


def uid(pod: dict[str, Any]) -> str:
    found: str = pod["metadata"]["uid"]
    return found


@pytest.mark.parametrize("replicas", [4, pytest.param(8, marks=pytest.mark.long)])
def test_blows_in_the_middle_of_a_race(laneway: Laneway, crowd: Crowd, replicas: int) -> None:
    wanted: dict[str, int] = {}
    with Witness(laneway.cluster, laneway.api, crowd.agents) as witness:
        for blow, strike in BLOWS.items():
            before = begin(crowd, blow, wanted, replicas)
            strike(laneway)
            after = go_on(crowd, blow, wanted, before)
            crowd.check_identities(crowd.running())
            assert started(crowd) == after

        # A pod that starts while the folders are wiped may lose its folder and then runs without a session. The same
        # holds for a running container whose process has not connected yet.
        before = begin(crowd, "sockets-wiped", wanted, replicas)
        connected = crowd.connected()
        wipe_sockets(laneway)
        after = go_on(crowd, "sockets-wiped", wanted, before)
        hit = set(after) - connected
        assert connected, "some have to go on"
        begin(crowd, "last", wanted, replicas)
        after = go_on(crowd, "last", wanted, after)
        running = {name: pod for name, pod in crowd.running().items() if name not in hit}
        crowd.check_identities(running, without_folder=connected, ignoring=hit)
        assert started(crowd) == after

        wait_until(lambda: all_ready(laneway), "all of Laneway is ready", 360)
    print(witness.summary())
    assert witness.violations == []


def begin(crowd: Crowd, name: str, wanted: dict[str, int], replicas: int) -> dict[str, str]:
    """Create further ReplicaSets, and wait until some of their pods run; return the containers that have started."""
    running = len(crowd.running())
    sets = {f"{name}-{percent}": percent for percent in PERCENTS}
    wanted |= dict.fromkeys(sets, replicas)
    crowd.create([session_replicas(each, percent, replicas) for each, percent in sets.items()])
    wait_until(lambda: len(crowd.running()) >= running + BEGUN, f"pods of {', '.join(sets)} run", 240)
    return started(crowd)


def go_on(crowd: Crowd, blow: str, wanted: dict[str, int], before: dict[str, str]) -> dict[str, str]:
    """Wait until each ReplicaSet has the pods that it wants, and those from before run on; return the containers."""
    path = f"/apis/apps/v1/namespaces/{crowd.namespace}/replicasets"

    def all_run() -> bool:
        sets = crowd.api.items(path)
        return wanted == {each["metadata"]["name"]: each["status"].get("readyReplicas", 0) for each in sets}

    wait_until(all_run, f"all pods run after {blow}", 360)
    now = started(crowd)
    assert {name: now.get(name) for name in before} == before, blow
    return now


def started(crowd: Crowd) -> dict[str, str]:
    """Container ids of the pods that run: another id would be another start."""
    return {
        name: pod["status"]["containerStatuses"][0]["containerID"] for name, pod in crowd.running().items()
    }
