"""A GPUNode as the page shows it: its GPUs, their lanes, and the sessions that take turns in them."""

from __future__ import annotations

from typing import Any

from laneway.board.views.fields import Object, count, flag, items, number, part, text, texts

_HOLDING, _ENDED = "Holding", "Ended"


def node_view(node: Object) -> dict[str, Any]:
    """Return what the page shows of a GPUNode. Memory is in bytes, shares are in percent of a GPU."""
    ready = next((each for each in items(node, "status", "conditions") if text(each, "type") == "Ready"), {})
    return {
        "key": text(node, "metadata", "name"),
        "name": text(node, "metadata", "name"),
        "ready": text(ready, "status") == "True",
        "message": "" if text(ready, "status") == "True" else text(ready, "message"),
        "observedAt": text(node, "status", "observedAt"),
        "gpus": sorted((_gpu(gpu) for gpu in items(node, "status", "gpus")), key=lambda gpu: gpu["index"]),
    }


def _gpu(gpu: Object) -> dict[str, Any]:
    sessions = [_session(session) for session in items(gpu, "sessions") if text(session, "state") != _ENDED]
    lanes = [_lane(lane, sessions) for lane in items(gpu, "lanes")]
    placed = {key for lane in lanes for key in lane["sessions"]}
    return {
        "uuid": text(gpu, "uuid"),
        "index": count(gpu, "index"),
        "model": text(gpu, "model"),
        "healthy": flag(gpu, "healthy") is True,
        "healthReason": text(gpu, "healthReason"),
        "simulated": flag(gpu, "simulated") is True,
        "enforcement": text(gpu, "enforcement"),
        "memoryBytes": count(gpu, "allocatableBytes"),
        "persistentBytes": sum(session["persistentBytes"] for session in sessions),
        "laneBytes": sum(lane["bytes"] for lane in lanes),
        "heldBytes": sum(session["heldBytes"] for session in sessions),
        "sharePercent": sum(session["sharePercent"] for session in sessions),
        "lanes": lanes,
        "sessions": sessions,
        "withoutLane": [session["key"] for session in sessions if session["key"] not in placed],
    }


def _lane(lane: Object, sessions: list[dict[str, Any]]) -> dict[str, Any]:
    known = {session["key"]: session for session in sessions}
    members = [key for key in texts(lane, "sessions") if key in known]
    return {
        "id": count(lane, "id"),
        "bytes": count(lane, "ephemeralBytes"),
        "sessions": members,
        "holder": next((key for key in members if known[key]["state"] == _HOLDING), ""),
    }


def _session(session: Object) -> dict[str, Any]:
    namespace, job, pod = (text(session, name) for name in ("namespace", "job", "pod"))
    return {
        "key": text(session, "key"),
        "job": f"{namespace}/{job}" if job else "",
        "pod": f"{namespace}/{pod}",
        "name": job or pod,
        "rank": number(session, "rank"),
        "sharePercent": count(session, "sharePercent"),
        "state": text(session, "state"),
        "lane": number(session, "lane"),
        "enforcement": text(session, "enforcement"),
        "persistentBytes": count(session, "persistentBytes"),
        "ephemeralBytes": count(session, "ephemeralBytes"),
        "heldBytes": count(session, "heldBytes"),
        "offloadedBytes": count(session, "offloadedBytes"),
        "quotaBytes": count(session, "quotaBytes"),
        "turns": count(session, "turns"),
        "loss": text(part(session, "report"), "loss"),
        "message": text(session, "message"),
    }
