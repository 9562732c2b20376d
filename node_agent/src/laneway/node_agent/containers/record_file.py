"""Reads a container's ``container.json``, with checks beyond its schema."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path

from laneway.api.container_record import ContainerRecord
from laneway.api.device_ids import container_key, shares_of
from laneway.api.records import explain
from pydantic import ValidationError

_MAX_BYTES = 1 << 20


class BadRecordError(Exception):
    """A record is wrong; the text names the file and the field."""


class UnreadableRecordError(BadRecordError):
    """A record could not be read, which says nothing about its content."""


def read_record(path: Path, gpus: Collection[str]) -> ContainerRecord:
    """Read the record in a container's folder.

    Args:
        path: the file.
        gpus: the uuids of the node's GPUs.

    Raises:
        FileNotFoundError: it does not exist (yet).
        UnreadableRecordError: it cannot be read.
        BadRecordError: something in it is wrong.
    """
    try:
        # Follow no link to a file of the host, and block on no pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BadRecordError(f"{path}: not a regular file")
            text = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableRecordError(f"{path}: cannot be read: {error.strerror}") from error
    if len(text) > _MAX_BYTES:
        raise BadRecordError(f"{path}: is longer than {_MAX_BYTES} bytes")
    try:
        record = ContainerRecord.model_validate_json(text)
    except ValidationError as error:
        raise BadRecordError(explain(error, str(path))) from error
    problem = _problem(record, path.parent.name, gpus)
    if problem:
        raise BadRecordError(f"{path}: {problem}")
    return record


def _problem(record: ContainerRecord, folder: str, gpus: Collection[str]) -> str:
    if record.key != folder:
        return f"key: {record.key!r} is not the name of the folder, {folder!r}"
    try:
        counted = shares_of(record.device_ids)
    except ValueError as error:
        return f"device_ids: {error}"
    if counted != record.shares:
        return f"shares: {record.shares} is not what the device ids add up to, {counted}"
    unknown = sorted(set(record.shares) - set(gpus))
    if unknown:
        return f"shares: this node has no GPU {', '.join(unknown)}; it has {', '.join(sorted(gpus))}"
    if container_key(record.device_ids) != record.key:
        return f"device_ids: {record.key} is not the hash of these ids"
    return ""


def is_same_container(first: ContainerRecord, second: ContainerRecord) -> bool:
    """Return whether two records with one key describe one container: ids pass to the next container."""
    names = (first.namespace, first.pod, first.container) == (second.namespace, second.pod, second.container)
    uids = not first.pod_uid or not second.pod_uid or first.pod_uid == second.pod_uid
    return names and uids
