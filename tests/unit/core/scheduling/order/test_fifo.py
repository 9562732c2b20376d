"""First in, first out."""

from __future__ import annotations

import math

from laneway.scheduling.order.fifo import Fifo

from tests.unit.core.scheduling.builders import NOW, a_job
from tests.unit.core.scheduling.order.ranking import order_by, preempts


def test_creation_alone_decides_and_nothing_changes_it() -> None:
    jobs = [a_job("a").created(2), a_job("b").created(1).served(99_999), a_job("c").created(3).runs_on("n/0")]
    assert order_by(Fifo(), *jobs) == ["b", "a", "c"]
    assert Fifo().ranks([jobs[1].made], 8, NOW)["b"].until_seconds == math.inf
    assert not preempts(Fifo(), jobs[1], jobs[2])
