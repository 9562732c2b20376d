"""A job that waits for data, and what its user reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.api.training_job_status import ProfileStatus
from laneway.scheduling.explain.data_wait import data_wait, suggestion


def a_profile(busy_ms: int, waits_ms: int, iterations: int = 100) -> ProfileStatus:
    return ProfileStatus(
        persistent_bytes=1,
        ephemeral_bytes=1,
        iteration_microseconds=1000 * busy_ms,
        data_microseconds=1000 * waits_ms,
        iterations=iterations,
    )


@pytest.mark.parametrize(
    ("story", "profile"),
    [
        ("it hardly waits", a_profile(200, 19)),
        ("nothing was measured", a_profile(0, 0)),
        ("only its waits were measured", a_profile(0, 300)),
        ("the first iterations say little", a_profile(200, 300, iterations=15)),
    ],
)
def test_nothing_is_suggested(story: str, profile: ProfileStatus) -> None:
    assert data_wait(profile, 4000, 1) is None, story


@pytest.mark.parametrize(
    ("story", "profile", "cpu_millis", "processes", "workers", "threads", "needed"),
    [
        ("more than half of the time", a_profile(200, 300), 4000, 1, 2, 2, 10_000),
        ("a short wait: one worker loads meanwhile", a_profile(200, 20), 4000, 1, 1, 3, 5000),
        ("eight processes share the CPUs", a_profile(100, 100), 16_000, 8, 1, 1, 32_000),
        ("fewer CPUs than workers", a_profile(100, 900), 2000, 1, 9, 1, 20_000),
        ("its CPUs are not known", a_profile(200, 300), 0, 1, 2, None, None),
    ],
)
def test_what_would_end_the_wait(
    story: str,
    profile: ProfileStatus,
    cpu_millis: int,
    processes: int,
    workers: int,
    threads: int | None,
    needed: int | None,
) -> None:
    wait = data_wait(profile, cpu_millis, processes)
    assert wait is not None, story
    assert (wait.loader_workers, wait.threads, wait.cpu_millis) == (workers, threads, needed), story


@given(st.integers(1, 10_000), st.integers(0, 100_000), st.integers(0, 64_000))
def test_what_is_suggested_suffices(busy_ms: int, waits_ms: int, cpu_millis: int) -> None:
    wait = data_wait(a_profile(busy_ms, waits_ms), cpu_millis, 1)
    if wait is None:
        assert waits_ms < 0.1 * busy_ms
        return
    assert wait.loader_workers * busy_ms >= waits_ms
    assert wait.iteration_seconds / wait.speedup == pytest.approx(busy_ms / 1000)
    if wait.cpu_millis is not None:
        assert wait.cpu_millis >= cpu_millis


def test_what_its_user_reads() -> None:
    wait = data_wait(a_profile(200, 300), 4000, 1)
    assert wait is not None
    assert suggestion(wait, 4000) == (
        "It waits for data for 60 % of each iteration (300 of 500 ms). Its GPU would be busy if data came 2.5 times as fast.",
        "Loader workers: DataLoader(num_workers=2) if it has none, else 2.5 times as many. "
        "Beside them, OMP_NUM_THREADS=2 fits the CPUs of each process.",
        "CPUs: if its 4 are busy, request 10.",
        "If the script reads its loss after step(), the wait for the GPU counts as a wait for data; "
        "read it inside `with laneway.client.iteration():`.",
    )
    unknown = data_wait(a_profile(200, 300), 0, 1)
    assert unknown is not None
    assert suggestion(unknown, 0)[2] == (
        "CPUs: its trainer requests none and has no limit; if its node's CPUs are busy, request some."
    )
