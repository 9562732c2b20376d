"""What the workers of the real workload run: a plain PyTorch script that knows nothing of Laneway.

It comes to its container as text (`python3 -c`). Parameters are environment variables. It trains on a stream of batches that
arrive at a fixed pace, as from a store of limited bandwidth or a sensor, and computes for some milliseconds on each: so
its speed depends on the data and not on how busy the CPUs are. What arrives while it is busy, or before a gang is complete,
is not lost: it is read at once, until the reader has caught up. Prints a JSON object a line.

On SIGTERM all workers of the gang agree on a last step, the first of them saves a checkpoint, and all end with status 143.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator

RANK = int(os.environ.get("RANK", "0"))
told_to_stop: list[int] = []
# Installed before the slow imports: the kernel drops a SIGTERM to a container's first process if it has no handler for it.
signal.signal(signal.SIGTERM, lambda number, frame: told_to_stop.append(number))


def say(event: str, **fields: float) -> None:
    """Print an event and when it was."""
    print(json.dumps({"event": event, "rank": RANK, "seconds": time.time(), **fields}), flush=True)


say("began")

import torch  # noqa: E402  # it takes seconds, which are measured
import torch.distributed  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

STEPS = int(os.environ["STEPS"])
BATCH_SECONDS = float(os.environ["BATCH_SECONDS"])
CHECKPOINT = os.environ["CHECKPOINT"]
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))
FEATURES, CLASSES, WIDTH = 64, 10, 32
BATCH = 64
if (
    "GLOBAL_BATCH" in os.environ
):  # the workers divide each batch: an elastic job, whose batches arrive faster the more they are
    BATCH = int(os.environ["GLOBAL_BATCH"]) // WORLD_SIZE
    BATCH_SECONDS /= WORLD_SIZE


class Stream(IterableDataset):  # type: ignore[misc]  # torch is not there when types are checked
    """Batches of noisy points around ten centres, each of which arrives so long after the one before."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(0))

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        began = time.monotonic()
        for count, step in enumerate(range(self._first, STEPS), start=1):
            random = torch.Generator().manual_seed(step * WORLD_SIZE + RANK)
            labels = torch.randint(CLASSES, (BATCH,), generator=random)
            points = self._centres[labels] + torch.randn(BATCH, FEATURES, generator=random)
            time.sleep(max(0.0, began + count * BATCH_SECONDS - time.monotonic()))
            yield points, labels


def main() -> int:
    """Train; return the exit status."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, CLASSES)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = 0
    if os.path.exists(CHECKPOINT):
        saved = torch.load(CHECKPOINT, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    trained = model
    if WORLD_SIZE > 1:
        torch.distributed.init_process_group("gloo")
        trained = torch.nn.parallel.DistributedDataParallel(model)
    say("start", step=step)

    loss = torch.zeros(())
    for points, labels in DataLoader(Stream(step), batch_size=None):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(trained(points), labels)
        loss.backward()
        optimizer.step()
        step += 1
        stops = agreed(bool(told_to_stop))
        if RANK == 0 and (stops or step == STEPS):
            save(
                model, optimizer, step
            )  # also at the end: a job preempted while ending has nothing to repeat
        if stops and step < STEPS:
            say("stop", step=step)
            return 128 + signal.SIGTERM
    say("end", step=step, loss=loss.item())
    return 0


def agreed(stop: bool) -> bool:
    """Whether any worker of the gang wants to stop; all get the same answer."""
    if WORLD_SIZE == 1:
        return stop
    wishes = torch.tensor([int(stop)])
    torch.distributed.all_reduce(wishes, torch.distributed.ReduceOp.MAX)
    return bool(wishes.item())


def save(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Write the checkpoint whole or not at all."""
    partial = CHECKPOINT + ".new"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, partial)
    os.replace(partial, CHECKPOINT)


sys.exit(main())
