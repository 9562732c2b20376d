"""Observes a scenario: at every look and in every record, no device id has two containers and no GPU exceeds its capacity."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self

import grpc
from laneway.api import names

from hack.cluster.embedded import RunningCluster
from hack.cluster.progress import ClusterError
from hack.demo.api import Api
from tests.e2e.holders import KubeletRecords, agent_sessions, given_twice, percents, published_sessions
from tests.e2e.manifests import OFFERED_PERCENT

_PAUSE_SECONDS = 0.2
_WATCH_SECONDS = 5


class Witness:
    """A context manager; `violations` are sentences, and `looks` says how often each source answered."""

    def __init__(self, cluster: RunningCluster, api: Api, agents: Mapping[str, str]) -> None:
        """``agents`` are the agents' addresses, by node."""
        self.violations: list[str] = []
        self.looks: Counter[str] = Counter()
        self.most_percent: defaultdict[str, int] = defaultdict(int)
        self._over = threading.Event()
        self._api = api
        self._agents = agents
        self._kubelets = [
            KubeletRecords(node.plan.name, node.plan.folder / "var-lib" / "kubelet") for node in cluster.nodes
        ]
        looks: list[Callable[[], None]] = [
            *(partial(self._look_at_kubelet, kubelet) for kubelet in self._kubelets),
            *(partial(self._look_at_agent, node) for node in agents),
            self._watch_gpu_nodes,
        ]
        self._threads = [threading.Thread(target=self._repeat, args=(look,), daemon=True) for look in looks]

    def summary(self) -> str:
        """How often everybody was asked, and the most that a GPU was seen at."""
        return "; ".join(
            f"{source}: {count} looks, at most {self.most_percent[source]} of {OFFERED_PERCENT} percent"
            for source, count in sorted(self.looks.items())
        )

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(4 * _WATCH_SECONDS)
        for kubelet in self._kubelets:
            kubelet.close()

    def _repeat(self, look: Callable[[], None]) -> None:
        while not self._over.wait(_PAUSE_SECONDS):
            try:
                look()
            except (grpc.RpcError, OSError, ClusterError):
                # A killed process does not answer; the test asserts enough answers, and no wrong one.
                continue
            except Exception as error:
                self.violations.append(f"the witness itself failed: {error!r}")
                raise

    def _look_at_kubelet(self, kubelet: KubeletRecords) -> None:
        held = kubelet.ids()
        doubled = given_twice(held)
        if doubled:
            holders = sorted(f"{key[0]}/{key[1]}" for key, ids in held if doubled[0] in ids)
            self._violated(
                f"{kubelet.node}: {len(doubled)} ids are given twice: {doubled[0]} to {', '.join(holders)}"
            )
        self._compare(f"kubelet of {kubelet.node}", percents(held))

    def _look_at_agent(self, node: str) -> None:
        shares: Counter[str] = Counter()
        for session in agent_sessions(self._agents[node]):
            shares[session["gpu"]] += session["share_percent"]
        self._compare(f"agent of {node}", shares)

    def _watch_gpu_nodes(self) -> None:
        query = {"watch": "true", "timeoutSeconds": str(_WATCH_SECONDS)}
        for line in self._api.lines(f"/apis/{names.API_VERSION}/gpunodes", query):
            event = json.loads(line)
            if event["type"] == "ERROR":
                return  # the API server ends a watch that it cannot serve; the next one starts over
            self._look_at_gpu_node(event["object"])

    def _look_at_gpu_node(self, gpu_node: dict[str, Any]) -> None:
        shares: Counter[str] = Counter()
        persistent: Counter[str] = Counter()
        for gpu, session in published_sessions(gpu_node):
            shares[gpu["uuid"]] += session["sharePercent"]
            persistent[gpu["uuid"]] += session.get("persistentBytes", 0)
        for gpu in gpu_node.get("status", {}).get("gpus", ()):
            used = persistent[gpu["uuid"]] + sum(lane["ephemeralBytes"] for lane in gpu.get("lanes", ()))
            if used > gpu["allocatableBytes"]:
                self._violated(f"{gpu['uuid']}: {used} bytes are promised of {gpu['allocatableBytes']}")
        self._compare(f"GPUNode {gpu_node['metadata']['name']}", shares)

    def _compare(self, source: str, shares: Mapping[str, int]) -> None:
        self.looks[source] += 1
        for gpu, percent in shares.items():
            self.most_percent[source] = max(self.most_percent[source], percent)
            if percent > OFFERED_PERCENT:
                self._violated(f"{source}: {gpu} is at {percent} of {OFFERED_PERCENT} percent")

    def _violated(self, sentence: str) -> None:
        self.violations.append(sentence)
