"""The operator with the chart's rights on a real API server, and a simulated cluster for each test."""

from __future__ import annotations

from tests.support.operator.fixtures import cluster, history, operator, operator_kubeconfig

__all__ = ["cluster", "history", "operator", "operator_kubeconfig"]
