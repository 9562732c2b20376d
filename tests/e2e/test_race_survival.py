"""Parts of the node die in the middle of a race of pods: nothing is allocated twice, running pods continue,
and the state is consistent after the race. The pods are replicas, because a kubelet whose device plugin is
away refuses pods for good."""

from __future__ import annotations

from collections.abc import Callable

from hack.cluster.probes import wait_until
from tests.e2e.conftest import Laneway
from tests.e2e.crowd import Crowd
from tests.e2e.kills import all_ready, kill, restart_kubelets, wipe_sockets
from tests.e2e.manifests import session_replicas
from tests.e2e.witness import Witness

BLOWS: dict[str, Callable[[Laneway], None]] = {
    "plugins-killed": lambda laneway: kill(laneway, "device-plugin"),
    "agents-killed": lambda laneway: kill(laneway, "node-agent"),
    "kubelets-restarted": restart_kubelets,
    "both-killed": lambda laneway: kill(laneway, "device-plugin", "node-agent"),
}
PERCENTS = (3, 7, 12)
REPLICAS = 8
BEGUN = 4
"""The number of running pods at which a blow falls."""


def test_blows_in_the_middle_of_a_race(laneway: Laneway, crowd: Crowd) -> None:
    wanted: dict[str, int] = {}
    with Witness(laneway.cluster, laneway.api, crowd.agents) as witness:
        for blow, strike in BLOWS.items():
            before = begin(crowd, blow, wanted)
            strike(laneway)
            after = go_on(crowd, blow, wanted, before)
            crowd.check_identities(crowd.running())
            assert started(crowd) == after

        # A pod that starts while the folders are wiped may lose its folder and then runs without a session. The same
        # holds for a running container whose process has not connected yet.
        before = begin(crowd, "sockets-wiped", wanted)
        connected = crowd.connected()
        wipe_sockets(laneway)
        after = go_on(crowd, "sockets-wiped", wanted, before)
        hit = set(after) - connected
        assert connected, "some have to go on"
        begin(crowd, "last", wanted)
        after = go_on(crowd, "last", wanted, after)
        running = {name: pod for name, pod in crowd.running().items() if name not in hit}
        crowd.check_identities(running, without_folder=connected, ignoring=hit)
        assert started(crowd) == after

        wait_until(lambda: all_ready(laneway), "all of Laneway is ready", 150)
    print(witness.summary())
    assert witness.violations == []


def begin(crowd: Crowd, name: str, wanted: dict[str, int]) -> dict[str, str]:
    """Create further ReplicaSets, and wait until some of their pods run; return the containers that have started."""
    running = len(crowd.running())
    sets = {f"{name}-{percent}": percent for percent in PERCENTS}
    wanted |= dict.fromkeys(sets, REPLICAS)
    crowd.create([session_replicas(each, percent, REPLICAS) for each, percent in sets.items()])
    wait_until(lambda: len(crowd.running()) >= running + BEGUN, f"pods of {', '.join(sets)} run", 90)
    return started(crowd)


def go_on(crowd: Crowd, blow: str, wanted: dict[str, int], before: dict[str, str]) -> dict[str, str]:
    """Wait until each ReplicaSet has the pods that it wants, and those from before run on; return the containers."""
    path = f"/apis/apps/v1/namespaces/{crowd.namespace}/replicasets"

    def all_run() -> bool:
        sets = crowd.api.items(path)
        return wanted == {each["metadata"]["name"]: each["status"].get("readyReplicas", 0) for each in sets}

    wait_until(all_run, f"all pods run after {blow}", 240)
    now = started(crowd)
    assert {name: now.get(name) for name in before} == before, blow
    return now


def started(crowd: Crowd) -> dict[str, str]:
    """Container ids of the pods that run: another id would be another start."""
    return {
        name: pod["status"]["containerStatuses"][0]["containerID"] for name, pod in crowd.running().items()
    }
