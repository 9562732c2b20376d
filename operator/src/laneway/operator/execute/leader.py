"""The lease that decides which replica acts.

The holder renews the lease; another takes it over when the holder was silent for the lease's whole duration, measured on its
own clock from the moment at which it saw the last renewal (clocks of two machines are never compared). The holder counts its
own time from before the request that renewed, and stops writing at the renew deadline, which lies before the duration: there
is no moment at which two replicas may write. A process that was stopped in between (SIGSTOP, a frozen VM) finds its time run
out when it goes on, because the monotonic clock went on too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from laneway.api.rfc3339 import format_time
from laneway.operator.state.resources import LEASES
from laneway.operator.watch.apiserver import ApiError, Raw, UnknownOutcome
from laneway.scheduling.config.operator_config import LeaseConfig

logger = logging.getLogger(__name__)

ReadLease = Callable[[], Awaitable[Raw]]
"""Returns the lease; raises ApiError with status 404 where there is none."""

PutLease = Callable[[Raw, bool], Awaitable[Raw]]
"""Creates (True) or replaces (False) the lease; raises ApiError with status 409 where another was faster."""


_DELETED = ""
"""In the place of the version of a lease that is not there any more."""

_TRIES_TO_RELEASE = 3
"""A renewal that was under way when the replica was told to end may land while it gives the lease back."""


@dataclass(frozen=True, slots=True)
class _Sighting:
    """A lease as it was seen."""

    holder: str
    version: str
    first_seen_seconds: float
    duration_seconds: float

    def silent(self, now_seconds: float) -> bool:
        """Whether its holder was not heard of for the whole duration."""
        return now_seconds - self.first_seen_seconds >= self.duration_seconds


class Leadership:
    """This replica's part in the election. All times are of one monotonic clock."""

    def __init__(
        self,
        config: LeaseConfig,
        namespace: str,
        identity: str,
        *,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        read: ReadLease,
        put: PutLease,
    ) -> None:
        self.identity = identity
        self._config = config
        self._namespace = namespace
        self._monotonic = monotonic
        self._wall = wall
        self._read = read
        self._put = put
        self._renewed_seconds: float | None = None
        self._seen: _Sighting | None = None
        self.term_version = 0
        """The resource version with which this replica became the leader: whatever was written before its term is older."""

        self.contacted = False
        """Whether the lease could be read or written at least once: the API server is reached."""

    def seconds_left(self) -> float:
        """Return how long this replica may still write; 0 where it may not."""
        if self._renewed_seconds is None:
            return 0.0
        return max(0.0, self._renewed_seconds + self._config.renew_deadline_seconds - self._monotonic())

    @property
    def leads(self) -> bool:
        """Whether this replica is the one that acts."""
        return self.seconds_left() > 0

    async def campaign(self, changed: Callable[[], None]) -> None:
        """Take the lease and keep it, for ever; ``changed`` is called when this replica becomes the leader or stops being it."""
        led = False
        while True:
            try:
                async with asyncio.timeout(self._config.renew_deadline_seconds):
                    await self.attempt()
            except (ApiError, UnknownOutcome, TimeoutError) as error:
                logger.warning(
                    "the lease could not be taken or renewed",
                    extra={"problem": str(error) or "no answer in time"},
                )
            if self.leads != led:
                led = self.leads
                logger.info(
                    "this replica leads" if led else "this replica does not lead",
                    extra={"identity": self.identity},
                )
                changed()
            # A leader wakes at the latest when its time runs out, so that the others hear of it.
            await asyncio.sleep(
                min(self._config.retry_seconds, self.seconds_left() or self._config.retry_seconds)
            )

    async def attempt(self) -> None:
        """Try once to take or renew the lease.

        Raises:
            ApiError, UnknownOutcome
        """
        before_seconds = self._monotonic()
        try:
            lease = await self._read()
        except ApiError as error:
            if error.status != 404:
                raise
            self.contacted = True
            if self._may_create(before_seconds):
                await self._try_put(self._renewed(None), before_seconds, new=True)
            else:
                self._renewed_seconds = None
            return
        self.contacted = True
        if self._may_take(lease, before_seconds):
            await self._try_put(self._renewed(lease), before_seconds, new=False)
        else:
            self._renewed_seconds = None

    async def release(self) -> None:
        """Give the lease back, so that another replica need not wait for its end."""
        if not self.leads:
            return
        self._renewed_seconds = None
        for tries_left in reversed(range(_TRIES_TO_RELEASE)):
            try:
                await self._give_back()
                return
            except (ApiError, UnknownOutcome) as error:
                if not tries_left:
                    extra = {"problem": str(error)}
                    logger.warning("the lease was not given back and has to run out", extra=extra)

    async def _give_back(self) -> None:
        lease = await self._read()
        if (lease.get("spec") or {}).get("holderIdentity") == self.identity:
            lease["spec"] = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            await self._put(lease, False)

    def _may_take(self, lease: Raw, now_seconds: float) -> bool:
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        version = lease["metadata"]["resourceVersion"]
        duration_seconds = float(spec.get("leaseDurationSeconds") or self._config.duration_seconds)
        if self._seen is None or (self._seen.holder, self._seen.version) != (holder, version):
            self._seen = _Sighting(holder, version, now_seconds, duration_seconds)
        return holder in ("", self.identity) or self._seen.silent(now_seconds)

    def _may_create(self, now_seconds: float) -> bool:
        """Whether a missing lease may be created. The holder of a deleted lease may still write until its time runs out."""
        seen = self._seen
        if seen is None or seen.holder in ("", self.identity):
            return True
        if seen.version != _DELETED:
            # The holder may have renewed it a moment before it was deleted.
            self._seen = seen = replace(seen, version=_DELETED, first_seen_seconds=now_seconds)
        return seen.silent(now_seconds)

    def _renewed(self, lease: Raw | None) -> Raw:
        now = format_time(self._wall())
        old: dict[str, Any] = (lease or {}).get("spec") or {}
        changes_hands = old.get("holderIdentity") != self.identity
        metadata: dict[str, Any] = {"name": self._config.name, "namespace": self._namespace}
        if lease is not None:
            metadata["resourceVersion"] = lease["metadata"]["resourceVersion"]
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": self._config.duration_seconds,
                "acquireTime": now if changes_hands else old.get("acquireTime", now),
                "renewTime": now,
                "leaseTransitions": int(old.get("leaseTransitions") or 0)
                + (changes_hands and lease is not None),
            },
        }

    async def _try_put(self, lease: Raw, before_seconds: float, *, new: bool) -> None:
        try:
            answer = await self._put(lease, new)
        except ApiError as error:
            if error.status != 409:
                raise
            self._renewed_seconds = None  # another replica wrote it in between
            return
        if not self.leads:
            self.term_version = int(answer["metadata"]["resourceVersion"])
        self._renewed_seconds = before_seconds
