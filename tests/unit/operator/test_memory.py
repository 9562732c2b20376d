"""What a cycle keeps changes no decision (:mod:`tests.unit.operator.cycle_histories`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from laneway.operator.cycle.job_cache import JobCache
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.lifecycle import transitions

from tests.support.property_examples import examples
from tests.unit.operator.builders import NOW, a_gpu_node, a_job, a_node, a_view
from tests.unit.operator.cycle_histories import CONFIG, WithMemory

WithMemory.TestCase.settings = settings(
    max_examples=examples(25), stateful_step_count=25, suppress_health_check=list(HealthCheck)
)
TestWithMemory = pytest.mark.timeout(120)(WithMemory.TestCase)


def test_a_cordon_reaches_a_job_that_avoids_the_node_and_has_no_pod_on_it() -> None:
    job = a_job("a").visited().after(transitions.kept_away, ["n1"], "its worker was refused", NOW + 60, NOW)
    cache, state = JobCache(CONFIG.timeouts), a_view([job.record], gpu_nodes=[a_gpu_node("n1")])
    for cordoned, want in ((False, ["n1"]), (True, [])):
        state.note_node(state.nodes["n1"], a_node("n1", cordoned=cordoned))
        cache.update(state, state.take_delta(), WriteHistory({}, {}), (), NOW)
        assert [each.node for each in cache.jobs["uid-a"].job.status.avoid] == want


def test_a_refusal_takes_note_of_workers_that_came_to_its_node_since(request: pytest.FixtureRequest) -> None:
    state, n2, worker = WithMemory(), _Chosen("n2"), _Chosen("j0-0")
    request.addfinalizer(state.teardown)
    for step in (
        partial(state.begin, gpus=1, running=1, waiting=0),
        partial(state.change_node, change="cordon", data=n2),
        partial(state.change_pod, phase="refused", data=worker),
        state.cycle_while_writes_are_in_flight,
        state.cycle_while_writes_are_in_flight,
        partial(state.submit, cpu=None, priority=None, share=40, template={}, workers=1),
        partial(state.cycle, carried_out="all"),
        partial(state.change_node, change="cordon", data=n2),
    ):
        step()
        state.decides_the_same()


class _Chosen(st.DataObject):
    """Draws what a test has chosen."""

    def __init__(self, value: str) -> None:
        self._value = value

    def draw(self, strategy: object, label: object = None) -> Any:
        return self._value
