"""The first life: gangs, shares, failures and ends.

There are three GPUs on two nodes. A kubelet refuses a gang once; the gang then starts, is preempted by an urgent gang and
starts again. Two jobs share a GPU: one fails and restarts, is suspended and starts again; the other is deleted while it runs.
The urgent gang is removed by its TTL. One job never fits. Finally, a job that needs every GPU shows that no GPU is still held.
"""

from __future__ import annotations

from tests.faults.life import Life, Stage


async def _play(stage: Stage) -> None:
    """Live through it; each step waits for the last one's consequences."""
    see, urgent = stage.see, stage.classes[0]

    await stage.submit("gang", workers=2)
    await see.running("gang", attempt=2)
    await stage.submit("half", gpus={"type": "Share", "sharePercent": 50})
    await see.running("half", attempt=1)
    await stage.submit("other", gpus={"type": "Share", "sharePercent": 50})
    await see.running("other", attempt=1)
    await stage.submit("huge", workers=4)
    await see.waiting("huge", "NotEnoughGPUs")
    await stage.submit("urgent", workers=2, priorityClassName=urgent, ttlSecondsAfterFinished=0)
    await see.running("urgent", attempt=1)
    await stage.finish("half", exit_code=1)
    await see.running("half", attempt=2)
    await stage.finish("urgent")
    await see.gone("urgent")
    await see.running("gang", attempt=3)
    await stage.delete("other")
    await see.gone("other")
    await stage.change("half", suspend=True)
    await see.waiting("half", "Suspended")
    await see.no_pods("half")
    await stage.change("half", suspend=False)
    await see.running("half", attempt=3)
    await stage.finish("gang")
    await see.condition("gang", "Complete")
    await stage.finish("half")
    await see.condition("half", "Complete")
    await stage.submit("last", workers=3)
    await see.running("last", attempt=1)
    await stage.finish("last")
    await see.condition("last", "Complete")


GANGS = Life("gangs", gpus=(2, 1), play=_play, refusals=frozenset({("gang", 1, 1)}))
