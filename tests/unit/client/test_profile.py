"""When measurements are reported to the agent, and which."""

from __future__ import annotations

import pytest
from laneway.client.reporting.profile import TIME_REPORT_SECONDS, WINDOW_ITERATIONS, Profile, Profiler

MIB = 1 << 20


class Training:
    """Iterations of known size."""

    def __init__(self) -> None:
        self.profiler = Profiler()
        self.now_ns = 0
        self.iterations = 0

    def run(
        self,
        times: int,
        held: int = 10 * MIB,
        highest: int = 30 * MIB,
        milliseconds: int = 10,
        trained: bool = True,
        data_milliseconds: int = 0,
    ) -> list[Profile]:
        reports = []
        for _ in range(times):
            self.now_ns += (milliseconds + data_milliseconds) * 1_000_000
            self.iterations += trained
            report = self.profiler.observe(
                held,
                highest,
                milliseconds * 1_000_000,
                self.now_ns,
                trained,
                self.iterations,
                data_milliseconds * 1_000_000,
            )
            if report is not None:
                reports.append(report)
        return reports


def test_the_first_report_comes_after_three_iterations_without_the_firsts_time() -> None:
    training = Training()
    training.profiler.model_bytes, training.profiler.largest_tensor_bytes = 8 * MIB, 2 * MIB
    assert training.run(1, milliseconds=900) == []
    assert training.run(1) == []
    (profile,) = training.run(1)
    assert profile == Profile(
        persistent_bytes=10 * MIB,
        ephemeral_bytes=20 * MIB,
        framework_bytes=0,
        iteration_seconds=0.01,
        iterations=3,
        largest_tensor_bytes=2 * MIB,
        model_bytes=8 * MIB,
        iteration_seconds_spread=0.0,
        remaining_seconds=None,
    )


def test_the_spread_of_the_iterations_time_is_their_standard_deviation() -> None:
    training = Training()
    training.run(2, milliseconds=10)
    (profile,) = training.run(1, milliseconds=30)
    assert profile.iteration_seconds == 0.02
    assert profile.iteration_seconds_spread == pytest.approx(0.01)


def test_a_small_spread_is_not_lost_in_rounding() -> None:
    profiler = Profiler()
    for number, spent_ns in enumerate((1, 10**15, 10**15 + 2_000)):
        profile = profiler.observe(1, 1, spent_ns, number, True, number + 1)
    assert profile is not None
    assert profile.iteration_seconds_spread == pytest.approx(1e-6)


def test_the_remaining_time_is_reported_if_announced() -> None:
    training = Training()
    training.profiler.expect(100, 0)
    (profile,) = training.run(3)
    assert profile.remaining_seconds == pytest.approx(0.97)


def test_a_changed_remaining_count_is_reported_with_the_next_window() -> None:
    training = Training()
    training.run(3 + WINDOW_ITERATIONS)
    training.profiler.expect(50, training.iterations)
    (profile,) = training.run(WINDOW_ITERATIONS)
    assert profile.remaining_seconds == pytest.approx(
        (50 - profile.iterations + 3 + WINDOW_ITERATIONS) * 0.01
    )
    assert training.run(10 * WINDOW_ITERATIONS) == [], "it goes down by itself"


def test_a_later_agent_receives_the_current_remaining_time() -> None:
    training = Training()
    assert training.profiler.repeat(0) is None
    training.profiler.expect(100, 0)
    training.run(10)
    again = training.profiler.repeat(training.iterations)
    assert again is not None
    assert again.remaining_seconds == pytest.approx(0.90)


def test_persistent_is_the_most_held_at_a_boundary() -> None:
    training = Training()
    training.run(1, held=12 * MIB)
    (profile,) = training.run(2, held=8 * MIB)
    assert profile.persistent_bytes == 12 * MIB
    assert profile.ephemeral_bytes == 18 * MIB


def test_nothing_is_repeated_while_nothing_changes() -> None:
    training = Training()
    training.run(3)
    assert training.run(20 * WINDOW_ITERATIONS, held=10 * MIB + 100, highest=31 * MIB) == []


def test_more_memory_is_reported_at_once() -> None:
    training = Training()
    training.run(3)
    (profile,) = training.run(1, highest=40 * MIB)
    assert profile.ephemeral_bytes == 30 * MIB


def test_an_evaluation_counts_for_memory_and_not_for_time() -> None:
    training = Training()
    training.run(3)
    (profile,) = training.run(1, highest=60 * MIB, milliseconds=500, trained=False)
    assert profile.ephemeral_bytes == 50 * MIB
    assert profile.iterations == 3
    assert profile.iteration_seconds == 0.01


def test_a_process_that_only_evaluates_is_measured_after_a_while() -> None:
    training = Training()
    (profile,) = training.run(WINDOW_ITERATIONS, milliseconds=20, trained=False)
    assert profile.ephemeral_bytes == 20 * MIB
    assert profile.iteration_seconds == 0.02
    assert profile.iterations == 0


def test_an_evaluation_before_the_training_does_not_count_for_its_time() -> None:
    training = Training()
    training.run(5, milliseconds=500, trained=False)
    (profile,) = training.run(3)
    assert profile.iteration_seconds == 0.01


def test_less_memory_is_reported_once_it_has_lasted() -> None:
    training = Training()
    training.run(3)
    reports = training.run(40 * WINDOW_ITERATIONS, held=5 * MIB, highest=10 * MIB)
    assert reports[-1].persistent_bytes == 5 * MIB
    assert reports[-1].ephemeral_bytes == 5 * MIB
    assert reports[-1].iterations > 10 * WINDOW_ITERATIONS


def test_an_occasional_large_evaluation_keeps_its_memory() -> None:
    training = Training()
    training.run(3)
    training.run(1, highest=60 * MIB, trained=False)
    assert training.run(5 * WINDOW_ITERATIONS) == []


def test_a_changed_iteration_time_is_reported_but_rarely() -> None:
    training = Training()
    training.run(3)
    iterations = int(4 * TIME_REPORT_SECONDS / 0.02)
    reports = training.run(iterations, milliseconds=20)
    assert 1 <= len(reports) <= 4
    assert reports[0].iteration_seconds > 0.01


def test_the_data_time_excludes_an_evaluation_in_between() -> None:
    training = Training()
    training.run(WINDOW_ITERATIONS)
    training.now_ns += int(TIME_REPORT_SECONDS * 2e9)
    training.run(1, data_milliseconds=60_000)
    (profile,) = training.run(WINDOW_ITERATIONS - 1, data_milliseconds=4)
    assert profile.data_seconds == pytest.approx(0.004)
    assert profile.iteration_seconds == pytest.approx(0.01)


def test_a_changed_data_time_is_reported_relative_to_the_whole_iteration() -> None:
    training = Training()
    training.run(WINDOW_ITERATIONS, milliseconds=100)
    training.now_ns += int(TIME_REPORT_SECONDS * 2e9)
    assert training.run(WINDOW_ITERATIONS, milliseconds=100, data_milliseconds=4) == []
    (profile,) = training.run(WINDOW_ITERATIONS, milliseconds=100, data_milliseconds=50)
    assert profile.data_seconds == pytest.approx(0.05)
