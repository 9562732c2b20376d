"""Executes a notebook in a kernel, as Jupyter does. Between two training cells it prints a line and waits for
a file."""

from __future__ import annotations

import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

TOLD = Path("enough")

DEFINE = """
import torch
from exact import describe
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
optimizer = torch.optim.Adam(net.parameters())
losses = []
def loss_of(step):
    inputs = torch.randn(32, 64, generator=torch.Generator().manual_seed(step))
    return net(inputs).square().mean()
def train(steps):
    for step in steps:
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""
BEFORE = (
    f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})",
    DEFINE,
    "train(range(4))",
    "loss_of(100); 1 / 0",
    "loss_of(100)",
)
AFTER = ("train(range(4, 8))", "print(describe('notebook', losses, net.parameters()))")


def main() -> None:
    cells = [nbformat.v4.new_code_cell(text) for text in BEFORE + AFTER]
    client = NotebookClient(
        nbformat.v4.new_notebook(cells=cells),
        timeout=240,
        kernel_name="python3",
        allow_error_names=["ZeroDivisionError"],
    )
    with client.setup_kernel():
        for number, cell in enumerate(cells):
            if number == len(BEFORE):
                print("cells have run, and left iterations in the middle", flush=True)
                while not TOLD.exists():
                    time.sleep(0.05)
            client.execute_cell(cell, number)
    print("".join(output.text for output in cells[-1].outputs if output.output_type == "stream"), flush=True)


if __name__ == "__main__":
    main()
