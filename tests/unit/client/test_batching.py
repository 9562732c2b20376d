"""`batch_size` as a script calls it: before the process group exists, several times, from several threads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from laneway.client import batch_size, runtime
from laneway.client.environment import chosen_batch
from laneway.client.goodput.learning_rate import SquareRoot, scale_steps

from tests.unit.client.conftest import Background

Hook = Callable[[Any, Any, Any], None]


@pytest.fixture(autouse=True)
def no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANEWAY_DIR", "LANEWAY_BATCH", "WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(runtime, "_client", None)


@pytest.mark.parametrize(
    ("text", "want"),
    [("512", 512), ("", None), ("0", None), ("-8", None), ("8.5", None), ("many", None), ("9" * 5000, None)],
)
def test_an_invalid_choice_is_ignored(text: str, want: int | None) -> None:
    assert chosen_batch({"LANEWAY_BATCH": text}) == want


def test_a_script_that_lets_its_batch_grow_takes_the_operators_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LANEWAY_BATCH", "384")
    batch = batch_size(128, max_total=1024, max_local=64)
    assert (batch.local, batch.accumulate, batch.total) == (64, 3, 384)
    assert batch_size(128).total == 128, "a script that keeps its batch"


@pytest.mark.parametrize(
    ("world_size", "local"), [("4", 64), ("1", 256), ("", 256), ("0", 256), ("all", 256)]
)
def test_before_the_process_group_the_environment_counts(
    monkeypatch: pytest.MonkeyPatch, world_size: str, local: int
) -> None:
    monkeypatch.setenv("WORLD_SIZE", world_size)
    assert batch_size(256).local == local


def test_the_process_group_counts_more_than_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, get_world_size=lambda: 2, get_rank=lambda: 1
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", joined)
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert batch_size(256).local == 128


def test_a_pass_without_a_limit_holds_the_initial_batch() -> None:
    batch_size(256, max_total=2048)
    fields = runtime.client().guard.progress.batch.fields()
    assert (fields["max_batch"], fields["max_local_batch"]) == (2048, 256)


def test_calls_in_several_threads_report_one_of_their_batches() -> None:
    sizes = range(64, 96)
    threads = [Background(lambda size=size: batch_size(size, max_total=4 * size)) for size in sizes]  # type: ignore[misc]
    for thread in threads:
        thread.result()
    fields = runtime.client().guard.progress.batch.fields()
    assert fields["local_batch"] in sizes
    assert fields["max_batch"] == 4 * fields["local_batch"]


class Optimizer:
    """Has PyTorch's hooks."""

    def __init__(self) -> None:
        self.param_groups = [{"lr": 1.0, "params": []}]
        self.before: list[Hook] = []
        self.after: list[Hook] = []
        self.rates: list[float] = []

    def register_step_pre_hook(self, hook: Hook) -> None:
        self.before.append(hook)

    def register_step_post_hook(self, hook: Hook) -> None:
        self.after.append(hook)

    def step(self) -> None:
        for hook in self.before:
            hook(self, (), {})
        self.rates.append(self.param_groups[0]["lr"])  # type: ignore[arg-type]
        for hook in self.after:
            hook(self, (), {})


def test_the_last_rule_of_an_optimizer_counts_alone() -> None:
    optimizer = Optimizer()
    for total in (4, 4, 9):
        scale_steps(optimizer, SquareRoot(SimpleNamespace(total=total, initial=1)))  # type: ignore[arg-type]
        optimizer.step()
    assert optimizer.rates == [2.0, 2.0, 3.0]
    assert optimizer.param_groups[0]["lr"] == 1.0
