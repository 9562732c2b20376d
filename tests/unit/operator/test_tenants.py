"""Each share of a GPU counts exactly once, whatever happened before and in whichever order it became known."""

from __future__ import annotations

import pytest
from laneway.operator.config import OperatorConfig
from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.lifecycle import transitions

from tests.unit.operator.builders import NOW, a_gpu_node, a_job, a_pod, a_session, a_view


@pytest.mark.parametrize("story", ["two containers of a worker on one GPU", "two workers on one GPU"])
def test_a_preempted_gang_whose_sessions_share_a_gpu_against_the_plan_can_go(story: str) -> None:
    job = a_job("g").gang(2).placed("n1", "n1").running()
    pods = [a_pod(job.record, rank).running().record for rank in (0, 1)]
    on_first = [a_session(pods[0], key="a"), a_session(pods[story.startswith("two workers")], key="b")]
    node = a_gpu_node("n1", 2, sessions={0: on_first})
    evicted = job.after(transitions.unplaced, "HigherQueue", "Preempted.", NOW, NOW).record
    state = a_view([evicted], pods, [node])
    cycle = Cycle(OperatorConfig().scheduling.policies(), OperatorConfig())
    cycle.run(state, WriteHistory({}, {}), NOW)
    for pod in pods:
        state.note_pod(pod, None)
    assert cycle.run(state, WriteHistory({}, {}), NOW + 1).problem == ""
