"""The pods of Laneway on a cluster, without those that another one replaces."""

from __future__ import annotations

from typing import Any

from hack.demo.install import RELEASE, SYSTEM_NAMESPACE
from hack.demo.target import Target


def laneway_pods(target: Target, component: str) -> list[dict[str, Any]]:
    """Returns the pods of a component (operator, node) that nobody has deleted.

    One list, because a pod that ends may be gone before it is read by its name.
    """
    selector = f"app.kubernetes.io/component={component},app.kubernetes.io/instance={RELEASE}"
    place = ("--namespace", SYSTEM_NAMESPACE, "--selector", selector)
    pods: list[dict[str, Any]] = target.kubectl.get("pods", *place)["items"]
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
