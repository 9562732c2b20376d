"""Waits for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.unit.client.fake_agent import TIMEOUT_SECONDS


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Polls until the condition holds.

    Raises:
        AssertionError: it did not hold in time.
    """
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"timed out waiting for: {what}"
        time.sleep(0.001)
