"""Reaches places at which a training waits, prints which, and waits there until it is told to continue."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from laneway.client import iteration
from small_models import batch, mlp
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset


def wait(place: str) -> None:
    print(place, flush=True)
    while not Path(f"go-on-{place}").exists():
        time.sleep(0.01)


class Normalize(nn.Module):
    """A module without parameters, like torchvision's transforms; called with gradients enabled."""

    def forward(self, image: Tensor) -> Tensor:
        return (image - image.mean()) / image.std()


class Images(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, place: str) -> None:
        self.place = place
        self.transform = nn.Sequential(Normalize())

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, targets = batch(index, size=1)
        image = self.transform(inputs[0])
        if index == 20:  # in the third batch, with part of its items loaded
            wait(self.place)
        return image, targets[0]


def train_on(loader: DataLoader[tuple[Tensor, Tensor]]) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in loader:
        optimizer.zero_grad()
        cross_entropy(model(inputs), targets).backward()
        optimizer.step()


def data_of_this_process() -> None:
    train_on(DataLoader(Images("data-of-this-process"), batch_size=8))


def data_of_a_worker() -> None:
    train_on(DataLoader(Images("data-of-a-worker"), batch_size=8, num_workers=1, prefetch_factor=1))


def skipped_step() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    inputs, targets = batch(0)
    scaler.scale(cross_entropy(model(inputs), targets) * torch.inf).backward()
    scaler.step(optimizer)
    scaler.update()
    wait("skipped-step")


def evaluation() -> None:
    model = mlp().eval()
    with torch.no_grad():
        for step in range(4):
            model(batch(step)[0])
            if step == 2:
                wait("evaluation")


def generation() -> None:
    embed, head = nn.Embedding(10, 64), mlp().eval()
    with torch.inference_mode():
        token = torch.tensor([1])
        for step in range(4):
            token = head(embed(token)).argmax(dim=1)
            if step == 2:
                wait("generation")


def steps_in_a_row() -> None:
    model = mlp()
    optimizers = [torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()]
    for step in range(3):
        inputs, targets = batch(step)
        cross_entropy(model(inputs), targets).backward()
        for optimizer in optimizers:
            optimizer.step()
        if step == 1:
            wait("steps-in-a-row")


def steps_in_the_backward_pass() -> None:
    model = mlp()
    for parameter in model.parameters():
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        parameter.register_post_accumulate_grad_hook(lambda _, step=optimizer.step: step())
    for step in range(3):
        inputs, targets = batch(step)
        cross_entropy(model(inputs), targets).backward()
        if step == 1:
            wait("steps-in-the-backward-pass")


def block() -> None:
    model = mlp()
    for step in range(3):
        with iteration():
            inputs, targets = batch(step)
            cross_entropy(model(inputs), targets).backward()
        if step == 1:
            wait("block")


PLACES: list[Callable[[], None]] = [
    data_of_this_process,
    data_of_a_worker,
    skipped_step,
    evaluation,
    generation,
    steps_in_a_row,
    steps_in_the_backward_pass,
    block,
]

if __name__ == "__main__":
    torch.set_num_threads(1)
    for go_there in PLACES:
        go_there()
