"""A new leader that is shown the past: it must not give away again what the leader before it has given."""

from __future__ import annotations

import pytest
from laneway.operator.state.resources import PODS

from tests.faults.cell import CONFIG, Grounds, cell
from tests.faults.stale_reads import StaleReads
from tests.faults.sweep import asked_for_some
from tests.support.operator.waiting import until

pytestmark = [
    pytest.mark.skipif(asked_for_some(), reason="CELLS asks for other faults"),
    pytest.mark.timeout(900),
]

_NO_PREEMPTION = {
    **CONFIG,
    # The status of who waits is not written for news of its place in line alone.
    "cycle": {**CONFIG["cycle"], "explainSeconds": 3600},
    "scheduling": {
        **CONFIG["scheduling"],
        "preemption": {"policy": "lowest-first", "options": {"minRunSeconds": 3600}},
    },
}


async def test_a_new_leader_with_stale_reads_does_not_allocate_gpus_a_second_time(
    grounds: Grounds,
) -> None:
    """The jobs that the new leader would write have not changed since, so no version conflict would stop it."""
    async with cell(grounds) as live:
        fault = StaleReads()
        operator = await live.add_replica(fault, _NO_PREEMPTION)
        operator.start()
        see, cluster = live.stage.see, live.stage.cluster
        await cluster.submit("first", workers=3)
        await see.running("first", attempt=1)
        await cluster.submit("patient", workers=3)
        await see.waiting("patient", "GPUsBusy")

        fault.freeze(live.history.version, frozenset({PODS.plural}))
        for pod in see.pods("first"):
            await cluster.finish(pod)
        await live.history.until("the first has ended", lambda: see.ended("first"))
        past = live.history.version
        await cluster.submit("urgent", workers=3, priorityClassName=live.stage.classes[0])
        await see.waiting("urgent", "GPUsBusy")
        fault.thaw()
        await see.running("urgent", attempt=1)
        patient = live.history.job("patient")
        assert patient is not None
        assert int(patient["metadata"]["resourceVersion"]) <= past, "a conflict would stop the new leader"

        fault.freeze(past)
        live.kill_and_start(operator)

        async def looked_again() -> bool:
            return fault.pods_listed["a/2"] >= 4

        await until("the new leader has looked, again and again", looked_again, 300)
        fault.thaw()
        for pod in see.pods("urgent"):
            await cluster.finish(pod)
        await see.running("patient", attempt=1)
        violations = live.violations()
        assert not violations, "\n".join(map(str, violations))
