"""Small trainings of several kinds. Prints the losses and a hash of the parameters, exact to the bit."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), num_layers=2, enable_nested_tensor=False
        )
        self.head = nn.Linear(32, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.head(self.encoder(self.embed(inputs.view(-1, 8, 8))).mean(dim=1))
        return out


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(96, 10))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def batch(step: int, size: int = 128) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(size, 64, generator=generator), torch.randint(10, (size,), generator=generator)


def plain(model: nn.Module, steps: int, losses: list[float]) -> None:
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        inputs, targets = batch(step)
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


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


def evaluating(model: nn.Module, steps: int, losses: list[float]) -> None:
    for _ in range(2):
        plain(model, steps // 2, losses)
        model.eval()
        with torch.no_grad():
            for step in range(5):
                inputs, targets = batch(1000 + step)
                losses.append(cross_entropy(model(inputs), targets).item())
        model.train()


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
    model.load_state_dict(model.state_dict())


def compiled(model: nn.Module, steps: int, losses: list[float]) -> None:
    """Traced by PyTorch's compiler, in one graph; run by Python, because the machine may have no C compiler."""
    plain(torch.compile(model, backend="eager", fullgraph=True), steps, losses)


class Images(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """Transforms with a module in the worker, as torchvision does; says what the worker has of Laneway."""

    def __init__(self, facts: Path) -> None:
        self.facts = facts
        self.transform = nn.Sequential(nn.Linear(64, 64), nn.Tanh())

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = torch.randn(64, generator=torch.Generator().manual_seed(index))
        with torch.no_grad():
            image = self.transform(image)
        runtime = sys.modules.get("laneway.client.runtime")
        client = getattr(runtime, "_client", None)
        fact = {
            "started": bool(client and client.started),
            "threads": [thread.name for thread in threading.enumerate() if thread.name == "laneway"],
            "modes": torch._C._len_torch_dispatch_stack(),
            "hooked": runtime is not None,
        }
        (self.facts / f"worker-{os.getpid()}.json").write_text(json.dumps(fact))
        return image, torch.tensor(index % 10)


def loading(start: str) -> Callable[[nn.Module, int, list[float]], None]:
    def train(model: nn.Module, steps: int, losses: list[float]) -> None:
        optimizer = torch.optim.Adam(model.parameters())
        loader = torch.utils.data.DataLoader(
            Images(Path()), batch_size=128, num_workers=2, multiprocessing_context=start
        )
        while len(losses) < steps:
            for inputs, targets in loader:
                optimizer.zero_grad()
                loss = cross_entropy(model(inputs), targets)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())

    return train


KINDS: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module, int, list[float]], None]]] = {
    "mlp": (mlp, plain),
    "cnn": (cnn, plain),
    "transformer": (Attention, plain),
    "accumulating": (mlp, accumulating),
    "evaluating": (mlp, evaluating),
    "closures": (mlp, closures),
    "adversarial": (mlp, adversarial),
    "compiled": (mlp, compiled),
    "loader-fork": (mlp, loading("fork")),
    "loader-spawn": (mlp, loading("spawn")),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="+", choices=sorted(KINDS))
    parser.add_argument("--steps", type=int, default=12)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for kind in arguments.kinds:
        torch.manual_seed(1)
        build, train = KINDS[kind]
        model = build()
        losses: list[float] = []
        train(model, arguments.steps, losses)
        digest = hashlib.sha256()
        for parameter in model.state_dict().values():
            digest.update(parameter.numpy().tobytes())
        result = {"kind": kind, "losses": [loss.hex() for loss in losses], "parameters": digest.hexdigest()}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
