"""A real control plane for the tests of this folder, and the order of its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.control_planes import control_plane
from tests.support.file_order import put_first

__all__ = ["control_plane"]

_LONGEST = (
    "client/test_checkpoint.py",
    "operator/test_rollback.py",
    "client/frameworks/test_libraries.py",
    "cluster/test_nodes.py",
    "gpu/test_runner.py",
    "device_plugin/test_real_kubelet.py",
    "client/test_offload.py",
    "operator/test_silent_agents.py",
    "client/test_fit.py",
    "cluster/test_teardown.py",
    "client/test_neighbours_of_client.py",
    "operator/test_templates.py",
    "client/test_boundaries.py",
    "operator/test_pausing.py",
    "client/frameworks/test_library_checkpoints.py",
)
"""Most of a minute or more each. Those that compute and those that wait take turns, so that both are under way at any time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files first."""
    put_first(items, Path(__file__).parent, _LONGEST)
