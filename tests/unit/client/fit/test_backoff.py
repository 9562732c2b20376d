"""How often to check again."""

from __future__ import annotations

from laneway.client.fit.backoff import ExponentialBackoff


def test_checks_become_rarer_until_something_is_found() -> None:
    looks = ExponentialBackoff()
    assert [number for number in range(1, 101) if looks.is_due()] == [1, 2, 4, 8, 16, 32, 64]
    looks.reset()
    assert [number for number in range(1, 10) if looks.is_due()] == [1, 2, 4, 8]
