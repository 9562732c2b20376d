"""The second life: jobs are preempted by all three actions, and agents die between an order and its answer.

Two nodes of one GPU each, which offer twice what may take turns. A gang pauses for another, while the agent of one of its nodes is
dead: nothing starts before that agent is back and has answered. It goes on; its memory is moved to the host for a gang of which
nobody knows what it needs; that one is evicted for a vital one, as there is room for only one job that is paused or offloaded, and starts
again. The gang gets its memory back, pauses again, is suspended where it stands and starts again when it may. It is told to pause once more,
and deleted before the nodes have answered. Its preemptor runs in the end on all that there is: so nothing was left behind.
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
