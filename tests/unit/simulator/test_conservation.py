"""Properties of every simulation: no GPU is held beyond its capacity, and work is neither lost nor
created."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling import Node
from laneway.simulator import Costs, Knowledge, Sharing, Simulation, TraceJob, make_nodes, report
from laneway.simulator.history import Phase
from laneway.simulator.models.speed_model import Changes, Occupancy, Speed

from tests.support.property_examples import examples
from tests.unit.simulator.builders import SMALL, a_job, finishes, sharing_memory, simulated

ORDERS = ["fifo", "srtf", "srsf", "tiresias-las", "tiresias-gittins", "fair", "finish-time-fair"]


@dataclass(frozen=True)
class Turns:
    """Jobs on a GPU take turns, so n jobs run at 1/n of the speed; each is half as fast after 10 s of work."""

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        keys = dict.fromkeys(changes.runs)
        for uuid in changes.gpus:
            keys.update(dict.fromkeys(occupancy.on_gpu(uuid)))
        return {key: self._speed(key, occupancy, now_seconds) for key in keys}

    def _speed(self, key: str, occupancy: Occupancy, now_seconds: float) -> Speed:
        run = occupancy.run(key)
        crowd = max(len(occupancy.on_gpu(uuid)) for worker in run.placement for uuid in worker.gpus)
        if run.progress_seconds(now_seconds) < 10.0:
            return Speed(1 / crowd, len(run.placement) / crowd, until_progress_seconds=10.0)
        return Speed(0.5 / crowd, len(run.placement) / crowd)


clusters = st.sampled_from(
    [
        make_nodes("2x2"),
        Sharing(3).shared(make_nodes("2x2")),
        sharing_memory("2x2", offered_percent=200),
    ]
)
traces = st.lists(
    st.tuples(
        st.integers(0, 200),
        st.integers(1, 120),
        st.integers(1, 4),
        st.sampled_from([25, 50, 100]),
        st.booleans(),
    ),
    min_size=1,
    max_size=10,
).map(
    lambda rows: [
        a_job(
            f"j{number}",
            float(duration),
            submit=float(submit),
            gpus=gpus,
            share=share,
            profile=SMALL if known else None,
        )
        for number, (submit, duration, gpus, share, known) in enumerate(rows)
    ]
)
costs = st.sampled_from([Costs(), Costs(*[0.0] * 9), Costs(*[3.0] * 9)])


def run(trace: list[TraceJob], nodes: tuple[Node, ...], order: str, chosen: Costs) -> Simulation:
    options = {"thresholds_gpu_seconds": [20, 60]} if order == "tiresias-las" else {}
    return simulated(
        *trace,
        nodes=nodes,
        order=order,
        costs=chosen,
        min_run=5,
        model=Turns(),
        knowledge=Knowledge(),
        **options,
    )


@settings(max_examples=examples(60))
@given(traces, clusters, st.sampled_from(ORDERS), costs)
def test_no_gpu_is_ever_held_beyond_what_it_offers(
    trace: list[TraceJob], nodes: tuple[Node, ...], order: str, chosen: Costs
) -> None:
    gpus = {gpu.uuid: gpu for node in nodes for gpu in node.gpus}
    changes: defaultdict[str, list[tuple[float, int, Phase]]] = defaultdict(list)
    for interval in run(trace, nodes, order, chosen).intervals():
        for uuid in interval.gpus:
            changes[uuid].append((interval.from_seconds, interval.share_percent, interval.phase))
            changes[uuid].append((interval.to_seconds, -interval.share_percent, interval.phase))
    for uuid, each in changes.items():
        offered = gpus[uuid].allocatable_percent
        active = offered if gpus[uuid].active_percent is None else gpus[uuid].active_percent
        held = turning = 0
        for _, percent, phase in sorted(each, key=lambda change: (change[0], change[1])):
            held += percent
            turning += percent if phase in (Phase.STARTING, Phase.RUNNING) else 0
            assert held <= offered
            assert turning <= active


@settings(max_examples=examples(60))
@given(traces, clusters, st.sampled_from(ORDERS), costs)
def test_every_job_that_fits_finishes_having_done_exactly_its_work(
    trace: list[TraceJob], nodes: tuple[Node, ...], order: str, chosen: Costs
) -> None:
    simulation = run(trace, nodes, order, chosen)
    for each in simulation.runs.values():
        duration = each.job.duration_seconds
        assert each.finish_seconds is not None
        assert each.counted_progress_seconds == duration
        assert each.finish_seconds >= each.job.submit_seconds + duration - 1e-6
        assert each.executed_seconds >= min(duration, 10) + 2 * max(0.0, duration - 10) - 1e-6
        running = [i for i in simulation.intervals() if i.job == each.job.key and i.phase is Phase.RUNNING]
        assert sum(i.to_seconds - i.from_seconds for i in running) == pytest.approx(each.executed_seconds)


@settings(max_examples=examples(30))
@given(traces, clusters, st.sampled_from(ORDERS), costs, st.randoms(use_true_random=False))
def test_the_order_in_which_jobs_and_nodes_are_listed_changes_nothing(
    trace: list[TraceJob], nodes: tuple[Node, ...], order: str, chosen: Costs, random: object
) -> None:
    shuffled, turned = list(trace), tuple(reversed(nodes))
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = run(trace, nodes, order, chosen), run(shuffled, turned, order, chosen)
    assert finishes(one) == finishes(other)
    assert sorted(one.intervals(), key=repr) == sorted(other.intervals(), key=repr)


@settings(max_examples=examples(30))
@given(traces, clusters, st.sampled_from(ORDERS), costs)
def test_the_meter_agrees_with_the_intervals(
    trace: list[TraceJob], nodes: tuple[Node, ...], order: str, chosen: Costs
) -> None:
    simulation = run(trace, nodes, order, chosen)
    edges = sorted(
        {i.from_seconds for i in simulation.intervals()} | {i.to_seconds for i in simulation.intervals()}
    )
    held_gpu_seconds = 0.0
    for begin, end in pairwise(edges):
        percent: defaultdict[str, int] = defaultdict(int)
        for interval in simulation.intervals():
            if interval.from_seconds <= begin and end <= interval.to_seconds:
                for uuid in interval.gpus:
                    percent[uuid] += interval.share_percent
        held_gpu_seconds += (end - begin) * sum(min(100, each) for each in percent.values()) / 100
    assert simulation.meter.held_gpu_seconds == pytest.approx(held_gpu_seconds)
    figures = report(simulation, policy=order, placement="best-fit")
    assert 0 <= figures.utilization_ratio <= 1 + 1e-9
    assert 0 <= figures.fragmentation_ratio <= 1 + 1e-9
    assert 0 < figures.jain_fairness_ratio <= 1 + 1e-9
