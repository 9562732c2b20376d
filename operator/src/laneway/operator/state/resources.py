"""The kinds of objects that the operator reads and writes, and where the API server has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from laneway.api.names import GROUP, VERSION


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As objects name it: ``v1``, ``laneway.dev/v1alpha1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Return the URL path of an object, or of the collection (of all namespaces where none is given)."""
        parts = ["/apis" if self.group else "/api", self.api_version]
        if namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


TRAINING_JOBS: Final = Resource(GROUP, VERSION, "trainingjobs", "TrainingJob")
TRAINING_PROFILES: Final = Resource(GROUP, VERSION, "trainingprofiles", "TrainingProfile")
GPU_NODES: Final = Resource(GROUP, VERSION, "gpunodes", "GPUNode", namespaced=False)
PODS: Final = Resource("", "v1", "pods", "Pod")
SERVICES: Final = Resource("", "v1", "services", "Service")
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")

WATCHED: Final = (PODS, TRAINING_JOBS, TRAINING_PROFILES, GPU_NODES, NODES, PRIORITY_CLASSES)
"""The kinds in the cache, in the order in which they are listed: pods before jobs, so that a pod whose job is not in the
later list is an orphan for certain."""

STREAMED: Final = (PODS, GPU_NODES)
"""Of these, the kinds that change all the time; the others are left to kopf."""
