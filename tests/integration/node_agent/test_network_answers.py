"""What the agent answers to the network, and what only to its own pod."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.node_agent.node import Node, eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace of its own needs root")

ADDRESSES = ("192.0.2.1", "[2001:db8::1]")
ADD = " && ".join(f"ip address add {each.strip('[]')} dev lo" for each in ADDRESSES)
NAMESPACE = f'ip link set lo up && {ADD} && exec "$@"'
ASK = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())"


def ask(node: Node, address: str, path: str) -> str:
    """Ask from an address of the agent's network namespace; a request to an address comes from there too."""
    enter = ["nsenter", f"--net=/proc/{node.agent_pid}/ns/net"]
    url = f"http://{address}:{node.port}{path}"
    return subprocess.run(
        [*enter, sys.executable, "-c", ASK, url], stdout=subprocess.PIPE, text=True, check=True
    ).stdout


@pytest.mark.parametrize(("loopback", "address"), [("127.0.0.1", ADDRESSES[0]), ("[::1]", ADDRESSES[1])])
def test_pids_and_messages_are_for_the_agents_own_pod_only(
    make_node: Callable[..., Node], loopback: str, address: str
) -> None:
    node = make_node()
    node.starter = ["unshare", "--net", "sh", "-ec", NAMESPACE, "sh"]
    node.start("--standalone", "--address", "")
    process = node.container("a", 50).await_socket().process()
    process.hello()
    process.turn()
    sizes = {"used_bytes": 600 << 20, "quota_bytes": 500 << 20}
    process.send("overrun", message="cannot read /secret/path", **sizes)

    def local() -> dict[str, Any]:
        (session,) = json.loads(ask(node, loopback, "/sessions"))
        return dict(session)

    eventually("its own pod is told", lambda: "/secret/path" in local()["message"])
    assert [each["pid"] for each in local()["processes"]] == [process.pid]
    shown = {path: ask(node, address, path) for path in ("/sessions", "/turns", "/metrics", "/healthz")}
    (session,) = json.loads(shown["/sessions"])
    assert (session["pod"], session["share_percent"]) == ("a", 50)
    assert session.keys() == local().keys() - {"message", "processes"}
    assert json.loads(shown["/turns"])[0]["pod"] == "a"
    assert 'laneway_turns_total{gpu_uuid="' in shown["/metrics"]
    for path, text in shown.items():
        assert "secret" not in text, path
        assert f'"pid": {process.pid}' not in text, path
