"""The folders under `/run/laneway/containers`: one per container that holds ids, with its socket to the
agent."""

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
from laneway.api.quotas_file import quotas_text
from pydantic import ValidationError

_log = logging.getLogger(__name__)

_KEY = re.compile(r"[0-9a-f]{16}")
_DELETED_PREFIX = ".dead-"


def _delete(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        _log.warning("cannot remove unused folder completely folder=%s", folder)


def delete_in_background(folder: Path) -> None:
    """Delete a folder on its own thread: a container may have put any number of files into it."""
    threading.Thread(target=_delete, args=(folder,), name="delete", daemon=True).start()


class ContainerFolders:
    """Creates, fills and removes the folders. A file appears completely or not at all."""

    def __init__(
        self,
        root: Path,
        wall_clock: Callable[[], float] = time.time,
        delete: Callable[[Path], None] = delete_in_background,
    ) -> None:
        """``delete`` gets an unused folder and must return quickly."""
        self._root = root
        self._wall_clock = wall_clock
        self._delete = delete
        self._generations: dict[str, int] = {}
        self._last_generation = 0
        self._interposers: dict[str, bool] = {}

    def path(self, key: str) -> Path:
        """Return a container's folder, whether it exists or not."""
        return self._root / key

    def socket(self, key: str) -> Path:
        """Return where the agent listens for a container."""
        return self.path(key) / names.SOCKET_NAME

    def create(self, ids: Collection[str], *, interposer: bool) -> str:
        """Create a folder for a new container with these ids. Return its key.

        Earlier holders of any of these ids have ended. Their folders are removed at once, or the agent would
        briefly count the ids twice.

        Args:
            ids: the container's ids.
            interposer: whether it is allocated with the memory interposer's preload file.
        """
        for former in self.keys():
            record = self.record(former)
            if record is not None and not set(ids).isdisjoint(record.device_ids):
                self.remove(former)
        key = container_key(ids)
        self.remove(key)
        self.ensure(key)
        self._last_generation += 1
        self._generations[key] = self._last_generation
        self._interposers[key] = interposer
        return key

    def interposer(self, key: str) -> bool | None:
        """Return whether a container was allocated with the memory interposer's preload file; None if unknown.

        The kubelet allocates once and mounts the same for each start, so a record keeps what an earlier process
        knew.
        """
        record = None if key in self._interposers else self.record(key)
        return self._interposers.get(key) if record is None else record.interposer

    def generations(self) -> Mapping[str, int]:
        """Return the `generation` of each key created by this process."""
        return dict(self._generations)

    def generation(self, key: str) -> int:
        """Return the generation of a key: a number that identifies the container behind it.

        It is 0 for folders from before this process. If a key goes to another container, its folder is
        created again.
        """
        return self._generations.get(key, 0)

    def ensure(self, key: str) -> None:
        """Create the folder if it does not exist.

        A container may run as any user, so every user may enter the folder. The agent checks the peer's
        process to decide whether it may connect.
        """
        folder = self.path(key)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)

    def remove(self, key: str) -> None:
        """Remove a folder and its contents.

        It is renamed first, so its key is free at once, regardless of the files and permissions in it.
        """
        self._generations.pop(key, None)
        self._interposers.pop(key, None)
        dead = self._root / f"{_DELETED_PREFIX}{key}-{time.monotonic_ns()}"
        try:
            self.path(key).rename(dead)
        except FileNotFoundError:
            return
        self._delete(dead)

    def delete_leftovers(self) -> None:
        """Delete folders whose deletion an earlier process did not finish."""
        try:
            dead = [
                Path(entry.path) for entry in os.scandir(self._root) if entry.name.startswith(_DELETED_PREFIX)
            ]
        except FileNotFoundError:
            return
        for folder in dead:
            self._delete(folder)

    def keys(self) -> list[str]:
        """Return the keys of the existing folders."""
        try:
            return sorted(entry.name for entry in os.scandir(self._root) if _KEY.fullmatch(entry.name))
        except FileNotFoundError:
            return []

    def age_seconds(self, key: str) -> float:
        """Return how long ago the folder last changed; 0 if it does not exist."""
        try:
            return self._wall_clock() - self.path(key).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def record(self, key: str) -> ContainerRecord | None:
        """Return the container's record; None if there is no readable one."""
        file = self.path(key) / names.RECORD_NAME
        try:
            return ContainerRecord.model_validate(json.loads(file.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, ValidationError) as error:
            _log.warning("unreadable record will be rewritten path=%s error=%r", file, str(error))
            return None

    def held_ids(self) -> frozenset[str]:
        """Return the ids of all containers that have a record."""
        records = (self.record(key) for key in self.keys())
        return frozenset(one for record in records if record is not None for one in record.device_ids)

    def write(self, record: ContainerRecord) -> bool:
        """Write the container's record. Return whether it changed."""
        if self.record(record.key) == record:
            return False
        self._put(record.key, names.RECORD_NAME, record.model_dump_json().encode())
        return True

    def write_quotas(self, key: str, quotas: Mapping[str, int]) -> None:
        """Write the container's memory quotas, bytes by the GPU's uuid."""
        self._put(key, names.QUOTAS_NAME, quotas_text(quotas).encode())

    def write_image_path(self, key: str, value: str) -> bool:
        """Write the PYTHONPATH of the container's image; empty if it sets none. Return whether it changed.

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
