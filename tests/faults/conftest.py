"""One real API server for all cells, and the ground on which a test's cells are played."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from laneway.operator.watch.apiserver import connect

from hack.cluster.control_plane import LoopbackControlPlane
from tests.faults.cell import Grounds
from tests.support.api_faults.upstream import upstream
from tests.support.control_planes import control_plane
from tests.support.operator.fixtures import operator_kubeconfig

__all__ = ["control_plane", "operator_kubeconfig"]


@pytest.fixture
async def grounds(
    control_plane: LoopbackControlPlane, operator_kubeconfig: Path, tmp_path: Path
) -> AsyncIterator[Grounds]:
    """What the cells of one test share."""
    async with (
        await connect(control_plane.kubeconfig) as api,
        upstream(operator_kubeconfig) as as_operator,
        upstream(control_plane.kubeconfig) as as_observer,
    ):
        yield Grounds(api, as_operator, as_observer, tmp_path)
