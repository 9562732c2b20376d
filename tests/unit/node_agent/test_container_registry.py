"""Containers' folders, followed with inotify and without."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from laneway.api.container_record import ContainerRecord
from laneway.api.device_ids import container_key
from laneway.node_agent.clock import SystemClock
from laneway.node_agent.containers import registry as registry_module
from laneway.node_agent.containers.registry import ContainerRegistry
from laneway.node_agent.event_loop import EventLoop


class Listener:
    """Records the events, and ends the loop after enough of them."""

    def __init__(self, loop: EventLoop) -> None:
        self.events: list[str] = []
        self.enough = ""
        self._loop = loop

    def container_added(self, record: ContainerRecord, folder: Path) -> None:
        self._note(f"{record.pod} came")

    def container_updated(self, record: ContainerRecord) -> None:
        self._note(f"{record.pod} is of {record.job}")

    def container_is_connected(self, key: str) -> bool:
        return False

    def ensure_container_socket(self, record: ContainerRecord, folder: Path) -> None:
        """Not of interest here."""

    def container_removed(self, key: str) -> None:
        self._note("went")

    def _note(self, what: str) -> None:
        self.events.append(what)
        if what == self.enough:
            self._loop.stop()


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    loop = EventLoop(SystemClock())
    yield loop
    loop.close()


def write(root: Path, pod: str, job: str | None = None) -> Path:
    ids = (f"GPU-a::{len(pod)}",)
    record = ContainerRecord(
        key=container_key(ids),
        namespace="default",
        pod=pod,
        container="c",
        device_ids=ids,
        shares={"GPU-a": 1},
        job=job,
    )
    folder = root / record.key
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / ".container.json"
    temporary.write_text(record.model_dump_json())
    return temporary.rename(folder / "container.json")


def no_inotify() -> None:
    raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize("inotify", [True, False])
def test_containers_are_added_updated_and_removed(
    tmp_path: Path, loop: EventLoop, monkeypatch: pytest.MonkeyPatch, inotify: bool
) -> None:
    if not inotify:
        monkeypatch.setattr(registry_module, "Inotify", no_inotify)
    listener = Listener(loop)
    steps = [
        ("a came", lambda: write(tmp_path, "a")),
        ("a is of digits", lambda: write(tmp_path, "a", "digits")),
        ("went", lambda: write(tmp_path, "a").unlink()),
    ]
    registry = ContainerRegistry(tmp_path, {"GPU-a"}, listener, loop, SystemClock())
    began = SystemClock().monotonic()
    for wanted, do in steps:
        listener.enough = wanted
        do()
        while wanted not in listener.events:
            loop.run_once()
            assert SystemClock().monotonic() < began + 60
    registry.close()


def test_existing_containers_are_reported_at_once(tmp_path: Path, loop: EventLoop) -> None:
    write(tmp_path, "a")
    write(tmp_path, "bb")
    (tmp_path / "not-a-key").mkdir()
    listener = Listener(loop)
    ContainerRegistry(tmp_path, {"GPU-a"}, listener, loop, SystemClock()).close()
    assert sorted(listener.events) == ["a came", "bb came"]


def test_a_record_that_cannot_be_read_for_a_moment_is_read_again(
    tmp_path: Path, loop: EventLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise its container would have no socket, and its memory would not count, until it ends."""
    listener = Listener(loop)
    path = write(tmp_path, "a")
    really_open = os.open

    def fail(opened: Path, *arguments: int, **keywords: int) -> int:
        if opened == path:
            raise OSError(errno.EMFILE, "Too many open files")
        return really_open(opened, *arguments, **keywords)

    monkeypatch.setattr(os, "open", fail)
    registry = ContainerRegistry(tmp_path, ["GPU-a"], listener, loop, SystemClock())
    assert listener.events == []
    assert "cannot be read: Too many open files" in caplog.text
    monkeypatch.setattr(os, "open", really_open)
    registry.look_at_all()
    assert listener.events == ["a came"]
    registry.close()
