"""What the workers of the end-to-end tests run: a plain PyTorch script that knows nothing of Laneway, but for REPORT.

It comes to its container as text (`python3 -c`). Parameters are environment variables. It prints one JSON object a line.
"""

import json
import os
import signal
import sys
import time

import torch
import torch.distributed

if os.environ.get("REPORT"):
    import laneway.client

STEPS = int(os.environ.get("STEPS", "100"))
STEPS_AFTER_RESUME = int(os.environ.get("STEPS_AFTER_RESUME", "0"))
PACE_SECONDS = float(os.environ.get("PACE_SECONDS", "0"))
BATCH = int(os.environ.get("BATCH", "512"))
GROW_MEBIBYTES = int(os.environ.get("GROW_MEBIBYTES", "0"))
REPORT = bool(os.environ.get("REPORT"))
CHECKPOINT = os.environ.get("CHECKPOINT", "")
RANK = int(os.environ.get("RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))
if CHECKPOINT and WORLD_SIZE > 1:
    CHECKPOINT += f".{RANK}"  # each rank its own: they need not have the folder in common


def say(event, **fields):
    """Print an event."""
    print(json.dumps({"event": event, "rank": RANK, **fields}), flush=True)


def main():
    """Train."""
    told_to_stop = []
    signal.signal(signal.SIGTERM, lambda number, frame: told_to_stop.append(number))
    enough = []
    signal.signal(signal.SIGUSR1, lambda number, frame: enough.append(number))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    # Noisy pictures of ten kinds. Real digits would come with scikit-learn, whose import costs half as much as PyTorch's.
    labels = torch.arange(1800) % 10
    images = torch.rand(10, 64)[labels] + torch.randn(1800, 64)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    first = 0
    if CHECKPOINT and os.path.exists(CHECKPOINT):
        saved = torch.load(CHECKPOINT)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    target = first + STEPS_AFTER_RESUME if first and STEPS_AFTER_RESUME else STEPS
    trained = model
    if WORLD_SIZE > 1:
        torch.distributed.init_process_group("gloo")
        trained = torch.nn.parallel.DistributedDataParallel(model)
    say("start", step=first, target=target)

    kept = []
    step = first
    for step in range(first + 1, target + 1):
        time.sleep(PACE_SECONDS)
        chosen = torch.randint(len(images), (BATCH,))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(trained(images[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        if REPORT:
            laneway.client.report(loss=loss, step=step, steps=target)
        if GROW_MEBIBYTES:
            kept.append(torch.ones(GROW_MEBIBYTES * 2**18))
        if told_to_stop:
            if CHECKPOINT:
                torch.save(
                    {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
                    CHECKPOINT + ".new",
                )
                os.replace(CHECKPOINT + ".new", CHECKPOINT)
                say("checkpoint", step=step)
            sys.exit(143)
        if enough:
            break

    with torch.no_grad():
        accuracy = (model(images).argmax(1) == labels).float().mean().item()
    say("end", step=step, accuracy=round(accuracy, 4))


main()
