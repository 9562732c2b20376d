"""Orders in a file: ``/run/laneway/orders.json``, edited at the node's shell, and the saved copy of the
cluster's orders.

A file names pods by namespace and name as well as by uid, because a node without an API server knows no uids.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Self

from laneway.api.gpu_node import MAX_ORDERS
from laneway.api.orders import PodOrder
from laneway.api.records import Record, explain
from laneway.node_agent.atomic_file import write_atomically
from pydantic import ConfigDict, Field, ValidationError, model_validator

_MAX_BYTES = 4 << 20


class FileOrder(PodOrder):
    """An order to one pod, by uid, by name, or both; with both, a later pod of the same name is not meant."""

    model_config = ConfigDict(extra="forbid")

    pod_uid: str = Field(default="", alias="podUID", max_length=64, pattern="^[0-9A-Za-z-]*$")
    namespace: str = Field(default="", max_length=63)
    pod: str = Field(default="", max_length=253)

    @model_validator(mode="after")
    def _names_a_pod(self) -> Self:
        if not self.pod_uid and not (self.namespace and self.pod):
            raise ValueError("which pod? write podUID, or namespace and pod")
        return self

    def concerns(self, pod_uid: str, namespace: str, pod: str) -> bool:
        """Return whether the order is for this pod; ``pod_uid`` is empty while the node does not know it."""
        if self.pod_uid and pod_uid:
            return self.pod_uid == pod_uid
        return bool(self.pod) and (self.namespace, self.pod) == (namespace, pod)


class FileOrders(Record):
    """The whole file."""

    version: Literal[1] = 1
    orders: tuple[FileOrder, ...] = Field(default=(), max_length=MAX_ORDERS)


class BadOrdersError(Exception):
    """The file cannot be used; the text names the file and the field."""


class UnreadableOrdersError(BadOrdersError):
    """The orders could not be read, which says nothing about their content."""


def read_orders(path: Path) -> tuple[FileOrder, ...]:
    """Read the orders of a file; none if there is no file.

    Raises:
        UnreadableOrdersError: it cannot be read.
        BadOrdersError: something in it is wrong.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise UnreadableOrdersError(f"{path}: cannot be read: {error.strerror}") from error
    if len(text) > _MAX_BYTES:
        raise BadOrdersError(f"{path}: is longer than {_MAX_BYTES} bytes")
    try:
        return FileOrders.model_validate_json(text).orders
    except ValidationError as error:
        raise BadOrdersError(explain(error, str(path))) from error


def write_orders(path: Path, orders: Iterable[FileOrder]) -> None:
    """Replace the file.

    Raises:
        OSError: the folder cannot be written to.
    """
    text = FileOrders(orders=tuple(orders)).model_dump_json(indent=1, by_alias=True, exclude_defaults=True)
    write_atomically(path, text + "\n")


@contextmanager
def edited(path: Path) -> Iterator[list[FileOrder]]:
    """Yield the file's orders for editing in place, and write them back. A lock serialises edits.

    Raises:
        BadOrdersError: the file cannot be used.
        OSError: the folder cannot be written to.
    """
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        orders = list(read_orders(path))
        yield orders
        write_orders(path, orders)
    finally:
        os.close(descriptor)
