"""Trainings that differ in how, and how often, their optimizers step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from small_models import batch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy


def accumulating(model: nn.Module, steps: int, losses: list[float]) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        for part in range(4):
            inputs, targets = batch(4 * step + part)
            loss = cross_entropy(model(inputs), targets) / 4
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()


def closures(model: nn.Module, steps: int, losses: list[float]) -> None:
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    for step in range(steps):
        inputs, targets = batch(step)

        def closure(inputs: Tensor = inputs, targets: Tensor = targets) -> Tensor:
            optimizer.zero_grad()
            loss = cross_entropy(model(inputs), targets)
            loss.backward()
            return loss

        losses.append(float(optimizer.step(closure)))


def adversarial(model: nn.Module, steps: int, losses: list[float]) -> None:
    """Two networks, two optimizers, and a step of each in every round of the loop."""
    generator = nn.Sequential(nn.Linear(16, 64), nn.Tanh())
    critic = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
    generator_optimizer = torch.optim.Adam(generator.parameters())
    critic_optimizer = torch.optim.Adam(critic.parameters())
    for step in range(steps):
        real, _ = batch(step)
        noise = torch.randn(len(real), 16)
        critic_optimizer.zero_grad()
        real_loss = binary_cross_entropy_with_logits(critic(real), torch.ones(len(real), 1))
        fake_loss = binary_cross_entropy_with_logits(
            critic(generator(noise).detach()), torch.zeros(len(real), 1)
        )
        (real_loss + fake_loss).backward()
        critic_optimizer.step()
        generator_optimizer.zero_grad()
        loss = binary_cross_entropy_with_logits(critic(generator(noise)), torch.ones(len(real), 1))
        loss.backward()
        generator_optimizer.step()
        losses += [real_loss.item(), fake_loss.item(), loss.item()]
    losses += [p.sum().item() for p in (*generator.parameters(), *critic.parameters())]


def scaled(model: nn.Module, steps: int, losses: list[float]) -> None:
    """Mixed precision: every fourth gradient is infinite, and the scaler skips the step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(steps):
        inputs, targets = batch(step)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = cross_entropy(model(inputs), targets)
        scaler.scale(loss).backward()
        if step % 4 == 1:
            first = next(model.parameters())
            assert first.grad is not None
            first.grad[0] = torch.inf
        scaler.step(optimizer)
        scaler.update()
        losses += [loss.item(), scaler.get_scale()]


def in_a_row(model: nn.Module, steps: int, losses: list[float]) -> None:
    """One optimizer for the matrices and one for the rest, stepped in a row."""
    parameters = list(model.parameters())
    optimizers = [
        torch.optim.SGD([each for each in parameters if each.dim() > 1], lr=0.1, momentum=0.9),
        torch.optim.AdamW([each for each in parameters if each.dim() == 1]),
    ]
    for step in range(steps):
        inputs, targets = batch(step)
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())


class Lookahead(torch.optim.Optimizer):
    """Steps the optimizer that it wraps, and every third time goes halfway back."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, {})
        self.inner = inner
        self.times = 0
        self.slow = [[p.detach().clone() for p in group["params"]] for group in inner.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        self.inner.step()
        self.times += 1
        if self.times % 3 == 0:
            for group, slow in zip(self.param_groups, self.slow, strict=True):
                for fast, mean in zip(group["params"], slow, strict=True):
                    mean.lerp_(fast, 0.5)
                    fast.copy_(mean)


def wrapped(model: nn.Module, steps: int, losses: list[float]) -> None:
    optimizer = Lookahead(torch.optim.Adam(model.parameters()))
    for step in range(steps):
        inputs, targets = batch(step)
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


def in_backward(model: nn.Module, steps: int, losses: list[float]) -> None:
    """An optimizer for each parameter, stepped as soon as its gradient is there."""
    optimizers = {p: torch.optim.Adam([p]) for p in model.parameters()}

    def update(parameter: Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    for step in range(steps):
        inputs, targets = batch(step)
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        losses.append(loss.item())


def without_modules(model: nn.Module, steps: int, losses: list[float]) -> None:
    """Tensors and functions: only the optimizer's step is visible."""
    weights = torch.randn(64, 10, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.01)
    for step in range(steps):
        inputs, targets = batch(step)
        optimizer.zero_grad()
        loss = cross_entropy(inputs @ weights, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    losses.append(weights.sum().item())
