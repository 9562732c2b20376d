"""Workers for DataLoaders whose script asks for none."""

from __future__ import annotations

import logging
import multiprocessing
import os
from types import SimpleNamespace
from typing import Any

import pytest
from laneway.client.pytorch import loader_workers
from laneway.client.pytorch.loader_workers import AUTO, LEAST_SHARED_BYTES, VARIABLE, give_workers

SHARE = {"LANEWAY_DIR": "/run/laneway"}


class _Iterable:
    pass


class _Machine:
    """PyTorch's module of loaders, in a container with shared memory and eight CPUs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Loader:
            def __init__(
                self,
                dataset: Any,
                batch_size: int = 1,
                shuffle: Any = None,
                sampler: Any = None,
                batch_sampler: Any = None,
                num_workers: int = 0,
            ) -> None:
                """The loader's own words."""
                self.workers = num_workers

        self.loader: Any = Loader
        self.shared_bytes = LEAST_SHARED_BYTES
        module = SimpleNamespace(DataLoader=Loader, IterableDataset=_Iterable)
        monkeypatch.setattr(loader_workers, "import_module", {"torch.utils.data": module}.__getitem__)
        monkeypatch.setattr(loader_workers, "cpu_limit", lambda: 8.0)
        monkeypatch.setattr(
            os, "statvfs", lambda folder: SimpleNamespace(f_blocks=self.shared_bytes // 4096, f_frsize=4096)
        )
        monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["fork", "spawn"])


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> _Machine:
    return _Machine(monkeypatch)


@pytest.mark.parametrize(
    ("variables", "workers"),
    [
        ({VARIABLE: "3"}, 3),
        ({VARIABLE: "0"}, 0),
        ({VARIABLE: AUTO}, 7),
        ({VARIABLE: AUTO, "PET_NPROC_PER_NODE": "4"}, 1),
        ({VARIABLE: AUTO, "LOCAL_WORLD_SIZE": "16"}, 0),
        ({}, 0),
    ],
)
def test_a_loader_at_its_default_gets_workers(
    machine: _Machine, variables: dict[str, str], workers: int
) -> None:
    give_workers({**SHARE, **variables})
    assert machine.loader([1]).workers == workers
    assert machine.loader([1], batch_size=2).workers == workers


def test_what_the_script_writes_stays_and_data_that_every_worker_would_read_gets_none(
    machine: _Machine,
) -> None:
    give_workers({**SHARE, VARIABLE: "3"})
    assert machine.loader([1], num_workers=0).workers == 0
    assert machine.loader([1], 1, None, None, None, 1).workers == 1
    assert machine.loader(_Iterable()).workers == 0
    assert machine.loader.__init__.__doc__ == "The loader's own words."


def test_outside_a_container_with_a_share_nothing_changes(machine: _Machine) -> None:
    give_workers({VARIABLE: "3"})
    assert machine.loader([1]).workers == 0


def test_what_would_fail_is_left_out_with_a_warning(
    machine: _Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def warned(**variables: str) -> str:
        caplog.clear()
        with caplog.at_level(logging.WARNING, "laneway.client"):
            give_workers({**SHARE, VARIABLE: "3", **variables})
        assert machine.loader([1]).workers == 0
        return caplog.text

    assert "write a number of workers, or auto" in warned(**{VARIABLE: "many"})
    machine.shared_bytes = 64 << 20
    assert "has less than 256 MiB" in warned()
    machine.shared_bytes = LEAST_SHARED_BYTES
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["forkserver", "fork"])
    assert "not forked" in warned()
