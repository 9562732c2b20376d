"""The control plane, the operator's rights and the namespace of a test are those of the integration tests."""

from __future__ import annotations

from tests.support.control_planes import control_plane
from tests.support.operator.fixtures import cluster, operator_kubeconfig

__all__ = ["cluster", "control_plane", "operator_kubeconfig"]
