"""The third life: the number of a job's workers is changed while it runs.

There are three GPUs on two nodes. "train" is to grow to all three while "other" has one of them: it runs on, and grows when "other" has
ended. It then shrinks for "late", which waits. Finally, a job that needs every GPU shows that no GPU is still held.
"""

from __future__ import annotations

from tests.faults.life import Life, Stage


async def _play(stage: Stage) -> None:
    see = stage.see
    await stage.submit("train", workers=1, minWorkers=1, maxWorkers=3)
    await see.running("train", attempt=1)
    await stage.submit("other")
    await see.running("other", attempt=1)
    await stage.change("train", workers=3)
    await see.condition("train", "RescalePending")
    await stage.finish("other")
    await see.running("train", attempt=2)
    await see.workers("train", 3)
    await stage.submit("late")
    await see.waiting("late", "GPUsBusy")
    await stage.change("train", workers=1)
    await see.running("train", attempt=3)
    await see.workers("train", 1)
    await see.running("late", attempt=1)
    await stage.finish("late")
    await stage.finish("train")
    await see.condition("train", "Complete")
    await stage.submit("last", workers=3)
    await see.running("last", attempt=1)
    await stage.finish("last")
    await see.condition("last", "Complete")


SCALING = Life("scaling", gpus=(2, 1), play=_play)
