"""Containers without a share of a GPU that another device plugin may have given it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
from laneway.node_agent.enforcement.escalation import Rules, Stage
from laneway.node_agent.enforcement.process_owners import PodContainer
from laneway.node_agent.enforcement.stray_containers import StrayContainers, spared_strays_reason

CONTAINER = PodContainer("uid-a", "sidecar")


@pytest.fixture
def pid() -> Iterator[int]:
    """A process of the container."""
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    ) as process:
        yield process.pid
        process.communicate()


@pytest.mark.parametrize(
    ("other_offers", "mig", "expected"),
    [
        ((), False, ""),
        ((), True, "MIG mode is on"),
        (None, False, "it is not known yet"),
        (("nvidia.com/gpu: 2",), False, "(nvidia.com/gpu: 2)"),
    ],
)
def test_they_are_spared_where_another_plugin_may_have_given_them_the_gpu(
    other_offers: Sequence[str] | None, mig: bool, expected: str
) -> None:
    reason = spared_strays_reason(other_offers, mig=mig)
    assert expected in reason
    assert bool(reason) == bool(expected)


def test_a_spared_container_is_reported_and_stopped_once_nobody_else_offers_the_gpu(pid: int) -> None:
    strays = StrayContainers("GPU-1", Rules(grace_seconds=2.0))
    found = {CONTAINER: {pid: 1 << 30}}
    for now_seconds in range(60):
        strays.check(found, float(now_seconds), urgent=now_seconds == 50, spared="another plugin offers it")
    assert strays.groups[CONTAINER].stage is Stage.WARNED
    assert [each.message for each in strays.uses()] == [
        "container without a share of GPU-1 holds 1.0 GiB of its memory; not stopped: another plugin offers it"
    ]
    strays.check(found, 60.0, urgent=False)
    assert strays.groups[CONTAINER].stage is Stage.WARNED, "its grace begins now"
    strays.check(found, 61.0, urgent=False)
    assert strays.groups[CONTAINER].stage is Stage.ANNOUNCED
    for group in strays.groups.values():
        group.close()
