"""The second life: jobs are preempted by all three actions, and agents die between an order and its answer.

There are two nodes of one GPU each. A GPU offers 200 percent, of which 100 may take turns.

The gang "long" pauses for another gang while the agent of one of its nodes is dead: the other gang starts only when that agent
is back and has answered. Then "long" resumes. It is offloaded for "large", whose memory needs are unknown. "large" is evicted
for "vital", because a GPU has room for only one paused or offloaded job, and starts again. "long" is restored, pauses again, is
suspended while paused, and starts again when it is unsuspended. It is ordered to pause once more and is deleted before the
nodes have answered. Its preemptor then runs on both GPUs, which shows that nothing was left behind.
"""

from __future__ import annotations

from typing import Any

from tests.faults.life import Life, Stage
from tests.support.operator.played_cluster import GIB

_SMALL, _LARGE, _OTHER = (f"example.invalid/{name}" for name in ("small", "large", "other"))


def _template(image: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "trainer", "image": image}]}}


async def _play(stage: Stage) -> None:
    see, nodes = stage.see, stage.nodes
    urgent, vital = stage.classes
    first, second = nodes.names

    await stage.submit("long", workers=2, template=_template(_SMALL))
    await see.running("long", attempt=1)
    await see.profiled("long")
    await see.known_to_take_turns("long")

    nodes.kill_agent(second)
    await stage.submit("short", workers=2, template=_template(_SMALL), priorityClassName=urgent)
    await see.ordered("long", "Pause")
    await see.sessions("long", first, "Paused")
    nodes.start_agent(second)
    await see.paused_in_place("long", "Paused")
    await see.running("short", attempt=1)
    await stage.finish("short")
    await see.running("long", attempt=1)

    await stage.submit("large", workers=2, template=_template(_LARGE), priorityClassName=urgent)
    await see.paused_in_place("long", "Offloaded")
    await see.running("large", attempt=1)
    await see.profiled("large")
    await stage.submit("vital", template=_template(_OTHER), priorityClassName=vital)
    await see.running("vital", attempt=1)
    await stage.finish("vital")
    await see.running("large", attempt=2)

    await stage.finish("large")
    await see.running("long", attempt=1)
    await stage.submit("again", workers=2, template=_template(_SMALL), priorityClassName=urgent)
    await see.running("again", attempt=1)
    await stage.change("long", suspend=True)
    await see.waiting("long", "Suspended")
    await see.no_pods("long")
    await see.nothing_ordered()
    await stage.change("long", suspend=False)
    await see.waiting("long", "GPUsBusy")
    await stage.finish("again")
    await see.running("long", attempt=2)
    await see.known_to_take_turns("long")

    nodes.kill_agent(first)
    await stage.submit("last", workers=2, template=_template(_SMALL), priorityClassName=urgent)
    await see.ordered("long", "Pause")
    await stage.delete("long")
    await see.gone("long")
    nodes.start_agent(first)
    await see.running("last", attempt=1)
    await see.nothing_ordered()
    await stage.finish("last")
    await see.condition("last", "Complete")


PAUSING = Life(
    "pausing",
    gpus=(1, 1),
    play=_play,
    percent=200,
    clients={_SMALL: 10 * GIB, _LARGE: 70 * GIB, _OTHER: 70 * GIB},
)
