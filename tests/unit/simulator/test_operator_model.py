"""The model of the operator: latencies, starts per cycle, rollbacks with back-off, and lost work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laneway.scheduling import HostResources, Node, policies
from laneway.scheduling.config.operator_config import CycleConfig, OperatorConfig, TimeoutsConfig
from laneway.scheduling.model.host_resources import CPU
from laneway.scheduling.model.retries import backoff_seconds
from laneway.simulator import Costs, Failures, Latencies, OperatorModel, Simulation, TraceJob, make_nodes
from laneway.simulator.history import Phase

from tests.support.property_examples import examples
from tests.unit.simulator.builders import FREE, a_job, finishes

NO_LATENCIES = Latencies(0.0, 0.0, 0.0, 0.0)
AT_ONCE = CycleConfig(debounce_milliseconds=0)
SLOW = Latencies(observe_seconds=0.5, request_seconds=0.25, pods_seconds=2.0, notice_seconds=3.0)
"""With the default debounce of 0.05 s."""


def simulated(
    *jobs: TraceJob,
    nodes: str | tuple[Node, ...] = "1x1",
    order: str = "tiresias-las",
    costs: Costs = FREE,
    config: OperatorConfig | None = None,
    latencies: Latencies = NO_LATENCIES,
    failures: Failures | None = None,
    **options: object,
) -> Simulation:
    """The simulation of these jobs with a model of the operator, run to its end."""
    chosen = policies(order=order, order_options=options, preemption_options={"min_run_seconds": 0.0})
    cluster = make_nodes(nodes) if isinstance(nodes, str) else nodes
    operator = OperatorModel(config or OperatorConfig(), latencies, failures or Failures())
    simulation = Simulation(jobs, cluster, chosen, costs, operator=operator)
    simulation.run()
    return simulation


def with_cpus(nodes: str, cpus: int) -> tuple[Node, ...]:
    return tuple(replace(node, host=HostResources.of({CPU: 1000 * cpus})) for node in make_nodes(nodes))


def sidecar(job: TraceJob, cpus: int) -> TraceJob:
    return replace(job, unseen_requests=HostResources.of({CPU: 1000 * cpus}))


def starts(simulation: Simulation, key: str) -> list[float]:
    """When a job's attempts began."""
    return [
        each.from_seconds
        for each in simulation.intervals()
        if each.job == key and each.phase is Phase.STARTING
    ]


def trace_of(rows: Sequence[tuple[int, int, int, bool, float | None]]) -> list[TraceJob]:
    """Jobs of one worker each.

    Args:
        rows: for each job the second of its submission, its duration, its GPUs, whether it saves, and how often by itself.
    """
    return [
        replace(
            a_job(f"ns/{number}", duration, submit=submit, gpus=gpus), saves=saves, checkpoint_seconds=every
        )
        for number, (submit, duration, gpus, saves, every) in enumerate(rows)
    ]


traces = st.lists(
    st.tuples(
        st.integers(0, 3000),
        st.integers(60, 3000),
        st.integers(1, 4),
        st.booleans(),
        st.sampled_from([None, 100.0, 700.0]),
    ),
    min_size=1,
    max_size=10,
).map(trace_of)
failing = st.builds(
    Failures,
    job_mtbf_seconds=st.sampled_from([0.0, 2000.0]),
    node_mtbf_seconds=st.sampled_from([0.0, 4000.0]),
    node_repair_seconds=st.sampled_from([30.0, 900.0]),
    start_failure_ratio=st.sampled_from([0.0, 0.2]),
    checkpoint_seconds=st.sampled_from([100.0, 600.0]),
    seed=st.integers(0, 3).map(float),
)


STARTS_THAT_LEAVE_GPUS_TO_THE_NEXT_DECISION = trace_of(
    [
        (0, 60, 1, False, None),
        (0, 60, 1, False, None),
        (0, 94, 4, False, 700.0),
        (0, 501, 4, False, None),
        (0, 650, 2, False, 700.0),
        (0, 341, 4, False, 700.0),
        (166, 307, 2, False, None),
        (166, 1001, 2, True, None),
        (0, 74, 4, False, None),
        (1640, 70, 1, False, 700.0),
    ]
)
"""A gang that counted them as idle would be owed more of the time, and get a reservation."""


@settings(max_examples=examples(60), deadline=None)
@given(traces, st.integers(1, 3), st.sampled_from(["fifo", "tiresias-las", "multilevel-las"]))
@example(STARTS_THAT_LEAVE_GPUS_TO_THE_NEXT_DECISION, 1, "multilevel-las")
def test_an_operator_without_latencies_is_the_ideal_one(
    trace: list[TraceJob], starts_per_cycle: int, order: str
) -> None:
    """Neither the starts per cycle nor timeouts and back-offs matter then: exactly the same times."""
    chosen = policies(order=order)
    ideal = Simulation(trace, make_nodes("2x2"), chosen)
    cycle = CycleConfig(debounce_milliseconds=0, starts_per_cycle=starts_per_cycle)
    operator = OperatorModel(OperatorConfig(cycle=cycle), NO_LATENCIES)
    modelled = Simulation(trace, make_nodes("2x2"), policies(order=order), operator=operator)
    ideal.run()
    modelled.run()
    assert finishes(modelled) == finishes(ideal)
    for key, run in ideal.runs.items():
        assert (modelled.runs[key].preemptions, modelled.runs[key].executed_seconds) == (
            run.preemptions,
            run.executed_seconds,
        )


@settings(max_examples=examples(80), deadline=None)
@given(traces, failing, st.sampled_from([NO_LATENCIES, Latencies(), SLOW]))
def test_no_more_work_is_lost_than_was_done_since_the_last_checkpoint(
    trace: list[TraceJob], failures: Failures, latencies: Latencies
) -> None:
    simulation = simulated(*trace, nodes="2x2", latencies=latencies, failures=failures)
    for run in simulation.runs.values():
        if run.job.saves:
            interval_seconds = run.job.checkpoint_seconds or failures.checkpoint_seconds
            assert run.lost_seconds <= run.failures * interval_seconds + 1e-6
        elif run.job.checkpoint_seconds is not None:
            losses = run.failures + run.evictions
            assert run.lost_seconds <= losses * run.job.checkpoint_seconds + 1e-6
        assert run.executed_seconds == pytest.approx(run.job.duration_seconds + run.lost_seconds)


@settings(max_examples=examples(60), deadline=None)
@given(traces, failing, st.sampled_from([Latencies(), SLOW]))
def test_work_is_conserved_and_gpus_are_held_once(
    trace: list[TraceJob], failures: Failures, latencies: Latencies
) -> None:
    """Also of jobs that do not save when they are evicted."""
    simulation = simulated(*trace, nodes="2x2", latencies=latencies, failures=failures)
    assert simulation.finished == len(trace)
    for run in simulation.runs.values():
        assert run.executed_seconds == pytest.approx(run.job.duration_seconds + run.lost_seconds)
        if not (run.failures or run.evictions):
            assert run.lost_seconds == 0
    held: dict[str, list[tuple[float, float]]] = {}
    for each in simulation.intervals():
        for uuid in each.gpus:
            held.setdefault(uuid, []).append((each.from_seconds, each.to_seconds))
    for spans in held.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(spans)))


def test_a_start_takes_the_time_of_decision_writes_and_pods() -> None:
    """0.55 s to the decision, 2 requests one after the other, then the pods."""
    simulation = simulated(a_job("ns/a", 10.0), latencies=SLOW)
    assert finishes(simulation) == {"ns/a": pytest.approx(0.55 + 0.5 + 2.0 + 10.0)}


def test_a_gang_also_waits_for_its_service() -> None:
    simulation = simulated(a_job("ns/a", 10.0, gpus=2), nodes="1x2", latencies=SLOW)
    assert finishes(simulation) == {"ns/a": pytest.approx(0.55 + 0.75 + 2.0 + 10.0)}


def test_gpus_are_idle_until_the_operator_notices_the_end() -> None:
    simulation = simulated(a_job("ns/a", 10.0), a_job("ns/b", 10.0), latencies=SLOW)
    one_start_seconds = 0.55 + 0.5 + 2.0
    assert finishes(simulation) == {
        "ns/a": pytest.approx(one_start_seconds + 10.0),
        "ns/b": pytest.approx(one_start_seconds + 10.0 + 3.0 + one_start_seconds + 10.0),
    }


def test_a_job_that_has_finished_unnoticed_is_not_preempted() -> None:
    """The newcomer comes 1 s before the operator notices."""
    simulation = simulated(
        a_job("ns/a", 10.0),
        a_job("ns/b", 1.0, submit=15.0),
        latencies=SLOW,
        thresholds_gpu_seconds=(5.0,),
    )
    assert simulation.runs["ns/a"].preemptions == 0
    assert simulation.runs["ns/a"].finish_seconds == pytest.approx(13.05)


def test_no_more_jobs_start_in_a_cycle_than_configured() -> None:
    config = OperatorConfig(cycle=CycleConfig(starts_per_cycle=2))
    jobs = [a_job(f"ns/{number}", 100.0) for number in range(6)]
    simulation = simulated(*jobs, nodes="1x6", config=config, latencies=SLOW)
    placed = sorted(run.first_start_seconds or 0.0 for run in simulation.runs.values())
    wave_seconds = 0.5 + 0.55
    assert placed == pytest.approx([0.55, 0.55, *[0.55 + wave_seconds] * 2, *[0.55 + 2 * wave_seconds] * 2])


def test_many_starts_wait_for_the_api_server() -> None:
    """600 pods and 300 statuses at 0.25 s each, 36 at a time."""
    config = OperatorConfig(cycle=CycleConfig(starts_per_cycle=1000))
    jobs = [a_job(f"ns/{number}", 1000.0) for number in range(300)]
    simulation = simulated(*jobs, nodes="1x300", config=config, latencies=SLOW)
    ran = max(run.first_run_seconds or 0.0 for run in simulation.runs.values())
    assert ran == pytest.approx(0.55 + 600 * 0.25 / 36 + 2.0)


def test_a_refused_gang_backs_off_like_the_operator() -> None:
    """Without nodes to avoid: at once after the first rollback, then after the operator's own back-off."""
    timeouts = TimeoutsConfig(unschedulable_seconds=15, avoid_node_seconds=0)
    job = sidecar(a_job("ns/a", 10.0, gpus=2), cpus=5)
    chosen = policies()
    operator = OperatorModel(OperatorConfig(cycle=AT_ONCE, timeouts=timeouts), NO_LATENCIES)
    simulation = Simulation([job], with_cpus("1x2", 8), chosen, FREE, operator=operator)
    while simulation.now_seconds < 3000 and simulation.step():
        pass
    began = starts(simulation, "ns/a")
    waits = [after - before - 15 for before, after in pairwise(began)]
    assert waits[0] == pytest.approx(0.0)
    assert waits[1:] == pytest.approx([backoff_seconds(10, times) for times in range(1, len(waits))])
    assert max(waits) == 300


def test_a_refused_gang_avoids_the_nodes_and_starts_elsewhere() -> None:
    small, large = with_cpus("2x2", 8)
    nodes = (small, replace(large, host=HostResources.of({CPU: 16_000})))
    simulation = simulated(sidecar(a_job("ns/a", 10.0, gpus=2), cpus=5), nodes=nodes, latencies=SLOW)
    run = simulation.runs["ns/a"]
    assert run.rollbacks == (1 if small.name < large.name else 0)
    assert run.last_nodes == {large.name}
    assert run.finish_seconds is not None


def test_a_refused_gang_preempts_nobody_until_something_changes() -> None:
    """As in the operator's own test: without the pause it would preempt the old gang again and again."""
    old = replace(a_job("ns/old", 4 * 3600.0, gpus=2), checkpoint_seconds=60.0)
    new = sidecar(a_job("ns/new", 10.0, gpus=2, submit=3600.0), cpus=100)
    simulation = simulated(old, new, nodes=with_cpus("1x2", 8), latencies=Latencies())
    assert simulation.runs["ns/old"].preemptions == 1
    assert simulation.runs["ns/new"].finish_seconds is None


def test_an_attempt_that_does_not_start_is_rolled_back_after_the_gang_timeout() -> None:
    failures = Failures(start_failure_ratio=0.8, seed=2.0)
    simulation = simulated(
        a_job("ns/a", 10.0), nodes="8x1", config=OperatorConfig(cycle=AT_ONCE), failures=failures
    )
    run = simulation.runs["ns/a"]
    assert run.rollbacks > 1
    waits = [backoff_seconds(10, times) for times in range(1, run.rollbacks)]
    assert run.finish_seconds == pytest.approx(run.rollbacks * 120 + sum(waits) + 10)


def test_a_failure_loses_the_work_since_the_checkpoint_and_backs_off() -> None:
    """The checkpoints are 100 s of training apart."""
    failures = Failures(job_mtbf_seconds=400.0, checkpoint_seconds=100.0, seed=3.0)
    simulation = simulated(
        a_job("ns/a", 1000.0), nodes="1x1", config=OperatorConfig(cycle=AT_ONCE), failures=failures
    )
    run = simulation.runs["ns/a"]
    ran = [
        each.to_seconds - each.from_seconds for each in simulation.intervals() if each.phase is Phase.RUNNING
    ]
    assert run.failures == len(ran) - 1 > 0
    assert run.lost_seconds == pytest.approx(sum(seconds % 100.0 for seconds in ran[:-1]))


def test_a_failed_node_is_noticed_given_up_and_left() -> None:
    """It is not ready after 50 s, lost after 60 more; the gang starts on the other node once the pods are force-deleted."""
    failures = Failures(node_mtbf_seconds=20_000.0, node_repair_seconds=7200.0, seed=0.0)
    simulation = simulated(
        a_job("ns/a", 30_000.0), nodes="2x1", config=OperatorConfig(cycle=AT_ONCE), failures=failures
    )
    run = simulation.runs["ns/a"]
    assert run.failures > 0
    first = next(each for each in simulation.intervals() if each.phase is Phase.RUNNING)
    again = starts(simulation, "ns/a")[0]
    given_up = next(each for each in simulation.intervals() if each.phase is Phase.LEAVING)
    assert again == pytest.approx(first.to_seconds)
    assert given_up.from_seconds - first.to_seconds == pytest.approx(50 + 60)
    assert given_up.to_seconds - given_up.from_seconds == pytest.approx(300 - 60)


def test_jobs_that_can_never_run_end_the_simulation_though_nodes_fail() -> None:
    simulation = simulated(
        a_job("ns/a", 10.0, gpus=9), nodes="2x1", failures=Failures(node_mtbf_seconds=100.0)
    )
    assert simulation.finished == 0
    assert simulation.now_seconds < math.inf


@pytest.mark.parametrize("name", ["job_mtbf_seconds", "start_failure_ratio", "checkpoint_seconds"])
def test_a_negative_value_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is -1: write 0 or more"):
        Failures(**{name: -1})
