"""What scripts may do with tensors that are saved for the backward pass; prints the exact results."""

from __future__ import annotations

import json
from collections.abc import Callable

import torch
from torch import Tensor, nn

SIZE = 256


def say(what: str, number: float | str) -> None:
    print(
        json.dumps({"what": what, "is": number if isinstance(number, str) else float(number).hex()}),
        flush=True,
    )


def in_steps(what: str, loss_of: Callable[[nn.Module, Tensor], Tensor]) -> None:
    """Trains some steps, so that everything is learned."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(SIZE, SIZE), nn.Tanh(), nn.Linear(SIZE, SIZE))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    total = 0.0
    for step in range(6):
        inputs = torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        loss_of(model, inputs)
        total += sum(float(parameter.grad.norm()) for parameter in model.parameters())
        optimizer.step()
    say(what, total)


def twice_backward(model: nn.Module, inputs: Tensor) -> None:
    loss = model(inputs).square().mean()
    loss.backward(retain_graph=True)
    loss.backward()


def second_derivative(model: nn.Module, inputs: Tensor) -> None:
    inputs.requires_grad_()
    (slope,) = torch.autograd.grad(model(inputs).square().mean(), inputs, create_graph=True)
    slope.square().sum().backward()


def own_hooks(model: nn.Module, inputs: Tensor) -> None:
    with torch.autograd.graph.save_on_cpu():
        loss = model(inputs).square().mean()
    loss.backward()


def transforms(model: nn.Module, inputs: Tensor) -> None:
    loss = model(inputs).square().mean()
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def again(weights: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(model, weights, (inputs,)).square().mean()

    slopes = torch.func.grad(again)(weights)
    (loss + sum(slope.sum() for slope in slopes.values())).backward()


def forgotten_branch(model: nn.Module, inputs: Tensor) -> None:
    """A tensor saved for a branch without backward pass is changed before it is saved again."""
    hidden = model(inputs)
    with torch.no_grad():
        changed = hidden.detach().clone()
    changed.requires_grad_(False)
    weight = next(iter(model.parameters()))
    unused = changed * weight
    changed.mul_(2)
    loss = (changed * weight).square().mean() + hidden.square().mean()
    loss.backward()
    del unused


def changed_in_place() -> None:
    """PyTorch rejects this backward pass, and says why."""
    weight = torch.ones(SIZE, SIZE, requires_grad=True)
    model = nn.Linear(SIZE, SIZE)
    kept = model(torch.ones(SIZE, SIZE)).detach().clone()
    loss = (weight * kept).sum()
    kept.add_(1)
    try:
        loss.backward()
        say("changed in place", "no error")
    except RuntimeError as error:
        say(
            "changed in place", "an error" if "modified by an inplace operation" in str(error) else str(error)
        )


def main() -> None:
    torch.set_num_threads(1)
    in_steps("two backward passes", twice_backward)
    in_steps("a second derivative", second_derivative)
    in_steps("hooks of its own", own_hooks)
    in_steps("function transforms", transforms)
    in_steps("a branch that is not followed", forgotten_branch)
    changed_in_place()


if __name__ == "__main__":
    main()
