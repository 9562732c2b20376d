"""The protocol of faults between the operator and the API server; this one passes everything on.

The proxy calls its fault at four points: before a request is passed on, after it is answered, after the
answer is sent, and for the lines of a watch. Each decision of a seeded fault depends on the seed, the request
and its repetition, not on the order of unrelated requests. So a seed means the same in every run.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from laneway.operator.state.resources import EVENTS, LEASES

_WRITES = {"POST", "PUT", "PATCH", "DELETE"}


class Cut(Exception):  # noqa: N818 - it names what happens to the connection
    """Break the connection to the operator now."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the operator."""

    writer: str
    """The replica, and which of its processes."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def writes(self) -> bool:
        """Whether it is a write."""
        return self.method in _WRITES

    @property
    def watches(self) -> bool:
        """Whether it is a watch."""
        return self.query.get("watch", "") in ("true", "1")

    @property
    def of_lease(self) -> bool:
        """Whether it is about the lease."""
        return f"/{LEASES.plural}" in self.path

    @property
    def of_consequence(self) -> bool:
        """Whether it is a relevant write: not of a lease, not of an event, and not a dry run."""
        asks = "dryRun" in self.query
        return self.writes and not self.of_lease and not asks and f"/{EVENTS.plural}" not in self.path

    @property
    def collection(self) -> str:
        """``pods``, ``trainingjobs``, … for a list or a watch; else the last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer from the API server, or in its place."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def version(self) -> int | None:
        """The resource version of its object; None if there is none."""
        try:
            return int(json.loads(self.body)["metadata"]["resourceVersion"])
        except (ValueError, KeyError, TypeError):
            return None


def refusal(code: int, reason: str, message: str, **headers: str) -> Answer:
    """Return a refusal in the API server's own form."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return Answer(code, json.dumps(status).encode(), headers=headers)


class Fault:
    """Nothing goes wrong."""

    fired = False
    """Whether it has done any harm."""

    async def before(self, request: Request) -> Request | Answer:
        """Return the request to pass on, or the answer in the API server's place.

        Raises:
            Cut
        """
        return request

    async def after(self, request: Request, answer: Answer) -> Answer:
        """Return the answer to send.

        Raises:
            Cut
        """
        return answer

    async def sent(self, request: Request) -> None:
        """Note that the operator has its answer."""

    async def events(self, request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the lines of a watch as the operator will see them."""
        async for line in lines:
            yield line


class Dice:
    """Random decisions that depend on a seed, the request and its repetition."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._asked: dict[str, int] = {}

    def roll(self, *what: object) -> random.Random:
        """Return the random decisions for this repetition."""
        key = "/".join(map(str, what))
        self._asked[key] = self._asked.get(key, 0) + 1
        return random.Random(f"{self._seed}/{key}/{self._asked[key]}")
