"""The API server as seen from one cell: an operator that asks for all namespaces gets one, so that many play on one server.

Nothing is filtered here. A request for all namespaces is turned into the same request for one, and one for objects without a
namespace gets the cell's label; the real API server answers both. So each operator has a cluster of its own, with real
lists, watches and resource versions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from laneway.operator.state.resources import (
    GPU_NODES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
    TRAINING_JOBS,
    TRAINING_PROFILES,
)

from tests.support.operator.played_cluster import PLAYED_IN_LABEL

_KINDS = (PODS, SERVICES, TRAINING_JOBS, TRAINING_PROFILES)
_NAMESPACED = re.compile("|".join(f"(?:{resource.path()})" for resource in _KINDS))
_CLUSTER_WIDE = {resource.path() for resource in (NODES, GPU_NODES, PRIORITY_CLASSES)}


class NamespaceView:
    """Narrows requests to what belongs to one namespace."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def narrow(self, path: str, query: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Return the path and query to ask the API server with."""
        narrowed = dict(query)
        if _NAMESPACED.fullmatch(path):
            collection = path.rsplit("/", 1)
            return f"{collection[0]}/namespaces/{self._namespace}/{collection[1]}", narrowed
        if path in _CLUSTER_WIDE:
            own = f"{PLAYED_IN_LABEL}={self._namespace}"
            narrowed["labelSelector"] = ",".join(filter(None, [query.get("labelSelector"), own]))
        return path, narrowed
