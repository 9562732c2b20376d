"""``pod-requests.json``: what a node's pods request that are no worker of a job, from the device plugin (who watches the node's pods)
to the agent."""

from __future__ import annotations

from typing import Literal

from laneway.api.records import Record


class OtherPods(Record):
    """The sum over these pods."""

    version: Literal[1] = 1
    requests: dict[str, str]
    """By resource, as Kubernetes quantities; ``pods`` is their number."""
