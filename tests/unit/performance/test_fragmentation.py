"""The experiment that fills a cluster, and the bound beside its figures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling import HostResources, policies
from laneway.scheduling.model.host_resources import CPU, MEMORY
from laneway.scheduling.placement.fgd import FGD
from laneway.simulator.cluster import make_nodes

from tests.performance.fragmentation import (
    Filling,
    Rule,
    Task,
    allocated,
    drawn,
    least_growth,
    roomiest,
    tightest,
    typical,
)
from tests.performance.packing_bound import most_percent
from tests.support.property_examples import examples

WHOLE, HALF, PAIR = Task(1, 100, 0, 0), Task(1, 50, 0, 0), Task(2, 100, 0, 0)


@pytest.mark.parametrize(
    ("story", "supply", "gpus", "want"),
    [
        ("nothing comes", {}, 4, 0),
        ("all that comes fits", {50: 4, 100: 1}, 4, 300),
        ("shares that complete one another", {60: 10, 40: 10}, 10, 1000),
        ("shares of which a GPU holds one", {81: 20}, 10, 810),
        ("whole ones are taken before halves that leave nothing", {100: 3, 51: 9}, 4, 351),
    ],
)
def test_the_most_that_any_packing_holds(story: str, supply: dict[int, int], gpus: int, want: float) -> None:
    assert most_percent(supply, gpus) == pytest.approx(want), story


@settings(max_examples=examples(30))
@given(st.dictionaries(st.integers(1, 100), st.integers(1, 5), max_size=4), st.integers(1, 4))
def test_no_greedy_packing_holds_more_than_the_bound(supply: dict[int, int], gpus: int) -> None:
    free = [100] * gpus
    for share in sorted((share for share, count in supply.items() for _ in range(count)), reverse=True):
        room = next((gpu for gpu in range(gpus) if free[gpu] >= share), None)
        if room is not None:
            free[room] -= share
    assert most_percent(supply, gpus) >= 100 * gpus - sum(free) - 1e-6


def test_the_same_seed_draws_the_same_tasks_and_several_gpus_ask_for_half() -> None:
    tasks = [WHOLE] * 30 + [PAIR]
    first = list(drawn("several-gpus", tasks, 2000, 1))
    assert first == list(drawn("several-gpus", tasks, 2000, 1))
    several = sum(task.percent for task in first if task.gpus > 1)
    assert several / sum(task.percent for task in first) == pytest.approx(0.5, abs=0.06)


def test_what_is_allocated_when_a_pair_comes_too_late() -> None:
    arriving = [HALF, HALF, WHOLE, WHOLE, PAIR, WHOLE, WHOLE]
    chosen = policies(order="fifo", order_options={"strict": False}, placement="best-fit")
    found = allocated(Filling(make_nodes("2x2"), chosen, counts_cpus=False), arriving, 4)
    assert found == {"90": 75.0, "100": 75.0, "130": 100.0}
    assert typical(arriving, counts_cpus=False) == {
        "task_percents": (50.0, 100.0, 200.0),
        "task_cpus": (),
        "task_popularity": (2.0, 4.0, 1.0),
    }


@pytest.mark.parametrize(
    ("story", "rule", "percent"),
    [
        ("it takes all CPUs of two GPUs", tightest, 50.0),
        ("it takes CPUs where many are left", roomiest, 100.0),
        ("no GPU becomes useless", least_growth(FGD((100.0,), (1.0,), (4.0,)).measure), 100.0),
    ],
)
def test_where_a_task_without_gpus_goes(story: str, rule: Rule, percent: float) -> None:
    nodes = [
        replace(node, host=HostResources.of({CPU: cpu_millis, MEMORY: 1}))
        for node, cpu_millis in zip(make_nodes("2x2"), (8_000, 20_000), strict=True)
    ]
    chosen = policies(order="fifo", order_options={"strict": False}, placement="best-fit")
    arriving = [Task(0, 0, 8_000, 0), *[Task(1, 100, 4_000, 0)] * 6]
    found = allocated(Filling(nodes, chosen, rule, counts_cpus=True), arriving, 4)
    assert found["130"] == percent, story
