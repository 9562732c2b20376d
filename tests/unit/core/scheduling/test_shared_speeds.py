"""The speeds of jobs that share GPUs: assumed rather low, then learnt from what was measured."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling import Job, Profile
from laneway.scheduling.model.interference import Interference, Load
from laneway.scheduling.model.shared_speeds import (
    ASSUMED_PENALTY_RATIO,
    SAME_RATIO,
    Fit,
    SharedSpeeds,
    kind_of,
)
from laneway.scheduling.model.snapshot import StageSeconds

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import a_job


def trains(template: str, gpu: float, before: float) -> Job:
    """A job as a node measures it: seconds within an iteration, and before it."""
    profile = Profile(0, 0, iteration_seconds=gpu + before, stages=StageSeconds(0.0, 0.0, gpu, 0.0))
    return replace(a_job(template).made, profile=profile, template=template)


READS, COMPUTES = trains("reads", 0.1, 0.9), trains("computes", 0.9, 0.1)


def test_before_anything_is_measured_lanes_are_assumed_to_slow_one_another() -> None:
    speeds = SharedSpeeds()
    assert speeds.fit == Fit(ASSUMED_PENALTY_RATIO)
    found = speeds.predict([READS, COMPUTES])
    hopeful = Interference(0.13).speed_ratios([kind_of(job).load for job in (READS, COMPUTES)])
    assert all(here < there for here, there in zip(found, hopeful, strict=True))
    assert sum(found) > 1.1, "a job that reads still joins one that computes"
    assert speeds.predict([READS]) == (1.0,)
    assert speeds.predict([]) == ()


def test_a_measured_group_runs_as_measured() -> None:
    speeds = SharedSpeeds()
    speeds.learn([READS, COMPUTES], 0, 0.5)
    speeds.learn([COMPUTES, READS], 0, 0.25)
    assert speeds.predict([READS, COMPUTES]) == (0.5, 0.25)
    assert speeds.predict([COMPUTES, READS]) == (0.25, 0.5)
    assert speeds.version == 2


def test_what_was_predicted_changes_nothing() -> None:
    speeds = SharedSpeeds()
    predicted = speeds.predict([READS, COMPUTES])
    speeds.learn([READS, COMPUTES], 0, predicted[0] + SAME_RATIO / 2)
    assert speeds.version == 0
    assert speeds.predict([READS, COMPUTES]) == predicted


def test_later_measurements_are_averaged() -> None:
    speeds = SharedSpeeds()
    for ratio in (0.2, 0.4, 0.6):
        speeds.learn([READS, COMPUTES], 0, ratio)
    assert speeds.predict([READS, COMPUTES])[0] == pytest.approx(0.4)


def test_a_kind_that_slows_another_is_expected_to_do_so_in_larger_groups() -> None:
    speeds, third = SharedSpeeds(), trains("third", 0.05, 0.95)
    before = speeds.predict([READS, COMPUTES, third])
    speeds.learn([READS, COMPUTES], 0, 0.1)
    assert speeds.predict([READS, COMPUTES, third])[0] < before[0] / 1.5


STAGES = st.builds(
    StageSeconds,
    storage=st.floats(0, 0.5),
    cpu=st.floats(0, 0.5),
    gpu=st.floats(0.05, 0.9),
    network=st.floats(0, 0.3),
)


def groups(rng: random.Random, kinds: int, count: int) -> list[list[int]]:
    return [[rng.randrange(kinds) for _ in range(rng.choice([2, 2, 3, 4]))] for _ in range(count)]


def errors(speeds: SharedSpeeds, truth: Sequence[Load], jobs: Sequence[Job], penalty: float) -> list[float]:
    """Absolute errors of the speeds of groups that were not measured."""
    found = []
    for group in groups(random.Random(2), len(jobs), 60):
        real = Interference(penalty).speed_ratios([truth[at] for at in group])
        predicted = speeds.predict([jobs[at] for at in group])
        found += [abs(a - b) for a, b in zip(real, predicted, strict=True)]
    return found


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(STAGES, min_size=6, max_size=6), st.sampled_from([0.05, 0.13, 0.2, 0.3, 0.5]))
def test_groups_that_were_measured_make_others_predictable(
    stages: list[StageSeconds], penalty: float
) -> None:
    """The truth has four stages and a penalty; a node sees two times, and the scheduler learns the rest."""
    truth = [Load(each, sum(each)) for each in stages]
    jobs = [
        trains(f"t{at}", each.gpu + each.network, each.storage + each.cpu) for at, each in enumerate(stages)
    ]
    speeds = SharedSpeeds()
    assumed = fmean(errors(speeds, truth, jobs, penalty))
    for group in groups(random.Random(1), len(jobs), 60):
        members = [jobs[at] for at in group]
        real = Interference(penalty).speed_ratios([truth[at] for at in group])
        for at, ratio in enumerate(real):
            speeds.learn(members, at, ratio)
    learnt = fmean(errors(speeds, truth, jobs, penalty))
    assert learnt < 0.05
    assert learnt <= assumed + 0.01


def test_a_single_wrong_measurement_hardly_counts() -> None:
    jobs = [trains(f"t{at}", 0.1 * at + 0.05, 1 - 0.1 * at) for at in range(8)]
    speeds = SharedSpeeds()
    for one in jobs:
        for other in jobs:
            ratios = Interference(0.1).speed_ratios([kind_of(job).load for job in (one, other)])
            speeds.learn([one, other], 0, ratios[0])
            speeds.learn([one, other], 1, ratios[1])
    assert abs(speeds.fit.penalty_ratio - 0.1) <= 0.05
    speeds.learn([jobs[0], jobs[0], jobs[1]], 0, 0.01)
    assert abs(speeds.fit.penalty_ratio - 0.1) <= 0.05


def test_a_namespace_that_reports_nonsense_changes_nothing_for_others() -> None:
    """Six jobs of each of four namespaces lose little beside one another; another user's, of many templates, claim to stand still."""
    speeds = SharedSpeeds()

    def learn(namespace: str, kinds: int, ratio: float) -> None:
        for kind in range(kinds):
            jobs = [trains(f"{namespace}/{name}-{kind}", 0.35, 0.65) for name in ("one", "other")]
            for at in (0, 1):
                speeds.learn(jobs, at, ratio)

    for number in range(4):
        learn(f"team-{number}", 3, 0.92)
    fit = speeds.fit
    learn("another", 60, 0.01)
    assert speeds.fit == fit


def test_what_is_remembered_is_bounded() -> None:
    speeds = SharedSpeeds()
    for at in range(600):
        speeds.learn([READS, trains(f"t{at}", 0.5, 0.5)], 0, 0.3)
    last, first = (speeds.predict([READS, trains(f"t{at}", 0.5, 0.5)])[0] for at in (599, 0))
    assert last == pytest.approx(0.3, abs=SAME_RATIO)
    assert abs(first - 0.3) > SAME_RATIO, "its group is forgotten"
