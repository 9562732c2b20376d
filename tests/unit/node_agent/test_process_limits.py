"""How many processes of a container may be connected: the agent's descriptors are shared out evenly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.node_agent.sessions.limits import (
    DESCRIPTORS_PER_ACCOUNT,
    DESCRIPTORS_PER_SESSION,
    RESERVED_DESCRIPTORS,
    Limits,
    ProcessLimits,
    process_limits,
)


@pytest.mark.parametrize(
    ("containers", "descriptors", "want"),
    [
        (1, 1_048_576, ProcessLimits(64, 256)),
        (100, 1_048_576, ProcessLimits(64, 256)),
        (10, 4608, ProcessLimits(64, 108)),
        (100, 4608, ProcessLimits(8, 8)),
        (1000, 1024, ProcessLimits(1, 1)),
    ],
    ids=["plenty", "many containers", "fewer accounts", "as many accounts as sessions", "one at least"],
)
def test_limits(containers: int, descriptors: int, want: ProcessLimits) -> None:
    assert process_limits(Limits(), containers, descriptors) == want


@given(containers=st.integers(1, 5000), descriptors=st.integers(1024, 1 << 20))
def test_all_containers_together_leave_the_agent_its_own_descriptors(
    containers: int, descriptors: int
) -> None:
    limits = process_limits(Limits(), containers, descriptors)
    assert 1 <= limits.sessions <= Limits().processes
    assert limits.sessions <= limits.accounts <= Limits().account_processes, (
        "each process with a session may have an account"
    )
    used = limits.sessions * DESCRIPTORS_PER_SESSION + limits.accounts * DESCRIPTORS_PER_ACCOUNT
    assert limits.sessions == 1 or containers * used <= descriptors - RESERVED_DESCRIPTORS
