"""The page in Chromium, before a real API server with real TrainingJobs and GPUNodes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from hack.cluster.control_plane import LoopbackControlPlane
from tests.integration.board.cluster import Cluster, Object, gpu, gpu_node, session, training_job
from tests.integration.board.conftest import laneway_board
from tests.support.browser import OpenPage, served
from tests.support.node_agent.node import Node, nodes_below

PICTURES = os.environ.get("BOARD_PICTURES")
"""A folder for the pictures of the documents; none are made without it."""

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\" onmouseover=alert(3) '\u202e{{7*7}}"
AGENT_ADDRESS, OTHER_AGENT_ADDRESS = "192.0.2.94", "192.0.2.95"
"""One for each test, as tests of one file may run side by side."""

_TRAINS_SECONDS = 3600
"""Longer than a test lasts, whose end kills what trains: turns that have ended leave the page a minute later."""

RUNNING = {"state": "Running", "workers": 1, "attempt": 1, "attemptWorkers": 1}
BUSY = {
    "reason": "GPUsBusy",
    "message": "All GPUs that it may use are taken.",
    "unblock": "It starts when team-a/large ends.",
    "position": 1,
    "since": "2026-01-31T12:00:00Z",
    "blockers": ["team-a/large"],
    "blockersElsewhere": 2,
}


def view(page: Page, name: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=2)).to_contain_text(name)


def go(page: Page, route: str) -> None:
    page.evaluate("route => { location.hash = route }", route)


@pytest.fixture
def node_name(cluster: Cluster, namespace: str) -> Iterator[str]:
    """A node with a GPU that two jobs share, a free one, and one that is not healthy."""
    name = f"node-{uuid.uuid4().hex[:8]}"
    sessions = [
        session("k1", namespace, "digits", lane=0),
        session("k2", namespace, "bert", "Waiting", lane=0, message="waits for its turn"),
        session("k3", namespace, "resnet", "Paused"),
    ]
    unhealthy = {"healthy": False, "healthReason": "XID 79: the GPU has fallen off the bus."}
    gpus = [
        gpu(f"GPU-{name}-0", 0, sessions, [["k1", "k2"]]),
        gpu(f"GPU-{name}-1", 1, [], []),
        gpu(f"GPU-{name}-2", 2, [], [], **unhealthy),
    ]
    cluster.put_nodes([gpu_node(name, gpus)])
    yield name
    cluster.delete_node(name)


@pytest.fixture
def viewer(cluster: Cluster, namespace: str) -> str:
    """A user who may view one namespace, and nothing else."""
    name = f"viewer-{namespace}"
    cluster.kubectl(
        "-n",
        namespace,
        "create",
        "role",
        "jobs",
        "--verb=get,list,watch",
        "--resource=trainingjobs.laneway.dev,events",
    )
    cluster.kubectl("-n", namespace, "create", "rolebinding", "jobs", "--role=jobs", f"--user={name}")
    cluster.kubectl("-n", namespace, "create", "serviceaccount", "viewer")
    account = f"--serviceaccount={namespace}:viewer"
    cluster.kubectl("-n", namespace, "create", "rolebinding", "account", "--role=jobs", account)
    return name


def test_nodes_show_gpus_lanes_and_who_has_the_turn(
    own_board: str, open_page: OpenPage, node_name: str
) -> None:
    page = open_page(own_board)
    node = page.get_by_role("region", name=f"Node {node_name}")
    tiles = node.locator("li.gpu")
    expect(tiles).to_have_count(3)
    expect(tiles.nth(0).locator("li.holder")).to_contain_text("digits")
    expect(tiles.nth(0).get_by_label("has the turn")).to_have_count(1)
    expect(tiles.nth(0)).to_contain_text("paused")
    expect(tiles.nth(1)).to_contain_text("free")
    expect(tiles.nth(2)).to_contain_text("XID 79")
    page.get_by_label("Filter").fill("unhealthy")
    expect(tiles).to_have_count(1)


def test_a_job_that_waits_says_why_and_a_change_comes_by_itself(
    own_board: str, open_page: OpenPage, cluster: Cluster, namespace: str
) -> None:
    page = open_page(own_board)
    view(page, "Queue")
    cluster.put_jobs([training_job(namespace, "large", state="Pending", reason="GPUsBusy", waiting=BUSY)])
    row = page.get_by_role("row").filter(has_text=f"{namespace}/large")
    expect(row).to_contain_text("All GPUs that it may use are taken. It starts when team-a/large ends.")
    expect(row).to_contain_text("Held by team-a/large and 2 jobs of other namespaces.")
    cluster.patch_job(
        namespace, "large", waiting={**BUSY, "message": "Two GPUs are free, and it needs four."}
    )
    expect(row).to_contain_text("Two GPUs are free, and it needs four.")
    cluster.patch_job(namespace, "large", **RUNNING, reason=None, waiting=None)
    expect(row).to_have_count(0)
    view(page, "Jobs")
    expect(row).to_contain_text("Running")
    cluster.delete_job(namespace, "large")
    expect(row).to_have_count(0)


def test_a_job_shows_its_attempts_preemptions_loss_and_history(
    own_board: str, open_page: OpenPage, cluster: Cluster, namespace: str
) -> None:
    put_trained_job(cluster, namespace)
    page = open_page(own_board)
    go(page, f"#/jobs/{namespace}/bert")
    expect(page.get_by_role("heading", level=2)).to_contain_text("Running")
    attempts = page.get_by_role("region", name="Attempts", exact=True)
    expect(attempts).to_contain_text("Attempt3")
    expect(attempts).to_contain_text("Preemptions2")
    ended = page.get_by_role("group", name="Ended attempts").get_by_role("row")
    expect(ended).to_have_count(3)
    expect(ended.nth(1)).to_contain_text("Failed: OOMKilled")
    expect(ended.nth(1).get_by_role("cell").nth(2)).to_have_text("1 h")
    expect(ended.nth(1).get_by_role("cell").nth(4)).to_have_text("unknown")
    expect(ended.nth(2)).to_contain_text(f"Preempted: HigherQueue Preempted by {namespace}/short.")
    expect(ended.nth(2).get_by_role("cell").nth(4)).to_have_text("5 m")
    preemptions = page.get_by_role("region", name="Preemptions", exact=True).first
    expect(preemptions).to_contain_text("evicted; it starts again from its checkpoint")
    expect(preemptions.get_by_role("link", name=f"{namespace}/short")).to_be_visible()
    unsaved = page.get_by_role("region", name="Work that an eviction would lose")
    expect(unsaved).to_contain_text("went on from a checkpoint")
    for step, loss in ((101, "0.75"), (102, "0.5"), (103, "0.25")):
        cluster.patch_job(namespace, "bert", progress={"step": step, "loss": loss})
        expect(page.get_by_role("region", name="Progress")).to_contain_text(f"Loss{loss}")
    expect(page.get_by_label("Loss since this page was opened: from 0.9 to 0.25")).to_be_visible()
    expect(page.get_by_role("region", name="History")).to_contain_text(f"Evicted for {namespace}/short.")


def put_trained_job(cluster: Cluster, namespace: str) -> None:
    """A job that was preempted twice, once by a pause, and has an event."""
    evicted = {
        "attempt": 1,
        "startedAt": "2026-01-31T12:00:00Z",
        "endedAt": "2026-01-31T12:30:00Z",
        "workers": 1,
        "nodes": ["gpu-1"],
        "outcome": "Preempted",
        "reason": "HigherQueue",
        "message": f"Preempted by {namespace}/short.",
        "attainedServiceGPUMilliseconds": 900_000,
        "lostServiceGPUMilliseconds": 300_000,
    }
    failed = {
        **evicted,
        "attempt": 2,
        "endedAt": "2026-01-31T13:00:00Z",
        "outcome": "Failed",
        "reason": "OOMKilled",
        "message": "worker 0 on gpu-1 ended with exit code 137 (OOMKilled)",
    }
    del failed["lostServiceGPUMilliseconds"]
    preemption = {
        "action": "Evict",
        "preemptor": f"{namespace}/short",
        "reason": "PreemptedByQueue",
        "message": "It came before this job (queue 0 before queue 1).",
        "costMilliseconds": 42_000,
        "since": "2026-01-31T12:30:00Z",
    }
    progress = {
        "step": 100,
        "steps": 1000,
        "percent": 10,
        "loss": "0.9",
        "remainingSeconds": 7200,
        "unsavedSince": "2026-01-31T13:00:00Z",
        "savedExecutedMilliseconds": 3_000_000,
        "lastCheckpointTime": "2026-01-31T13:00:00Z",
        "resumes": True,
    }
    status = {
        **RUNNING,
        "attempt": 3,
        "preemptions": 2,
        "restarts": 1,
        "executedMilliseconds": 3_600_000,
        "attainedServiceGPUMilliseconds": 1_800_000,
        "waitedMilliseconds": 600_000,
        "queue": 1,
        "turns": 5120,
        "progress": progress,
        "lastPreemption": preemption,
        "endedAttempts": [evicted, failed],
        "placement": [{"worker": 0, "node": "gpu-1", "gpus": ["GPU-1"], "sharePercent": 50}],
        "startTime": "2026-01-31T12:00:00Z",
    }
    cluster.put_jobs([training_job(namespace, "bert", **status)])
    uid = json.loads(cluster.kubectl("-n", namespace, "get", "trainingjob", "bert", "-o", "json"))[
        "metadata"
    ]["uid"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": namespace, "name": "bert.1"},
        "involvedObject": {
            "apiVersion": "laneway.dev/v1alpha1",
            "kind": "TrainingJob",
            "namespace": namespace,
            "name": "bert",
            "uid": uid,
        },
        "type": "Normal",
        "reason": "Preempted",
        "message": f"Evicted for {namespace}/short.",
        "lastTimestamp": "2026-01-31T12:30:00Z",
    }
    cluster.apply(event)


def test_hostile_texts_are_shown_as_texts(
    own_board: str, open_page: OpenPage, cluster: Cluster, namespace: str
) -> None:
    """Any dialog or error of the page fails the test (see `open_page`)."""
    waiting = {
        **BUSY,
        "message": HOSTILE,
        "unblock": HOSTILE,
        "blockers": [HOSTILE],
        "estimateBasis": HOSTILE,
    }
    condition = {
        "type": "Accepted",
        "status": "True",
        "reason": "Accepted",
        "message": HOSTILE,
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }
    progress = {"loss": "NaN", "warning": HOSTILE}
    ended = {
        "attempt": 1,
        "startedAt": "2026-01-31T12:00:00Z",
        "endedAt": "2026-01-31T12:00:00Z",
        "workers": 1,
        "nodes": [HOSTILE],
        "outcome": "Failed",
        "reason": HOSTILE,
        "message": HOSTILE,
    }
    cluster.put_jobs(
        [
            training_job(
                namespace,
                "mallory",
                state="Pending",
                waiting=waiting,
                conditions=[condition],
                progress=progress,
                endedAttempts=[ended],
            )
        ]
    )
    name = f"node-{namespace}"
    hostile = session("k", namespace, "mallory", message=HOSTILE)
    cluster.put_nodes([gpu_node(name, [gpu("GPU-x", 0, [hostile], [["k"]], model="<b>H100</b>")])])
    page = open_page(own_board)
    for route in ("#/nodes", f"#/nodes/{name}", "#/queue", "#/jobs", f"#/jobs/{namespace}/mallory"):
        go(page, route)
        expect(page.get_by_role("main")).to_contain_text("<b>H100</b>" if route == "#/nodes" else "mallory")
        if route not in ("#/nodes", "#/jobs"):
            expect(page.get_by_role("main")).to_contain_text(HOSTILE)
        assert page.locator("main img, main script, main b").count() == 0
    go(page, "#/jobs/%3Cimg%20src=x%20onerror=alert(4)%3E/%E0%A4%A")
    expect(page.get_by_role("heading", level=2)).to_contain_text("<img src=x onerror=alert(4)>")
    cluster.delete_node(name)


def test_who_may_see_one_namespace_is_told_what_is_missing_and_sees_the_rest(
    control_plane: LoopbackControlPlane, open_page: OpenPage, cluster: Cluster, namespace: str, viewer: str
) -> None:
    put_trained_job(cluster, namespace)
    with laneway_board(control_plane.kubeconfig_for(viewer)) as address:
        page = open_page(address)
        expect(page.get_by_role("main")).to_contain_text("You may not read GPUNodes")
        view(page, "Jobs")
        expect(page.get_by_role("main")).to_contain_text("Enter a namespace of yours above.")
        page.get_by_label("Namespace").fill(namespace)
        page.get_by_label("Namespace").press("Enter")
        expect(page.get_by_role("row").filter(has_text=f"{namespace}/bert")).to_contain_text("Running")


def test_in_the_cluster_each_viewer_signs_in_with_a_token_and_has_its_rights(
    control_plane: LoopbackControlPlane, open_page: OpenPage, cluster: Cluster, namespace: str, viewer: str
) -> None:
    assert viewer
    put_trained_job(cluster, namespace)
    token = cluster.kubectl("-n", namespace, "create", "token", "viewer").strip()
    command = [
        sys.executable,
        "-m",
        "laneway.board.main",
        "--api-server",
        control_plane.url,
        "--authority",
        str(control_plane.authority),
    ]
    command += ["--agents-namespace", "laneway-system", "--address", "127.0.0.1", "--port", "0"]
    with served(command, r"127\.0\.0\.1:\d+") as address:
        page = open_page(f"http://{address}/?namespace={namespace}#/jobs")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.get_by_label("Bearer token").fill("wrong.token.here")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("main")).to_contain_text("The cluster refuses the token")
        page.get_by_label("Bearer token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("row").filter(has_text=f"{namespace}/bert")).to_contain_text("Running")
        kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
        assert token not in kept
        page.reload()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.skipif(os.geteuid() != 0, reason="an address of the machine's own needs root")
def test_turns_are_drawn_as_a_real_agent_grants_them(
    own_board: str, open_page: OpenPage, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        agent = real_agent(stack, cluster, namespace, tmp_path, AGENT_ADDRESS, {"digits": 60, "bert": 40})
        page = open_page(own_board)
        go(page, f"#/nodes/{agent.name}")
        rows = page.locator(".timeline-row")
        expect(rows).to_have_count(2)
        for row in (rows.nth(0), rows.nth(1)):
            expect(row.locator("rect").nth(2)).to_be_attached()
        picture(page, "turns")


@pytest.mark.skipif(os.geteuid() != 0, reason="an address of the machine's own needs root")
def test_a_job_alone_in_its_lane_is_shown_to_have_the_turn(
    own_board: str, open_page: OpenPage, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """Its turn does not end, as no other job waits for one."""
    with ExitStack() as stack:
        agent = real_agent(stack, cluster, namespace, tmp_path, OTHER_AGENT_ADDRESS, {"digits": 60})
        page = open_page(own_board)
        go(page, f"#/nodes/{agent.name}")
        part = page.locator(".timeline-part")
        expect(part).to_have_count(1)
        expect(part).to_have_text(re.compile(r"^([1-9]\d|100) %$"))


def test_a_turn_that_the_agent_no_longer_lists_is_not_drawn_as_held(
    own_board: str, open_page: OpenPage, node_name: str
) -> None:
    """An agent that has started again knows nothing of the turns before, so their ends are never reported."""
    live, away = {"state": "live", "message": ""}, {"state": "unreachable", "message": "no answer"}
    long_held = {"key": f"{node_name}/0/57", "session": "k1", "start": 100.0}
    next_turn = {"key": f"{node_name}/0/1", "session": "k2", "start": 1000.0}
    running = {"gpu": f"GPU-{node_name}-0", "lane": 0, "job": "", "pod": "", "end": None, "outcome": ""}
    page = open_page(own_board)
    parts = page.locator(".timeline-part")

    events = ""

    def answer(*messages: Object) -> None:
        nonlocal events
        events = "".join(f"event: turns\ndata: {json.dumps(each)}\n\n" for each in messages)

    # One route for all answers: between two of them the page would follow the board's own stream, which does not end.
    page.route("**/api/turns?*", lambda route: route.fulfill(body=events))
    before = {"source": live, "now": 900.0, "turns": [{**running, **long_held}]}
    answer(before)
    go(page, f"#/nodes/{node_name}")
    expect(parts).to_have_text(["100 %", "0 %"])
    lost = {"source": away, "turns": []}
    answer(before, lost)
    expect(page.get_by_role("main")).to_contain_text("no answer")
    answer({"source": live, "now": 1100.0, "turns": [{**running, **next_turn}]})
    expect(parts).to_have_text(["0 %", "100 %"])


def real_agent(
    stack: ExitStack, cluster: Cluster, namespace: str, folder: Path, address: str, shares: dict[str, int]
) -> Node:
    """A node agent whose port the API server's pod proxy reaches, with a session of each job, all in one lane."""
    subprocess.run(["ip", "address", "replace", f"{address}/32", "dev", "lo"], check=True)
    stack.callback(subprocess.run, ["ip", "address", "del", f"{address}/32", "dev", "lo"], check=True)
    stack.callback(cluster.kubectl, "delete", "node,gpunode", f"n-{namespace}", "--ignore-not-found")
    make = stack.enter_context(nodes_below(folder))
    agent = make(
        name=f"n-{namespace}",
        gpus=1,
        statusIntervalSeconds=2,
        turns={"quantumMilliseconds": 200},
        lanes={"maxPerGpu": 1},
    )
    agent.environment = {"KUBECONFIG": str(cluster.plane.kubeconfig), "POD_NAMESPACE": namespace}
    agent.start("--address", address, "--port", "9464")
    for job, share in shares.items():
        process = (
            agent.container(f"{job}-0", share, namespace=namespace, job=job, rank=0).await_socket().process()
        )
        process.hello()
        process.profile(100, 300)
        process.start("train", seconds=_TRAINS_SECONDS, iteration_seconds=0.05)
    put_agent_pod(cluster, agent.name, address)
    return agent


def put_agent_pod(cluster: Cluster, node: str, address: str) -> None:
    """The pod of a node agent, as the chart and a kubelet would have it."""
    if "laneway-system" not in cluster.kubectl("get", "namespaces", "-o", "name"):
        cluster.kubectl("create", "namespace", "laneway-system")
    account = "serviceaccount/default"
    cluster.kubectl("-n", "laneway-system", "wait", "--for=create", account, "--timeout=60s")
    labels = {"app.kubernetes.io/part-of": "laneway", "app.kubernetes.io/component": "node"}
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "laneway-system", "name": f"agent-{node}", "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "agent", "image": "agent:1"}]},
    }
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}, pod)
    status = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}
    where = ["-n", "laneway-system", "pod", f"agent-{node}"]
    cluster.kubectl("patch", *where, "--subresource=status", "--type=merge", "-p", json.dumps(status))


def test_the_page_says_that_the_api_server_is_away_and_goes_on_when_it_is_back(
    own_board: str, open_page: OpenPage, cluster: Cluster, namespace: str
) -> None:
    page = open_page(own_board)
    view(page, "Jobs")
    expect(page.get_by_role("main")).not_to_contain_text("cannot read")
    cluster.plane.kill("kube-apiserver")
    try:
        expect(page.get_by_role("main")).to_contain_text("cannot read TrainingJobs")
    finally:
        cluster.plane.start("kube-apiserver")
    cluster.put_jobs([training_job(namespace, "later", **RUNNING)])
    row = page.get_by_role("row").filter(has_text=f"{namespace}/later")
    expect(row).to_contain_text("Running")


def test_the_theme_follows_the_system_until_another_is_chosen(own_board: str, open_page: OpenPage) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    seen = {}
    for scheme in ("light", "dark"):
        page = open_page(own_board, color_scheme=scheme)
        seen[scheme] = page.evaluate(background)
        page.get_by_label("Theme").select_option("light" if scheme == "dark" else "dark")
        seen[f"not {scheme}"] = page.evaluate(background)
        page.reload()
        assert page.evaluate(background) == seen[f"not {scheme}"]
    assert seen["light"] != seen["dark"]
    assert (seen["not light"], seen["not dark"]) == (seen["dark"], seen["light"])


def test_the_keyboard_reaches_all_and_changes_leave_the_focus_alone(
    own_board: str, open_page: OpenPage, cluster: Cluster, namespace: str
) -> None:
    page = open_page(own_board)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    page.get_by_role("navigation").get_by_role("link", name="Jobs").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2, name="Jobs")).to_be_focused()
    cluster.put_jobs([training_job(namespace, name, **RUNNING) for name in ("a", "b")])
    sort = page.get_by_role("button", name="Job", exact=True)
    sort.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="Job", exact=True)).to_have_attribute(
        "aria-sort", "ascending"
    )
    link = page.get_by_role("link", name=f"{namespace}/b")
    link.focus()
    cluster.put_jobs([training_job(namespace, "aa", **RUNNING)])
    expect(page.get_by_role("link", name=f"{namespace}/aa")).to_be_visible()
    expect(link).to_be_focused()
    cluster.delete_job(namespace, "a")
    expect(page.get_by_role("link", name=f"{namespace}/a", exact=True)).to_have_count(0)
    expect(link).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_an_accessibility_problem_that_axe_finds(
    own_board: str, open_page: OpenPage, cluster: Cluster, namespace: str, node_name: str, scheme: str
) -> None:
    put_trained_job(cluster, namespace)
    cluster.put_jobs([training_job(namespace, "large", state="Pending", reason="GPUsBusy", waiting=BUSY)])
    page = open_page(own_board, color_scheme=scheme)
    routes = (
        "nodes",
        f"nodes/{node_name}",
        "queue",
        "jobs",
        f"jobs/{namespace}/bert",
        f"jobs/{namespace}/large",
    )
    for route in routes:
        go(page, f"#/{route}")
        expect(page.get_by_role("main")).to_contain_text(
            node_name if route.startswith("nodes") else namespace
        )
        results = Axe().run(page)
        assert results.violations_count == 0, f"{route}: {results.generate_report()}"


@pytest.mark.parametrize("width", [360, 768])
def test_on_small_screens_the_page_never_scrolls_sideways(
    own_board: str, open_page: OpenPage, cluster: Cluster, namespace: str, node_name: str, width: int
) -> None:
    put_trained_job(cluster, namespace)
    cluster.put_jobs([training_job(namespace, "large", state="Pending", reason="GPUsBusy", waiting=BUSY)])
    page = open_page(own_board)
    page.set_viewport_size({"width": width, "height": 740})
    for route in ("nodes", f"nodes/{node_name}", "queue", "jobs", f"jobs/{namespace}/bert"):
        go(page, f"#/{route}")
        expect(page.get_by_role("main")).to_contain_text(
            node_name if route.startswith("nodes") else namespace
        )
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width, route


def test_600_jobs_and_100_gpus_are_shown_sorted_and_filtered(
    own_board: str, open_page: OpenPage, cluster: Cluster, namespace: str
) -> None:
    nodes, jobs = large_cluster(namespace)
    cluster.put_nodes(nodes)
    cluster.put_jobs(jobs)
    page = open_page(own_board)
    page.get_by_label("Filter").fill(f"{namespace}-gpu")
    expect(page.locator("li.gpu")).to_have_count(100)
    picture(page, "nodes")
    page.get_by_label("Filter").fill(namespace)
    view(page, "Jobs")
    rows = page.get_by_role("row")
    expect(page.get_by_text("The first 500 of 600 jobs.")).to_be_visible()
    expect(rows).to_have_count(501)
    page.get_by_role("button", name="Progress").click()
    page.get_by_role("button", name="Progress").click()
    expect(rows.nth(1)).to_contain_text("99 %")
    page.get_by_label("Filter").fill(f"{namespace}/job-123")
    expect(rows).to_have_count(2)
    page.get_by_label("Filter").fill(namespace)
    view(page, "Queue")
    expect(rows).to_have_count(401)
    expect(rows.nth(1)).to_contain_text("job-200")
    picture(page, "queue")
    for node in nodes:
        cluster.delete_node(node["metadata"]["name"])


def picture(page: Page, name: str) -> None:
    """Make a picture of the documents, where they are asked for."""
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / f"board-{name}.png")


def large_cluster(namespace: str) -> tuple[list[Object], list[Object]]:
    """25 nodes with 100 GPUs, on which 200 jobs run, and 400 jobs that wait."""
    nodes = []
    for number in range(25):
        gpus = []
        for index in range(4):
            first = 8 * number + 2 * index
            keys = [f"k{first}", f"k{first + 1}"]
            sessions = [
                session(key, namespace, f"job-{first + place}", "Waiting" if place else "Holding", lane=0)
                for place, key in enumerate(keys)
            ]
            gpus.append(gpu(f"GPU-{number}-{index}", index, sessions, [keys]))
        nodes.append(gpu_node(f"{namespace}-gpu-{number}", gpus))
    running = [
        training_job(
            namespace,
            f"job-{number}",
            **RUNNING,
            progress={"percent": number % 100, "loss": f"{1 / (1 + number):.4f}"},
        )
        for number in range(200)
    ]
    waiting = [
        training_job(
            namespace,
            f"job-{number}",
            state="Pending",
            reason="GPUsBusy",
            waiting={**BUSY, "position": number - 199},
        )
        for number in range(200, 600)
    ]
    return nodes, running + waiting
