"""A job's folder: what says to the agent that the job holds a share, and its door to the agent.

In a cluster the device plugin writes these folders. Here the launcher does, under a lock that all launchers of the machine take; a
folder whose launcher has ended without taking it away is taken away by the next one.
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
from laneway.node_agent.recovery.processes import start_ticks
from pydantic import ValidationError

NAMESPACE = "local"
DOOR_SECONDS = 10.0
"""How long the agent may take to open the job's door."""
_LOOK_SECONDS = 0.01
_LONGEST_SOCKET_BYTES = 107


@dataclass(frozen=True)
class Wish:
    """What a job asks for."""

    name: str
    percent: int
    """Of one GPU."""
    gpu: str = ""
    """Its uuid or index; empty: any."""


@dataclass(frozen=True)
class Share:
    """What a job holds."""

    record: ContainerRecord
    folder: Path


@contextmanager
def share(folders: HostFolders, wish: Wish, launcher: Launcher) -> Iterator[Share]:
    """Hold a share until the block is left.

    Raises:
        JobError: there is none to be had, or no agent that knows of it.
    """
    with _locked(folders):
        inventory = read_inventory(folders)
        records = _living_records(folders)
        held = {each for record in records for each in record.device_ids}
        if any((record.namespace, record.pod) == (NAMESPACE, wish.name) for record in records):
            raise JobError(f"there is a job {wish.name} already: write another --name")
        ids = choose_ids(inventory.gpus, held, wish.percent, wish.gpu)
        record = ContainerRecord(
            key=container_key(ids),
            namespace=NAMESPACE,
            pod=wish.name,
            container="job",
            device_ids=ids,
            shares=shares_of(ids),
            launcher=launcher,
        )
        folder = folders.containers / record.key
        _put(folder, record)
    try:
        _await_door(folder)
        yield Share(record, folder)
    finally:
        _take_away(folder)


def read_inventory(folders: HostFolders) -> Inventory:
    """Return the machine's GPUs, as the agent wrote them.

    Raises:
        JobError: the agent has not, or not so that it can be read.
    """
    try:
        return Inventory.model_validate_json(folders.inventory.read_bytes())
    except FileNotFoundError as error:
        raise JobError(f"{folders.inventory} is not there: {_start_one(folders)}") from error
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
        raise JobError(f"{path.parent} is not there: {_start_one(folders)}") from error
    except OSError as error:
        raise JobError(
            f"{error.filename}: {error.strerror}; jobs are started by the user whose agent this is, or by root"
        ) from error


def _living_records(folders: HostFolders) -> list[ContainerRecord]:
    """Return who holds shares; takes the folders of those away whose launcher has ended."""
    living = []
    for path in sorted(folders.containers.glob(f"*/{RECORD_NAME}")):
        try:
            record = ContainerRecord.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            continue  # just taken away, or the agent's to complain of
        who = record.launcher
        if who is not None and start_ticks(who.pid) != who.start_ticks:
            _take_away(path.parent)
        else:
            living.append(record)
    return living


def _put(folder: Path, record: ContainerRecord) -> None:
    """Make the folder whole or not at all."""
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


def _await_door(folder: Path) -> None:
    until = time.monotonic() + DOOR_SECONDS
    while not (folder / SOCKET_NAME).exists():
        if time.monotonic() > until:
            raise JobError(
                f"no agent has opened {folder / SOCKET_NAME} within {DOOR_SECONDS:g} s: is it running? its log says why"
            )
        time.sleep(_LOOK_SECONDS)
