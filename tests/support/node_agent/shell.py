"""An operator at the node's shell."""

from __future__ import annotations

import subprocess
import sys

from tests.support.node_agent.node import Node


def shell(node: Node, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``laneway-node-agent order``, and check its output."""
    command = [
        sys.executable,
        "-m",
        "laneway.node_agent.main",
        "order",
        "--root",
        str(node.root),
        verb,
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def order(node: Node, verb: str, *arguments: str) -> str:
    """Give an order that is taken; return what the shell says."""
    done = shell(node, verb, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout
