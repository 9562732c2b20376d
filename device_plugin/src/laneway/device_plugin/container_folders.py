"""The folders under `/run/laneway/containers`: one a container that holds ids, its door to the agent."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from laneway.api import names
from laneway.api.container_record import ContainerRecord
from laneway.api.device_ids import container_key
from pydantic import ValidationError

_log = logging.getLogger(__name__)

_KEY = re.compile(r"[0-9a-f]{16}")
_DEAD = ".dead-"


def _delete(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        _log.warning("%s cannot be removed whole; nothing uses it any more", folder)


def delete_aside(folder: Path) -> None:
    """Delete a folder in a thread of its own: a container may have put any number of files into it."""
    threading.Thread(target=_delete, args=(folder,), name="delete", daemon=True).start()


class ContainerFolders:
    """Makes, fills and removes the folders. A file appears whole or not at all."""

    def __init__(
        self,
        root: Path,
        wall_clock: Callable[[], float] = time.time,
        delete: Callable[[Path], None] = delete_aside,
    ) -> None:
        """``delete`` gets a folder that nothing uses any more, and must not keep the caller waiting."""
        self._root = root
        self._wall_clock = wall_clock
        self._delete = delete
        self._lives: dict[str, int] = {}
        self._births = 0

    def path(self, key: str) -> Path:
        """Return a container's folder, whether it is there or not."""
        return self._root / key

    def socket(self, key: str) -> Path:
        """Return where the agent listens for a container."""
        return self.path(key) / names.SOCKET_NAME

    def make_fresh(self, ids: Collection[str]) -> str:
        """Make a folder for a new container with these ids; return its key.

        Whoever held any of them before is dead, and its folder goes away at once: else the agent would for a moment count
        them twice.
        """
        for former in self.keys():
            record = self.record(former)
            if record is not None and not set(ids).isdisjoint(record.device_ids):
                self.remove(former)
        key = container_key(ids)
        self.remove(key)
        self.ensure(key)
        self._births += 1
        self._lives[key] = self._births
        return key

    def lives(self) -> Mapping[str, int]:
        """Return the `life` of each key that was made fresh."""
        return dict(self._lives)

    def life(self, key: str) -> int:
        """Return which container a key stands for, as a number that no other one ever gets.

        It is 0 for those that were there before this process: a key that goes to another container is made fresh.
        """
        return self._lives.get(key, 0)

    def ensure(self, key: str) -> None:
        """Make the folder if it is not there.

        A container's user may be any, so the folder can be entered by everybody; who may talk to the agent
        is decided by the agent from the peer's process.
        """
        folder = self.path(key)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)

    def remove(self, key: str) -> None:
        """Remove a folder and all in it.

        It is renamed first: whatever a container did in there to files and permissions, and however long it takes to
        delete them, its key is free at once.
        """
        self._lives.pop(key, None)
        dead = self._root / f"{_DEAD}{key}-{time.monotonic_ns()}"
        try:
            self.path(key).rename(dead)
        except FileNotFoundError:
            return
        self._delete(dead)

    def sweep(self) -> None:
        """Delete what an earlier process was killed at deleting."""
        try:
            dead = [Path(entry.path) for entry in os.scandir(self._root) if entry.name.startswith(_DEAD)]
        except FileNotFoundError:
            return
        for folder in dead:
            self._delete(folder)

    def keys(self) -> list[str]:
        """Return the keys of the folders that are there."""
        try:
            return sorted(entry.name for entry in os.scandir(self._root) if _KEY.fullmatch(entry.name))
        except FileNotFoundError:
            return []

    def age_seconds(self, key: str) -> float:
        """Return how long ago something in the folder last changed; 0 when it is not there."""
        try:
            return self._wall_clock() - self.path(key).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def record(self, key: str) -> ContainerRecord | None:
        """Return what is written about the container, None when nothing readable is."""
        file = self.path(key) / names.RECORD_NAME
        try:
            return ContainerRecord.model_validate(json.loads(file.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, ValidationError) as error:
            _log.warning("%s is not readable and will be written anew: %s", file, error)
            return None

    def write(self, record: ContainerRecord) -> bool:
        """Write down who the container is; return whether that changed anything."""
        if self.record(record.key) == record:
            return False
        self._put(record.key, names.RECORD_NAME, record.model_dump_json().encode())
        return True

    def write_image_path(self, key: str, value: str) -> bool:
        """Write down the PYTHONPATH of the container's image, empty where it sets none; return whether that changed anything.

        Raises:
            OSError, UnicodeEncodeError: it cannot be written.
        """
        file = self.path(key) / names.IMAGE_PATH_NAME
        content = value.encode()
        if (file.read_bytes() if file.exists() else b"") == content:
            return False
        if content:
            self._put(key, names.IMAGE_PATH_NAME, content)
        else:
            file.unlink()
        return True

    def _put(self, key: str, name: str, content: bytes) -> None:
        self.ensure(key)
        file = self.path(key) / name
        scratch = file.with_name(f".{name}.new")
        scratch.write_bytes(content)
        scratch.chmod(0o644)
        scratch.replace(file)
