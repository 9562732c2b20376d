"""What the agent reads from its Node: the container runtime, and GPUs that other device plugins offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from laneway.api.other_plugins import other_gpus


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A Node as last read."""

    runtime: str = ""
    """Container runtime and version, such as ``containerd://2.1.4``."""

    other_offers: tuple[str, ...] = ()
    """GPUs of other device plugins, as ``resource: count``."""


def node_facts(node: Mapping[str, Any]) -> NodeFacts:
    """Return the facts of a Node, as the API server writes it."""
    status = node.get("status") or {}
    offers = other_gpus(status.get("allocatable") or {})
    return NodeFacts((status.get("nodeInfo") or {}).get("containerRuntimeVersion", ""), offers)
