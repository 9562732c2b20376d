"""Small trainings of several kinds. Prints the exact losses and a hash of the state."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import kinds_of_steps
import torch
from small_models import Attention, batch, cnn, mlp
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

try:
    from laneway.client import iteration
except ImportError:

    def iteration() -> AbstractContextManager[None]:
        return nullcontext()


def plain(model: nn.Module, steps: int, losses: list[float]) -> None:
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        inputs, targets = batch(step)
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


def evaluating(model: nn.Module, steps: int, losses: list[float]) -> None:
    for _ in range(2):
        plain(model, steps // 2, losses)
        model.eval()
        with torch.no_grad():
            for step in range(5):
                inputs, targets = batch(1000 + step)
                losses.append(cross_entropy(model(inputs), targets).item())
        model.train()


def generating(model: nn.Module, steps: int, losses: list[float]) -> None:
    """Generates token after token, each from a forward of its own."""
    tokens, embed, cell, head = [1], nn.Embedding(10, 64), nn.GRUCell(64, 64), nn.Linear(64, 10)
    with torch.inference_mode():
        state = torch.zeros(1, 64)
        for _ in range(steps):
            state = cell(embed(torch.tensor(tokens[-1:])), state)
            tokens.append(int(torch.multinomial(head(state).softmax(dim=1), 1)))
        losses += [float(token) for token in tokens]


def marked(model: nn.Module, steps: int, losses: list[float]) -> None:
    """Iterations that the script marks itself: each has two optimizer steps, and evaluations lie between
    them."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        with iteration():
            for part in range(2):
                inputs, targets = batch(2 * step + part)
                optimizer.zero_grad()
                loss = cross_entropy(model(inputs), targets)
                loss.backward()
                optimizer.step()
        with torch.no_grad():
            losses.append(model(inputs).sum().item())


def compiled(model: nn.Module, steps: int, losses: list[float]) -> None:
    """Traced by PyTorch's compiler in one graph; run by Python, because the machine may have no C compiler."""
    plain(torch.compile(model, backend="eager", fullgraph=True), steps, losses)


def _rank(rank: int, steps: int) -> None:
    """One of two ranks; the other is its sibling."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{os.getcwd()}/ranks", rank=rank, world_size=2
    )
    torch.manual_seed(rank)
    random.seed(rank)  # a fork would seed it differently
    model = nn.parallel.DistributedDataParallel(mlp())
    losses: list[float] = []
    plain(model, steps, losses)
    texts = [loss.hex() for loss in losses]
    Path(f"rank-{rank}").write_text(json.dumps([texts, state_hash(model), iterations()]))
    torch.distributed.destroy_process_group()


def ranks(model: nn.Module, steps: int, losses: list[float]) -> None:
    """DistributedDataParallel in processes started by multiprocessing: they train, although they look like
    helpers at first."""
    torch.multiprocessing.start_processes(_rank, (steps,), nprocs=2, start_method="fork")
    for rank in range(2):
        texts, digest, counted = json.loads(Path(f"rank-{rank}").read_text())
        losses += [float.fromhex(loss) for loss in texts]
        losses += [float(int(digest[:8], 16))]
        forked_iterations.append(counted)


forked_iterations: list[int] = []


class Images(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """Transforms with a module in the worker, as torchvision does; prints what the worker has loaded of
    Laneway."""

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
            Images(Path()),
            batch_size=128,
            num_workers=2,
            multiprocessing_context=start,
            persistent_workers=start == "spawn",  # each of these imports PyTorch again
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
    "accumulating": (mlp, kinds_of_steps.accumulating),
    "evaluating": (mlp, evaluating),
    "generating": (mlp, generating),
    "closures": (mlp, kinds_of_steps.closures),
    "adversarial": (mlp, kinds_of_steps.adversarial),
    "scaled": (mlp, kinds_of_steps.scaled),
    "in-a-row": (mlp, kinds_of_steps.in_a_row),
    "wrapped": (mlp, kinds_of_steps.wrapped),
    "in-backward": (mlp, kinds_of_steps.in_backward),
    "without-modules": (mlp, kinds_of_steps.without_modules),
    "marked": (mlp, marked),
    "compiled": (mlp, compiled),
    "ranks": (mlp, ranks),
    "loader-fork": (mlp, loading("fork")),
    "loader-spawn": (mlp, loading("spawn")),
}


def iterations() -> int:
    """Returns how many iterations the client has counted in this process; 0 without the client."""
    client = getattr(sys.modules.get("laneway.client.runtime"), "_client", None)
    return int(client.guard.iterations) if client else 0


def state_hash(model: nn.Module) -> str:
    """Returns a hash of all of the training's state, including random numbers."""
    digest = hashlib.sha256()
    for value in model.state_dict().values():
        digest.update(value.numpy().tobytes())
    digest.update(torch.get_rng_state().numpy().tobytes())
    digest.update(repr(random.getstate()).encode())
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="+", choices=sorted(KINDS))
    parser.add_argument("--steps", type=int, default=12)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for kind in arguments.kinds:
        torch.manual_seed(1)
        random.seed(1)
        build, train = KINDS[kind]
        before = iterations()
        model = build()
        losses: list[float] = []
        train(model, arguments.steps, losses)
        counted = iterations() - before + sum(forked_iterations)
        forked_iterations.clear()
        print(f"{kind}: {counted} iterations", flush=True)
        result = {"kind": kind, "losses": [loss.hex() for loss in losses], "state": state_hash(model)}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
