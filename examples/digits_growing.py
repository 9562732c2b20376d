"""A job that exceeds its share: its batch grows every few steps. Plain PyTorch, without any knowledge of
Laneway."""

from __future__ import annotations

import argparse
import json

import torch
from digits_model import NoisyBatches, accuracy, build, load
from torch.nn.functional import cross_entropy


def main() -> None:
    """Trains with growing batches until it is done or out of memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=2560, help="of the first steps")
    parser.add_argument("--growth", type=int, default=512, help="added to the batch every --grow-every steps")
    parser.add_argument("--grow-every", type=int, default=8)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=3)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    images, labels, test_images, test_labels = load()
    batches = NoisyBatches(images, labels, seed=0)
    model = build(arguments.width, arguments.blocks)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    for step in range(arguments.steps):
        batch = arguments.batch + step // arguments.grow_every * arguments.growth
        if step % arguments.grow_every == 0:
            print(f"step {step} batch {batch}", flush=True)
        inputs, targets = batches.draw(batch)
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()

    reached = accuracy(model, test_images, test_labels)
    print(f"accuracy: {reached:.2f}")
    print(json.dumps({"accuracy": round(reached, 4), "steps": arguments.steps}), flush=True)


if __name__ == "__main__":
    main()
