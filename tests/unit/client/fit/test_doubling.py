"""How often one looks again."""

from __future__ import annotations

from laneway.client.fit.doubling import Doubling


def test_looks_become_rarer_until_something_is_found() -> None:
    looks = Doubling()
    assert [number for number in range(1, 101) if looks.is_due()] == [1, 2, 4, 8, 16, 32, 64]
    looks.begin_anew()
    assert [number for number in range(1, 10) if looks.is_due()] == [1, 2, 4, 8]
