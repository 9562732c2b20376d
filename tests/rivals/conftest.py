"""The control plane, the operator's rights and the namespace of a test are those of the integration tests."""

from __future__ import annotations

from tests.integration.conftest import control_plane
from tests.integration.operator.conftest import cluster, operator_kubeconfig

__all__ = ["cluster", "control_plane", "operator_kubeconfig"]
