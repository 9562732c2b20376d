"""The newest known version of every watched object, from watch events, lists and the answers to our own writes.

These three arrive in any order, late or twice. The resource version decides which is newer (since Kubernetes 1.35 it is defined
to be comparable), so the cache never goes back in time: what a write returned stays until something newer is seen. That is how
an intent stays in the cluster's state until it is observed. The uid of a deleted object is remembered, so that a late event does
not bring it back.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from laneway.operator.pacing import END_COUNTS_SECONDS
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.heartbeats import Heartbeats
from laneway.operator.state.records.gpu_node_record import parse_gpu_node
from laneway.operator.state.records.job_record import JobRecord, parse_job
from laneway.operator.state.records.node_record import parse_node
from laneway.operator.state.records.priority_class import parse_priority_class
from laneway.operator.state.records.profile_record import parse_profile
from laneway.operator.state.records.worker_pod import parse_worker_pod
from laneway.operator.state.resources import (
    GPU_NODES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    TRAINING_JOBS,
    TRAINING_PROFILES,
    Resource,
)

logger = logging.getLogger(__name__)

Record = TypeVar("Record")

_REMEMBERED_DELETIONS = 50_000


@dataclass(frozen=True, slots=True)
class Entry(Generic[Record]):
    """One object."""

    uid: str
    version: int
    record: Record | None
    """None: it cannot be read; the log says why."""


class Store(Generic[Record]):
    """All objects of one kind."""

    def __init__(
        self,
        parse: Callable[[dict[str, Any], Record | None], Record],
        decisive: Callable[[Record], object] = lambda record: record,
        changed: Callable[[Record | None, Record | None], None] = lambda before, after: None,
        written: Callable[[str], None] = lambda name: None,
    ) -> None:
        """Store the results of ``parse``. A change of the result of ``decisive`` may affect a decision.

        Args:
            parse: reads an object; may reuse parts of the previous record, its second argument.
            decisive: see above.
            changed: called for each record with the previous and the new version; None: absent.
            written: called with an object's name for each new version of it.
        """
        self._parse = parse
        self._decisive = decisive
        self._changed = changed
        self._written = written
        self._entries: dict[tuple[str, str], Entry[Record]] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()
        self._listed: dict[str | None, tuple[int, Callable[[Record], bool] | None]] = {}
        """Of the last list of a namespace (None: of all): its version, and what it would have contained."""

    def observe(self, raw: Mapping[str, Any]) -> bool:
        """Store a version of an object; return whether the change may affect a decision."""
        metadata = raw["metadata"]
        key, uid, version = key_of(metadata), metadata["uid"], _version(metadata)
        known = self._entries.get(key)
        if uid in self._deleted or (known is not None and version <= known.version):
            return False
        self._written(key[1])
        before = known.record if known is not None and known.uid == uid else None
        record = self._read(key, raw, before)
        if known is None and self._was_gone(key, version, record):
            return False
        if known is not None and before is not None and record == before:
            # Nothing that is read has changed: the record stays the same object, and no change is noted.
            self._entries[key] = Entry(uid, version, before)
            return False
        self._entries[key] = Entry(uid, version, record)
        self._changed(None if known is None else known.record, record)
        if known is None or known.record is None or record is None:
            return True
        return self._decisive(known.record) != self._decisive(record)

    def note_list(
        self, version: int, *, among: Callable[[Record], bool] | None, namespace: str | None = None
    ) -> None:
        """Note that a list was gone through: an object that it does not contain is not there at that version. Arguments as for
        :meth:`absent`."""
        self._listed[namespace] = version, among

    def _was_gone(self, key: tuple[str, str], version: int, record: Record | None) -> bool:
        """Whether a list that is newer than this version shows that there is no such object any more: it is gone, or was changed."""
        return any(
            version <= listed and (among is None or (record is not None and among(record)))
            for namespace, (listed, among) in self._listed.items()
            if namespace in (None, key[0])
        )

    def forget(self, metadata: Mapping[str, Any]) -> bool:
        """Remove an object that is gone; return whether it was known."""
        uid = metadata["uid"]
        self._deleted[uid] = None
        while len(self._deleted) > _REMEMBERED_DELETIONS:
            self._deleted.popitem(last=False)
        known = self._entries.get(key_of(metadata))
        if known is None or known.uid != uid:
            return False
        del self._entries[key_of(metadata)]
        self._changed(known.record, None)
        return True

    def condense(self, condensed: Callable[[Record], Record]) -> None:
        """Replace records by shorter ones of the same version; one for which ``condensed`` returns the record itself stays."""
        for key, entry in list(self._entries.items()):
            if entry.record is None or (short := condensed(entry.record)) is entry.record:
                continue
            self._entries[key] = replace(entry, record=short)
            self._changed(entry.record, short)

    def sweep(
        self,
        listed: Collection[tuple[str, str]],
        version: int,
        *,
        among: Callable[[Record], bool] | None,
        namespace: str | None = None,
    ) -> bool:
        """Remove objects that a list no longer contains; return whether there were any. Arguments as for :meth:`absent`."""
        absent = self.absent(listed, version, among=among, namespace=namespace)
        for key in absent:
            self.missing(key, version)
        return bool(absent)

    def missing(self, key: tuple[str, str], version: int) -> None:
        """Remove an object that was not there at a version; a newer one is kept."""
        entry = self._entries.get(key)
        if entry is not None and entry.version <= version:
            self.forget({"namespace": key[0], "name": key[1], "uid": entry.uid})

    def absent(
        self,
        listed: Collection[tuple[str, str]],
        version: int,
        *,
        among: Callable[[Record], bool] | None,
        namespace: str | None = None,
    ) -> list[tuple[str, str]]:
        """Return the objects that a list does not contain.

        Args:
            listed: the namespaces and names of its objects.
            version: the list's resource version; newer objects are kept.
            among: whether the list would contain such an object (it may be a list by label); None: it would contain any. An object that cannot be read is removed only by a list of everything.
            namespace: the only one that was listed; None: all were.
        """
        return [
            key
            for key, entry in self._entries.items()
            if key not in listed
            and entry.version <= version
            and namespace in (None, key[0])
            and (among is None or (entry.record is not None and among(entry.record)))
        ]

    def __len__(self) -> int:
        return len(self._entries)

    def lacks(self, metadata: Mapping[str, Any]) -> bool:
        """Whether this version of an object is newer than what is known of it."""
        if metadata["uid"] in self._deleted:
            return False
        known = self._entries.get(key_of(metadata))
        return known is None or known.version < _version(metadata)

    def records(self) -> tuple[Record, ...]:
        """Return all that can be read."""
        return tuple(entry.record for entry in self._entries.values() if entry.record is not None)

    def version_of(self, key: tuple[str, str], record: Record) -> str | None:
        """Return the newest resource version at which an object matched a record; None: it no longer does."""
        entry = self._entries.get(key)
        return str(entry.version) if entry is not None and entry.record is record else None

    def is_newest(self, raw: Mapping[str, Any]) -> bool:
        """Whether this is the newest known version of an object."""
        metadata = raw["metadata"]
        entry = self._entries.get(key_of(metadata))
        return entry is not None and entry.uid == metadata["uid"] and entry.version == _version(metadata)

    def _read(self, key: tuple[str, str], raw: Mapping[str, Any], before: Record | None) -> Record | None:
        try:
            return self._parse(dict(raw), before)
        except (ArithmeticError, KeyError, ValueError, TypeError, AttributeError) as error:
            logger.warning(
                "an object cannot be read and is left out",
                extra={
                    "object": "/".join(key),
                    "kind": raw.get("kind"),
                    "problem": f"{type(error).__name__}: {error}",
                },
            )
            return None


class ClusterCache:
    """All that the operator watches."""

    def __init__(self, wall: Callable[[], float]) -> None:
        """Judge by ``wall``, Unix time, which jobs ended long ago."""
        self._wall = wall
        self._state = state = ClusterState()
        self.heartbeats = Heartbeats()
        self.jobs = Store(self._parse_job, changed=state.note_job)
        self.pods = Store(_fresh(parse_worker_pod), changed=state.note_pod)
        self.gpu_nodes = Store(
            _fresh(parse_gpu_node),
            decisive=lambda record: record.decisive,
            changed=state.note_gpu_node,
            written=self.heartbeats.wrote,
        )
        self.nodes = Store(_fresh(parse_node), changed=state.note_node)
        self.priority_classes = Store(_fresh(parse_priority_class), changed=state.note_priority_class)
        self.profiles = Store(_fresh(parse_profile), changed=state.note_profile)
        self._stores: dict[Resource, Store[Any]] = {
            TRAINING_JOBS: self.jobs,
            TRAINING_PROFILES: self.profiles,
            PODS: self.pods,
            GPU_NODES: self.gpu_nodes,
            NODES: self.nodes,
            PRIORITY_CLASSES: self.priority_classes,
        }

    def store(self, resource: Resource) -> Store[Any]:
        """Return the store of a kind of objects."""
        return self._stores[resource]

    def condense_ended_jobs(self) -> None:
        """Drop the details of jobs that ended long ago."""
        self.jobs.condense(self._condensed)

    def _parse_job(self, raw: dict[str, Any], before: JobRecord | None) -> JobRecord:
        return self._condensed(parse_job(raw, before))

    def _condensed(self, job: JobRecord) -> JobRecord:
        ended_seconds = job.ended_seconds
        if ended_seconds is None or job.settled or job.wrong_summary or not job.managed:
            return job
        return job if self._wall() < ended_seconds + END_COUNTS_SECONDS else job.without_details()

    def state(self, silent_seconds: float) -> ClusterState:
        """Return the current state, with the nodes whose agent was silent for ``silent_seconds``."""
        self._state.note_silence(self.heartbeats.silent(silent_seconds))
        return self._state


def _fresh(parse: Callable[[dict[str, Any]], Record]) -> Callable[[dict[str, Any], Record | None], Record]:
    """Return a parser that reuses nothing of the previous record."""
    return lambda raw, before: parse(raw)


def key_of(metadata: Mapping[str, Any]) -> tuple[str, str]:
    """Return the namespace and name of an object; the namespace is empty where it has none."""
    return metadata.get("namespace") or "", metadata["name"]


def _version(metadata: Mapping[str, Any]) -> int:
    return int(metadata["resourceVersion"])
