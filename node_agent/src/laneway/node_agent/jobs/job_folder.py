"""A job's folder: it tells the agent that the job holds a share, and contains the socket to the agent.

In a cluster the device plugin writes these folders. Here the launcher does, under a lock shared by all
launchers of the machine. If a launcher ends without removing its folder, the next one removes it.
"""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from laneway.api.container_record import ContainerRecord, Launcher
from laneway.api.device_ids import container_key, shares_of
from laneway.api.inventory import Inventory
from laneway.api.names import RECORD_NAME, SOCKET_NAME
from laneway.api.records import explain
from laneway.node_agent.host_folders import HostFolders
from laneway.node_agent.jobs.errors import JobError
from laneway.node_agent.jobs.free_slots import choose_ids
from laneway.node_agent.processes import start_ticks
from pydantic import ValidationError

NAMESPACE = "local"
_SOCKET_SECONDS = 10.0
"""How long the agent may take to open the job's socket."""
_LOOK_SECONDS = 0.01
_LONGEST_SOCKET_BYTES = 107


@dataclass(frozen=True)
class ShareRequest:
    """A job's request."""

    name: str
    percent: int
    """Percent of one GPU."""
    gpu: str = ""
    """A uuid or index; empty: any GPU."""


@dataclass(frozen=True)
class Share:
    """The share that a job holds."""

    record: ContainerRecord
    folder: Path


@contextmanager
def share(folders: HostFolders, request: ShareRequest, launcher: Launcher) -> Iterator[Share]:
    """Hold a share until the block is left.

    Raises:
        JobError: no share is free, or no agent runs.
    """
    with _locked(folders):
        inventory = read_inventory(folders)
        records = _living_records(folders)
        held = {each for record in records for each in record.device_ids}
        if any((record.namespace, record.pod) == (NAMESPACE, request.name) for record in records):
            raise JobError(f"job {request.name} already exists: write another --name")
        ids = choose_ids(inventory.gpus, held, request.percent, request.gpu)
        record = ContainerRecord(
            key=container_key(ids),
            namespace=NAMESPACE,
            pod=request.name,
            container="job",
            device_ids=ids,
            shares=shares_of(ids),
            launcher=launcher,
        )
        folder = folders.containers / record.key
        _put(folder, record)
    try:
        _await_socket(folder)
        yield Share(record, folder)
    finally:
        _take_away(folder)


def read_inventory(folders: HostFolders) -> Inventory:
    """Read the machine's GPUs, as the agent wrote them.

    Raises:
        JobError: the file is missing or cannot be read.
    """
    try:
        return Inventory.model_validate_json(folders.inventory.read_bytes())
    except FileNotFoundError as error:
        raise JobError(f"{folders.inventory} does not exist: {_start_one(folders)}") from error
    except OSError as error:
        raise JobError(f"{folders.inventory}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise JobError(explain(error, str(folders.inventory))) from error


def _start_one(folders: HostFolders) -> str:
    return f"start the agent: laneway-node-agent --standalone --root {folders.root}"


@contextmanager
def _locked(folders: HostFolders) -> Iterator[None]:
    path = folders.containers.parent / "jobs.lock"
    try:
        with path.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except FileNotFoundError as error:
        raise JobError(f"{path.parent} does not exist: {_start_one(folders)}") from error
    except OSError as error:
        raise JobError(
            f"{error.filename}: {error.strerror}; only the agent's user or root can start jobs"
        ) from error


def _living_records(folders: HostFolders) -> list[ContainerRecord]:
    """Return the records that hold shares. Removes the folders of launchers that have ended."""
    living = []
    for path in sorted(folders.containers.glob(f"*/{RECORD_NAME}")):
        try:
            record = ContainerRecord.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            continue  # just removed, or invalid; the agent logs it
        who = record.launcher
        if who is not None and start_ticks(who.pid) != who.start_ticks:
            _take_away(path.parent)
        else:
            living.append(record)
    return living


def _put(folder: Path, record: ContainerRecord) -> None:
    """Create the folder completely or not at all."""
    if len(bytes(folder / SOCKET_NAME)) > _LONGEST_SOCKET_BYTES:
        raise JobError(f"{folder} is too long a path for a socket in it: take a shorter --root")
    new = folder.with_name(f".new-{record.key}")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    (new / RECORD_NAME).write_text(record.model_dump_json(), encoding="utf-8")
    new.rename(folder)


def _take_away(folder: Path) -> None:
    dead = folder.with_name(f".dead-{folder.name}-{time.monotonic_ns()}")
    try:
        folder.rename(dead)
    except FileNotFoundError:
        return
    shutil.rmtree(dead, ignore_errors=True)


def _await_socket(folder: Path) -> None:
    until = time.monotonic() + _SOCKET_SECONDS
    while not (folder / SOCKET_NAME).exists():
        if time.monotonic() > until:
            raise JobError(
                f"no agent has opened {folder / SOCKET_NAME} within {_SOCKET_SECONDS:g} s: is it running? its log says why"
            )
        time.sleep(_LOOK_SECONDS)
