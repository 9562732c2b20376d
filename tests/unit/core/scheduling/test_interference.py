"""How fast jobs get on that share a GPU."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling import Profile
from laneway.scheduling.model.interference import Interference, Load, _approximate, _exact, _visits, load_of
from laneway.scheduling.model.snapshot import StageSeconds

from tests.support.property_examples import examples

quick = settings(max_examples=examples(80))

FREE = Interference(parallel_penalty_ratio=0, switch_seconds=0)
READS = Load(StageSeconds(0.8, 0, 0.2, 0), 1.0)
COMPUTES = Load(StageSeconds(0, 0, 1.0, 0), 1.0)

parts = st.sampled_from([0.0, 0.0, 0.1, 0.5, 0.9, 1.0])


@st.composite
def loads(draw: st.DrawFn) -> Load:
    iteration = draw(st.sampled_from([0.1, 1.0, 7.0]))
    stages = StageSeconds(*(draw(parts) * iteration for _ in range(4)))
    return Load(stages, iteration, draw(st.sampled_from([None, None, 0, 1])))


crowds = st.lists(loads(), min_size=1, max_size=8)
costs = st.builds(Interference, st.sampled_from([0.0, 0.13, 1.0]), st.sampled_from([0.0, 0.0003, 0.5]))


@pytest.mark.parametrize(
    ("story", "sharers", "want"),
    [
        ("two that compute all the time have half each", [COMPUTES, COMPUTES], [1 / 2, 1 / 2]),
        ("four a quarter", [COMPUTES] * 4, [1 / 4] * 4),
        # The reader finds the GPU busy whenever it comes, the other finds the reader there a fifth of the time.
        ("one that reads beside one that computes", [READS, COMPUTES], [1 / 1.2, 1 / 1.2]),
        ("two that read, mostly in each other's way", [READS, READS], [1 / 1.68, 1 / 1.68]),
        (
            "who never meet take nothing from each other",
            [Load(StageSeconds(1, 0, 0, 0), 1.0), COMPUTES],
            [1, 1],
        ),
        (
            "a job that waits for nothing else",
            [Load(StageSeconds(0, 0, 0.5, 0), 1.0), COMPUTES],
            [1 / 1.5, 1 / 1.5],
        ),
    ],
)
def test_where_jobs_meet_they_queue(story: str, sharers: list[Load], want: list[float]) -> None:
    assert FREE.speed_ratios(sharers) == pytest.approx(want)


def test_a_resource_that_overlapping_stages_would_overload_is_divided() -> None:
    """Each keeps disk and GPU busy for all of its iteration, one half at a time as it were: two of them can't."""
    overlapping = Load(StageSeconds(1.0, 0, 1.0, 0), 1.0)
    assert FREE.speed_ratios([overlapping]) == (1.0,)
    assert FREE.speed_ratios([overlapping, overlapping]) == pytest.approx([0.5, 0.5])


def test_each_other_lane_costs_and_lane_mates_pay_for_switching_instead() -> None:
    small = Load(StageSeconds(0, 0, 0, 0.0), 1.0)
    interference = Interference(parallel_penalty_ratio=0.1, switch_seconds=0.25)
    assert interference.speed_ratios([small, small, small]) == pytest.approx([1 / 1.2] * 3)
    mates = [small._replace(lane=4), small._replace(lane=4), small]
    assert interference.speed_ratios(mates) == pytest.approx([1 / 1.35, 1 / 1.35, 1 / 1.1])


def test_a_stage_longer_than_the_iteration_counts_as_all_of_it() -> None:
    """Two measurements need not agree; a job is on no resource for more than all of its time."""
    longer = Load(StageSeconds(0.5, 0, 2.0, 0), 1.0)
    whole = longer._replace(stages=StageSeconds(0.5, 0, 1.0, 0))
    assert FREE.speed_ratios([longer, READS]) == FREE.speed_ratios([whole, READS])


def test_a_hand_off_costs_a_short_iteration_more_than_a_long_one() -> None:
    interference = Interference(parallel_penalty_ratio=0, switch_seconds=0.25)
    short, long = (Load(StageSeconds(0, 0, 0, 0), seconds, lane=4) for seconds in (0.5, 2.0))
    assert interference.speed_ratios([short, long]) == pytest.approx([1 / 1.5, 1 / 1.125])


def test_a_job_alone_in_its_lane_pays_for_no_hand_off() -> None:
    small = Load(StageSeconds(0, 0, 0, 0), 1.0)
    interference = Interference(parallel_penalty_ratio=0.1, switch_seconds=0.25)
    assert interference.speed_ratios([small._replace(lane=4), small]) == pytest.approx([1 / 1.1] * 2)


def test_a_job_whose_stages_nobody_knows_counts_as_computing_all_the_time() -> None:
    unknown = load_of(None)
    assert (
        unknown
        == load_of(Profile(1, 1, iteration_seconds=3.0))
        == load_of(Profile(1, 1, stages=READS.stages))
    )
    assert FREE.speed_ratios([unknown, COMPUTES]) == pytest.approx([0.5, 0.5])


@quick
@given(crowds, costs)
def test_no_resource_is_busy_for_longer_than_there_is_time(
    crowd: list[Load], interference: Interference
) -> None:
    ratios = interference.speed_ratios(crowd)
    for resource in range(4):
        busy = (
            ratio * min(load.stages[resource], load.iteration_seconds) / load.iteration_seconds
            for ratio, load in zip(ratios, crowd, strict=True)
        )
        assert math.fsum(busy) <= 1 + 1e-9


@quick
@given(crowds, costs, st.randoms(use_true_random=False))
def test_the_order_changes_nothing_and_nobody_is_faster_than_alone(
    crowd: list[Load], interference: Interference, shuffled: random.Random
) -> None:
    ratios = dict(zip(range(len(crowd)), interference.speed_ratios(crowd), strict=True))
    assert all(0 < ratio <= 1 for ratio in ratios.values())
    mixed = shuffled.sample(range(len(crowd)), len(crowd))
    again = interference.speed_ratios([crowd[at] for at in mixed])
    assert dict(zip(mixed, again, strict=True)) == pytest.approx(ratios, rel=1e-12)


@quick
@given(loads(), costs)
def test_one_job_alone_has_its_own_speed(load: Load, interference: Interference) -> None:
    assert interference.speed_ratios([load]) == (1.0,)


@quick
@given(loads(), loads(), st.integers(0, 3), costs)
def test_a_partner_that_asks_for_more_leaves_no_more(
    load: Load, partner: Load, resource: int, interference: Interference
) -> None:
    """Of two; with more, one that is held up where it is in nobody's way may leave a third more room."""
    before, _ = interference.speed_ratios([load, partner])
    stages = list(partner.stages)
    rest = partner.iteration_seconds - math.fsum(stages)
    stages[resource] += max(0.0, rest)
    after, _ = interference.speed_ratios([load, partner._replace(stages=StageSeconds(*stages))])
    assert after <= before + 1e-9


@quick
@given(st.lists(loads(), min_size=1, max_size=6))
def test_what_is_approximate_for_many_is_no_faster_than_what_is_exact_for_few_and_not_much_slower(
    crowd: list[Load],
) -> None:
    visits = [_visits(load) for load in crowd]
    for exact, approximate in zip(_exact(visits), _approximate(visits), strict=True):
        assert 0.99 * exact <= approximate <= 1.5 * exact


@pytest.mark.parametrize("name", ["parallel_penalty_ratio", "switch_seconds"])
def test_a_cost_below_zero_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} is -1: write 0 or more"):
        Interference(**{name: -1})
