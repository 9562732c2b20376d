"""Events of a job as the page shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from laneway.board.views.fields import Object, count, text


def event_views(events: Iterable[Object], job_uid: str) -> list[dict[str, Any]]:
    """Return the events about a job, the newest first; events of an earlier job of its name are left out."""
    own = (event for event in events if text(event, "involvedObject", "uid") in ("", job_uid))
    return sorted((_event(event) for event in own), key=lambda event: str(event["time"]), reverse=True)


def _event(event: Object) -> dict[str, Any]:
    return {
        "key": text(event, "metadata", "uid"),
        "time": text(event, "series", "lastObservedTime")
        or text(event, "lastTimestamp")
        or text(event, "eventTime")
        or text(event, "metadata", "creationTimestamp"),
        "type": text(event, "type"),
        "reason": text(event, "reason"),
        "message": text(event, "message"),
        "count": max(1, count(event, "series", "count") or count(event, "count")),
    }
