"""Two hundred pods at once on two real nodes: every session names its own pod and a GPU that the pod holds,
and no GPU is ever promised twice. All records are compared throughout; see `witness`."""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any

from laneway.api.names import GPUS_ANNOTATION

from hack.cluster.probes import wait_until
from tests.e2e.conftest import Laneway
from tests.e2e.crowd import Crowd
from tests.e2e.manifests import OFFERED_PERCENT, session_pod
from tests.e2e.witness import Witness

PODS = 200
EQUAL_PERCENT = 8
EQUAL_A_GPU = 12
UNEQUAL_PERCENTS = (3, 4, 5, 6, 7, 8, 9, 10, 11)
UNEQUAL_A_NODE = 52
"""Together with the equal pods they take 93 percent of all shares, and best fit always has room left for the largest pod."""

REPLACED = 24


def test_two_hundred_pods_created_at_once(laneway: Laneway, crowd: Crowd, gpus: dict[str, list[str]]) -> None:
    """Each equal pod names its GPU, as the operator's pods do; the others are placed by best fit."""
    places = [(node, uuid) for _ in range(EQUAL_A_GPU) for node, uuids in gpus.items() for uuid in uuids]
    sizes = [(node, size) for size in islice(cycle(UNEQUAL_PERCENTS), UNEQUAL_A_NODE) for node in gpus]
    chosen = {f"equal-{number}": place for number, place in enumerate(places)}
    unequal = {f"unequal-{number}": size for number, size in enumerate(sizes)}
    assert len(chosen) + len(unequal) == PODS

    equal_pods = [
        session_pod(name, EQUAL_PERCENT, node=node, annotations={GPUS_ANNOTATION: uuid})
        for name, (node, uuid) in chosen.items()
    ]
    unequal_pods = [session_pod(name, percent, node=node) for name, (node, percent) in unequal.items()]

    with Witness(laneway.cluster, laneway.api, crowd.agents) as witness:
        crowd.create(equal_pods, unequal_pods)
        first = wait_until_all_run(crowd)
        sessions = crowd.check_identities(first)

        # Their ids go to other pods of their names at once, while the nodes are full.
        crowd.replace(equal_pods[:REPLACED])
        second = wait_until_all_run(crowd)
        sessions_then = crowd.check_identities(second)

    print(witness.summary())
    assert witness.violations == []
    assert len(witness.looks) == 3 * len(gpus)
    assert all(count > 10 for count in witness.looks.values()), witness.looks
    assert all(percent > OFFERED_PERCENT // 2 for percent in witness.most_percent.values())
    others = [name for name in first if uid(first[name]) != uid(second[name])]
    assert sorted(others) == sorted(pod["metadata"]["name"] for pod in equal_pods[:REPLACED])
    for found in (sessions, sessions_then):
        assert {name: found[name]["gpu"] for name in chosen} == {
            name: uuid for name, (_, uuid) in chosen.items()
        }
        assert {name: found[name]["share_percent"] for name in unequal} == {
            name: percent for name, (_, percent) in unequal.items()
        }


def wait_until_all_run(crowd: Crowd) -> dict[str, dict[str, Any]]:
    """Wait until all pods run, none refused; return them by name."""

    def all_run() -> bool:
        assert not crowd.refused()
        return len(crowd.running()) == PODS

    wait_until(all_run, f"{PODS} pods run", 240)
    return crowd.running()


def uid(pod: dict[str, Any]) -> str:
    found: str = pod["metadata"]["uid"]
    return found
