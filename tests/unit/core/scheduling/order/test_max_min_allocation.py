"""Max-min fair time on GPUs of several models, against a program with one row for each job."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.scheduling.order.max_min_allocation import Claimant, max_min_allocation, normalized
from scipy.optimize import linprog


def smallest(parts: Sequence[tuple[Claimant, Sequence[float]]], gpus: Sequence[float]) -> float:
    """The smallest normalized throughput, per GPU of the job."""
    return min(
        each.gpus * sum(speed * part for speed, part in zip(normalized(each, gpus), of, strict=True))
        for each, of in parts
    )


def best_smallest(claimants: Sequence[Claimant], gpus: Sequence[float]) -> float:
    """What no division of the time exceeds: a variable for each job and model, as in the paper."""
    jobs, models = len(claimants), len(gpus)
    rows, limits = [], []
    for job, each in enumerate(claimants):
        whole, gain = np.zeros((jobs, models)), np.zeros((jobs, models))
        whole[job] = 1
        gain[job] = [-each.gpus * speed for speed in normalized(each, gpus)]
        rows += [[*whole.ravel(), 0], [*gain.ravel(), 1]]
        limits += [1, 0]
    for model, number in enumerate(gpus):
        used = np.zeros((jobs, models))
        used[:, model] = [each.gpus for each in claimants]
        rows.append([*used.ravel(), 0])
        limits.append(number)
    cost = np.zeros(jobs * models + 1)
    cost[-1] = -1
    return -float(linprog(cost, A_ub=np.array(rows), b_ub=np.array(limits)).fun)


speeds = st.sampled_from([0.0, 0.3, 1.0, 1.7, 4.0])
claimants = st.builds(
    Claimant,
    st.sampled_from([0.5, 1.0, 2.0, 4.0]),
    st.tuples(speeds, speeds, speeds).filter(any),
    st.sampled_from([1.0, 1.0, 2.0]),
)
clusters = st.tuples(*[st.sampled_from([1.0, 2.0, 5.0])] * 3)


@given(st.lists(claimants, min_size=1, max_size=7), clusters)
def test_the_smallest_throughput_is_as_large_as_can_be(jobs: list[Claimant], gpus: tuple[float, ...]) -> None:
    parts = max_min_allocation(jobs, gpus)
    assert smallest([(job, parts[job]) for job in jobs], gpus) == pytest.approx(
        best_smallest(jobs, gpus), rel=1e-6
    )


@given(st.lists(claimants, min_size=1, max_size=12), clusters)
def test_nothing_is_given_twice(jobs: list[Claimant], gpus: tuple[float, ...]) -> None:
    parts = max_min_allocation(jobs, gpus)
    for job in jobs:
        assert sum(parts[job]) <= 1 + 1e-6
        assert all(part >= 0 for part in parts[job])
        assert all(speed or not part for speed, part in zip(job.per_second, parts[job], strict=True))
    for model, number in enumerate(gpus):
        assert sum(parts[job][model] * job.gpus for job in jobs) <= number + 1e-6


@given(st.lists(claimants, min_size=1, max_size=6), clusters)
def test_the_order_and_the_units_do_not_matter(jobs: list[Claimant], gpus: tuple[float, ...]) -> None:
    once = smallest([(job, max_min_allocation(jobs, gpus)[job]) for job in jobs], gpus)
    scaled = [
        Claimant(job.gpus, tuple(7 * speed for speed in job.per_second), job.weight) for job in jobs[::-1]
    ]
    again = smallest([(job, max_min_allocation(scaled, gpus)[job]) for job in scaled], gpus)
    assert again == pytest.approx(once, rel=1e-6)


FAST_ON_FIRST = Claimant(1.0, (4.0, 1.0))
INDIFFERENT = Claimant(1.0, (1.0, 1.0))


@pytest.mark.parametrize(
    ("story", "jobs", "gpus", "want"),
    [
        ("one job has the fastest GPU", [FAST_ON_FIRST], (1.0, 1.0), [(1.0, 0.0)]),
        ("equal jobs share alike", [INDIFFERENT] * 4, (1.0, 1.0), [(0.25, 0.25)] * 4),
        ("who gains by a model gets it", [FAST_ON_FIRST, INDIFFERENT], (1.0, 1.0), [(1.0, 0.0), (0.0, 1.0)]),
        ("a model that is gone", [Claimant(1.0, (1.0, 0.0))], (0.0, 1.0), [(0.0, 0.0)]),
    ],
)
def test_examples(story: str, jobs: list[Claimant], gpus: tuple[float, ...], want: list[object]) -> None:
    parts = max_min_allocation(jobs, gpus)
    found = [parts[job] for job in jobs]
    assert [sum(each) for each in found] == pytest.approx([sum(each) for each in want]), story  # type: ignore[call-overload]
    if len(set(jobs)) == len(jobs):
        assert found == [pytest.approx(each) for each in want], story


def test_a_weight_of_two_counts_twice() -> None:
    heavy, light = Claimant(1.0, (1.0,), 2.0), Claimant(1.0, (1.0,))
    parts = max_min_allocation([heavy, light], [1.0])
    assert parts[heavy] == pytest.approx((2 / 3,))
    assert parts[light] == pytest.approx((1 / 3,))


def test_nobody_claims_anything() -> None:
    assert max_min_allocation([], [1.0]) == {}
