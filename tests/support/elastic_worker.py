"""What the elastic jobs of the end-to-end tests run: DistributedDataParallel or FSDP on gloo, with Laneway's checkpoints.

It comes to its container as text (`python3 -c`). Parameters are environment variables. The batch of all workers together is the same for
each number of workers, so that the loss curve is too. A step takes STEP_SECONDS divided by the workers, until the file `go` is in FOLDER;
so a test decides when a job may end. Rank 0 adds a line of JSON for each step to `steps`, and writes `result` at the end.
"""

import atexit
import json
import os
import signal
import time
from pathlib import Path

# The kernel drops a SIGTERM to a container's first process without a handler: a stop during the slow imports would take the grace period.
signal.signal(signal.SIGTERM, lambda number, frame: os._exit(143))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from laneway.client import Checkpoint  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from torch.distributed.fsdp import FullyShardedDataParallel  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset  # noqa: E402

FOLDER = Path(os.environ["FOLDER"])
GO = FOLDER / "go"
STEP_SECONDS = float(os.environ["STEP_SECONDS"])
EPOCHS = int(os.environ["EPOCHS"])
BATCH = 60
TRAINED = 1500
"""Of 1797 images: 25 steps in an epoch, with as many samples for each of up to six workers."""


def main():
    """Train up to the last epoch, over as many attempts as it takes."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, workers = dist.get_rank(), dist.get_world_size()
    images, labels = load_digits(return_X_y=True)
    images, labels = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[:TRAINED], order[TRAINED:]
    data = TensorDataset(images[train], labels[train])
    loader = DataLoader(data, batch_size=BATCH // workers, sampler=DistributedSampler(data))

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    if os.environ["KIND"] == "fsdp":
        model = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
    else:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    state = Checkpoint(FOLDER / "checkpoints", model=model, optimizer=optimizer)
    state.resume()

    first = state.step
    with (FOLDER / "steps").open("a", encoding="utf-8") as log:
        for _ in state.epochs(EPOCHS):
            for inputs, targets in state.batches(loader):
                if not GO.exists():
                    time.sleep(STEP_SECONDS / workers)
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
                if rank == 0:
                    log.write(json.dumps({"step": state.step + 1, "first": first, "workers": workers}) + "\n")
                    log.flush()

    with torch.no_grad():
        scores = model(images[test])
        loss = torch.nn.functional.cross_entropy(scores, labels[test]).item()
        accuracy = (scores.argmax(1) == labels[test]).float().mean().item()
    if rank == 0:
        (FOLDER / "result").write_text(json.dumps({"accuracy": accuracy, "loss": loss}))
    dist.barrier()
    # `destroy_process_group` and gloo's threads, which free FSDP's tensors, can wait for each other for ever (PyTorch 2.6).
    atexit._run_exitfuncs()
    os._exit(0)


main()
