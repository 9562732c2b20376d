"""Rival gangs on real kubelets: two workers with a node each, on two nodes, so that any two gangs could block
one another forever."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from laneway.api import names

from hack.cluster.probes import wait_until
from hack.cluster.progress import ClusterError
from hack.demo.api import Api
from tests.e2e.conftest import Bench
from tests.e2e.manifests import EXCLUSIVE_NODE, SMALL_IMAGE
from tests.support.operator.rival_history import History

RIVALS = 6
WORKERS = 2
_WATCH_SECONDS = 5
_SCRIPT = (Path(__file__).parent / "rival.py").read_text()


def test_rival_gangs_run_one_after_another_and_never_hold_half(bench: Bench) -> None:
    """Each worker waits for the other: a gang with only one running worker would keep its node from all
    others."""
    history = History(WORKERS)
    with _watched(bench.laneway.api, bench.namespace, history):
        bench.jobs.apply([_rival(f"rival-{at}") for at in range(RIVALS)])
        wait_until(lambda: history.all_succeeded(RIVALS), f"{RIVALS} gangs have run", 600)
    found = history.check()
    print(f"{found.moments} moments; taken back: {dict(found.partial)}")
    assert set(found.whole) == {f"rival-{at}" for at in range(RIVALS)}
    views = bench.jobs.views().values()
    assert [view.status.restarts for view in views] == [0] * RIVALS


def _rival(name: str) -> dict[str, Any]:
    container = {
        "name": "trainer",
        "image": SMALL_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", _SCRIPT],
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "workers": WORKERS,
            **EXCLUSIVE_NODE,
            "preemption": {"mode": "Never", "gracePeriodSeconds": 1},
            "template": {"spec": {"containers": [container]}},
        },
    }


@contextmanager
def _watched(api: Api, namespace: str, history: History) -> Iterator[None]:
    """While the block runs, have the history take every event of the namespace's jobs and workers."""
    over, lock, problems = threading.Event(), threading.Lock(), list[Exception]()

    def follow(path: str, kind: str, version: str) -> None:
        while not over.is_set():
            query = {"watch": "true", "timeoutSeconds": str(_WATCH_SECONDS), "resourceVersion": version}
            try:
                for line in api.lines(path, query):
                    event = json.loads(line)
                    assert event["type"] != "ERROR", event["object"]
                    version = event["object"]["metadata"]["resourceVersion"]
                    with lock:
                        history.take(event["type"], {"kind": kind, **event["object"]})
            except (ClusterError, OSError):
                continue  # the next watch continues from here

    def note_failure(work: partial[None]) -> None:
        try:
            work()
        except Exception as error:
            problems.append(error)

    threads = []
    for path, kind in (
        (f"/apis/{names.API_VERSION}/namespaces/{namespace}/trainingjobs", "TrainingJob"),
        (f"/api/v1/namespaces/{namespace}/pods", "Pod"),
    ):
        work = partial(follow, path, kind, api.get(path)["metadata"]["resourceVersion"])
        threads.append(threading.Thread(target=note_failure, args=(work,), daemon=True))
        threads[-1].start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(4 * _WATCH_SECONDS)
    assert not problems, problems
