"""A long job that may be stopped at any time and resumes from Laneway's checkpoints. It also reports its
loss.

Its progress is reported by the checkpoint loops. On SIGTERM it finishes the current step, saves, and exits
with status 143. A file `steps.log` beside the checkpoints gets one line for each step trained.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from digits_model import NoisyBatches, accuracy, build, load
from laneway.client import Checkpoint, report
from torch.nn.functional import cross_entropy


def main() -> None:
    """Trains up to the target, over as many runs as it takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="the target, over all runs")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--checkpoint-dir", type=Path, required=True)
    parser.add_argument("--checkpoint-every", type=int, default=100)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    images, labels, test_images, test_labels = load()
    batches = NoisyBatches(images, labels, seed=0)
    model = build(arguments.width, arguments.blocks)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    state = Checkpoint(
        arguments.checkpoint_dir,
        model=model,
        optimizer=optimizer,
        per_rank={"batches": batches},
        every_steps=arguments.checkpoint_every,
        on_save=lambda step: tell("checkpoint", step=step),
    )
    state.resume()
    resumed_at = state.step
    tell("start", step=resumed_at, target=arguments.steps)

    with (arguments.checkpoint_dir / "steps.log").open("a", encoding="utf-8") as log:
        for step in state.steps(arguments.steps):
            inputs, targets = batches.draw(arguments.batch)
            optimizer.zero_grad()
            loss = cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            report(loss=loss)
            log.write(json.dumps({"step": step + 1, "loss": loss.item(), "resumed_at": resumed_at}) + "\n")
            log.flush()
            if (step + 1) % 50 == 0:
                print(f"step {step + 1} loss {loss.item():.4f}", flush=True)

    reached = accuracy(model, test_images, test_labels)
    print(f"accuracy: {reached:.2f}")
    tell("end", step=state.step, accuracy=round(reached, 4), steps=state.step)


def tell(event: str, **fields: float) -> None:
    """Prints a line of JSON, for programs that read the log."""
    print(json.dumps({"event": event, **fields}), flush=True)


if __name__ == "__main__":
    main()
