"""What a pod requests of its node, as kube-scheduler counts it.

Source: ``PodRequests`` in ``k8s.io/component-helpers/resource/helpers.go`` and ``NodeResourcesFit`` of kube-scheduler; the API
server's defaults are those of ``SetDefaults_Pod`` and ``SetDefaults_PodResources``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING
from typing import Any

from laneway.api import quantity
from laneway.api.names import GPU_PERCENT

PODS = "pods"
"""Each pod is one; a node has a limit."""

_CPU = "cpu"

Amounts = dict[str, int]
"""By resource: CPUs in thousandths, everything else in units; all rounded up."""


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """Return what a pod with this spec requests, without shares of GPUs, which count by GPU.

    The spec may be a template: a limit without a request is a request of the same amount.

    Raises:
        ValueError: an amount is not a quantity.
    """
    running: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("containers") or ():
        _add(running, _requests(container))
    sidecars: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _requests(container)
        if container.get("restartPolicy") == "Always":  # a sidecar: it runs beside all that follow
            _add(running, own)
            _add(sidecars, own)
            _raise_to(starting, sidecars)
        else:
            _add(own, sidecars)
            _raise_to(starting, own)
    _raise_to(running, starting)
    running.update(_of_the_pod(spec.get("resources") or {}, running))
    _add(running, amounts(spec.get("overhead") or {}))
    running[PODS] = 1
    return {name: amount for name, amount in running.items() if amount and name != GPU_PERCENT}


def amounts(quantities: Mapping[str, Any]) -> Amounts:
    """Return amounts that are given as Kubernetes quantities.

    Raises:
        ValueError: one is not a quantity.
    """
    return {name: _amount(name, text) for name, text in quantities.items()}


def quantities(of: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as Kubernetes quantities."""
    return {name: f"{amount}m" if name == _CPU else str(amount) for name, amount in sorted(of.items())}


def total(requests: Iterable[Mapping[str, int]]) -> Amounts:
    """Return the sum of the requests of some pods."""
    found: Amounts = {}
    for each in requests:
        _add(found, each)
    return found


def _amount(name: str, text: str | int) -> int:
    value = quantity.parse(text) * (1000 if name == _CPU else 1)
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def _requests(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _of_the_pod(resources: Mapping[str, Any], containers: Amounts) -> Amounts:
    """Return the requests of the pod as a whole, which count in place of its containers'."""
    limits = amounts(resources.get("limits") or {})
    defaults = {name: amount for name, amount in limits.items() if name not in containers}
    return defaults | amounts(resources.get("requests") or {})


def _add(to: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        to[name] = to.get(name, 0) + amount


def _raise_to(to: Amounts, least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        to[name] = max(to.get(name, 0), amount)
