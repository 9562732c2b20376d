"""What a cycle writes of those that preempt and are preempted, and of those that wait behind them."""

from __future__ import annotations

import pytest
from laneway.operator.cycle.cycle import Cycle, CycleResult
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.pacing import EXPLAINED_PER_CYCLE
from laneway.operator.state.records.priority_class import PriorityClassRecord
from laneway.scheduling import MAX_PREEMPTORS
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import (
    NOW,
    a_gpu_node,
    a_job,
    a_pod,
    a_session,
    a_view,
    condition_of,
    decided,
    gauges_of,
    states_of,
    write_of,
)

URGENT = PriorityClassRecord("urgent", 10, is_default=False)


def test_preemption_writes_the_victim_first_and_starts_the_other_when_it_is_gone() -> None:
    victim = a_job("low").placed("n1", at=NOW - 600).running(since=NOW - 600).record
    pod = a_pod(victim).running(since=NOW - 600).record
    urgent = a_job("high").visited().spec(priorityClassName="urgent").record
    gpu_nodes = [a_gpu_node("n1", gpus=1)]
    view = a_view([victim, urgent], [pod], gpu_nodes, priority_classes=[URGENT])
    first = decided(view)

    low = write_of(first, "low")
    assert low is not None
    assert low.after.pods_to_delete == (pod,)
    assert condition_of(low.status, "Preempted") == ("True", "HigherPriority")
    assert "ns/high" in next(each.message for each in low.status.conditions if each.type == "Preempted")
    assert low.status.preemptions == 1
    assert low.status.placement == ()
    assert low.status.executed_milliseconds / 1000 == pytest.approx(600)
    high = write_of(first, "high")
    assert high is not None
    assert high.creates == ()
    assert states_of(gauges_of(view)) == {"preempting": 1, "waiting": 1}

    leaving = a_pod(victim).running(since=NOW - 600).deleting().record
    low_then, high_then = victim.with_status(low.status), urgent.with_status(high.status)
    second = decided(
        a_view([low_then, high_then], [leaving], gpu_nodes, priority_classes=[URGENT]), now=NOW + 1
    )
    assert all(not each.creates for each in second.writes), "the GPU is held until the last worker has gone"

    third = decided(a_view([low_then, high_then], [], gpu_nodes, priority_classes=[URGENT]), now=NOW + 2)
    started = write_of(third, "high")
    assert started is not None
    assert len(started.creates) == 1
    waiting = write_of(third, "low")
    assert waiting is None or not waiting.creates


class Waiting:
    """One running job, many that wait, and the statuses that were written; nobody else writes."""

    def __init__(self) -> None:
        holder = a_job("holder").placed("n1", at=NOW - 600).running(since=NOW - 600).record
        pods = [a_pod(holder).running(since=NOW - 600).record]
        waits = [a_job(f"w{n:03d}").visited().record for n in range(2 * EXPLAINED_PER_CYCLE)]
        self.view = a_view([holder, *waits], pods, [a_gpu_node("n1", gpus=1)], priority_classes=[URGENT])
        self.cycle = Cycle(OperatorConfig.model_validate({"cycle": {"explanationsPerSecond": 1000}}))
        self.now = NOW
        self.written: dict[str, float] = {}

    def run(self, after_seconds: float) -> CycleResult:
        """One cycle, whose writes are made."""
        self.now += after_seconds
        result = self.cycle.run(self.view, WriteHistory({}, dict(self.written)), self.now)
        for write in result.writes:
            before = self.view.jobs[write.job.uid]
            self.view.note_job(before, before.with_status(write.status))
            self.written[write.job.uid] = self.now
            for pod in write.after.pods_to_delete:
                self.view.note_pod(pod, None)
        return result

    def positions(self) -> list[int | None]:
        """Of the waiting jobs, in their order."""
        statuses = (self.view.jobs[self.view.job_uids[key]].status for key in self.cycle._waiting)
        return [status.waiting.position for status in statuses if status.waiting is not None]


def test_a_preemptor_is_told_at_once_and_the_others_soon() -> None:
    """With many waiting jobs, a cycle that preempts explains only that; the positions behind are told with the next explanation."""
    waiting = Waiting()
    for _ in range(10):
        waiting.run(1.0)
    before = waiting.positions()
    assert before == list(range(1, len(before) + 1))
    waiting.run(1.0)
    waiting.view.note_job(None, a_job("high").visited().spec(priorityClassName="urgent").record)
    result = waiting.run(0.1)
    assert {write.job.name for write in result.writes} == {"holder", "high"}
    high = write_of(result, "high")
    assert high is not None
    assert high.status.waiting is not None
    assert (high.status.waiting.reason, high.status.waiting.position) == ("AwaitingPreemption", 1)
    assert result.due_seconds <= waiting.now + 0.2, "all others are explained then"
    for _ in range(10):
        waiting.run(1.0)
    after = waiting.positions()
    assert after == list(range(1, len(after) + 1))


@pytest.mark.parametrize("explained", [False, True], ids=["", "while their explanations are in flight"])
def test_no_more_is_preempted_while_as_many_preemptions_are_being_written_as_a_cycle_decides(
    explained: bool,
) -> None:
    """On a slow API server they would pile up, and be of a state that is long past when they are written."""
    gpus = 3 * MAX_PREEMPTORS
    low = [
        a_job(f"low{n}").placed(f"n{n}", at=NOW - 600).running(since=NOW - 600).record for n in range(gpus)
    ]
    pods = [a_pod(job).running(since=NOW - 600).record for job in low]
    high = [a_job(f"high{n}").visited().spec(priorityClassName="urgent").record for n in range(gpus)]
    gpu_nodes = [a_gpu_node(f"n{n}", gpus=1) for n in range(gpus)]
    view, cycle = a_view([*low, *high], pods, gpu_nodes, priority_classes=[URGENT]), Cycle(OperatorConfig())
    in_flight = {job.uid for job in high} if explained else set[str]()
    victims: list[str] = []

    def preempted() -> int:
        writes = cycle.run(view, WriteHistory({}, {}), NOW, in_flight=set(in_flight)).writes
        in_flight.update(each.job.uid for each in writes)
        found = [each.job.uid for each in writes if each.after.victims]
        victims.extend(found)
        return len(found)

    assert [preempted(), preempted()] == [MAX_PREEMPTORS, 0]
    in_flight.difference_update(victims[:3])
    assert preempted() == 3


def test_a_gang_keeps_what_others_have_left_until_the_node_reports_the_last_of_them() -> None:
    """The pods of both victims are deleted; of one, the node still reports the session. A job that comes after the gang and
    needs only one GPU must not get the other: the gang would have to preempt somebody else, and never start."""
    victim = a_job("low").gang(2).placed("n1", "n1", at=NOW - 200).record
    session = a_session(a_pod(victim, 1).record, job="low", rank=1)
    gang = a_job("high").gang(2).visited().spec(priorityClassName="urgent").record
    small = a_job("small").visited().record
    nodes = [a_gpu_node("n1", gpus=2, sessions={1: [session]})]
    decision = decided(a_view([gang, small], [], nodes, priority_classes=[URGENT]))

    assert decision.decision.starts == {}
    assert str(decision.waiting["ns/high"].code) == "AwaitingRelease"
    later = decided(
        a_view([gang, small], [], [a_gpu_node("n1", gpus=2)], priority_classes=[URGENT]), now=NOW + 1
    )
    assert set(later.decision.starts) == {"ns/high"}
