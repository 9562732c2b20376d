"""A real control plane for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hack.cluster.control_plane import LoopbackControlPlane
from tests.integration.planes import plane_with_crds


@pytest.fixture(scope="session")
def control_plane() -> Iterator[LoopbackControlPlane]:
    """A control plane for the whole session, one for each process of the test run: tests use namespaces of their own."""
    with plane_with_crds() as plane:
        yield plane
