"""Laneway's own trace format: CSV with a header; times in seconds, sizes in bytes.

Required columns: ``job`` (``name`` or ``namespace/name``), ``submit_seconds``, ``duration_seconds``.

Optional columns, with what an empty or missing one means: ``workers`` (1), ``gpus_per_worker`` (1), ``share_percent``
(100), ``memory_bytes`` (none; instead of a share), ``models`` (any; separated by ``|``), ``exclusive`` (``false``),
``placement`` (``Auto``), ``priority`` (0), and both or neither of ``persistent_bytes`` and ``ephemeral_bytes`` (not
profiled).
"""

from __future__ import annotations

from collections.abc import Mapping

from laneway.scheduling import Demand, PlacementMode, Profile
from laneway.simulator.trace import TraceJob
from laneway.simulator.traces.fields import seconds, whole

REQUIRED = frozenset({"job", "submit_seconds", "duration_seconds"})
OPTIONAL = frozenset(
    {
        "workers",
        "gpus_per_worker",
        "share_percent",
        "memory_bytes",
        "models",
        "exclusive",
        "placement",
        "priority",
        "persistent_bytes",
        "ephemeral_bytes",
    }
)


def read_row(row: Mapping[str, str]) -> TraceJob:
    """Return the job of a line.

    Raises:
        ValueError: a field is wrong; says which, and what to write.
    """
    name = row["job"]
    if not name:
        raise ValueError("job is empty: write its name")
    return TraceJob(
        name if "/" in name else f"default/{name}",
        Demand(
            workers=whole(row, "workers", 1),
            gpus_per_worker=whole(row, "gpus_per_worker", 1),
            share_percent=whole(row, "share_percent", 100),
            memory_bytes=whole(row, "memory_bytes") if row.get("memory_bytes") else None,
            models=frozenset(model for model in row.get("models", "").split("|") if model),
            exclusive=_flag(row, "exclusive"),
            mode=_mode(row),
        ),
        seconds(row, "submit_seconds"),
        seconds(row, "duration_seconds"),
        priority=whole(row, "priority", 0),
        profile=_profile(row),
    )


def _flag(row: Mapping[str, str], column: str) -> bool:
    text = row.get(column, "")
    if text not in ("", "true", "false"):
        raise ValueError(f"{column} is {text!r}: write true or false")
    return text == "true"


def _mode(row: Mapping[str, str]) -> PlacementMode:
    text = row.get("placement", "")
    modes = {mode.value: mode for mode in PlacementMode}
    if text and text not in modes:
        raise ValueError(f"placement is {text!r}: write one of {', '.join(modes)}")
    return modes.get(text, PlacementMode.AUTO)


def _profile(row: Mapping[str, str]) -> Profile | None:
    given = [column for column in ("persistent_bytes", "ephemeral_bytes") if row.get(column)]
    if not given:
        return None
    if len(given) == 1:
        raise ValueError(
            f"{given[0]} stands alone: write both persistent_bytes and ephemeral_bytes, or neither"
        )
    return Profile(whole(row, "persistent_bytes"), whole(row, "ephemeral_bytes"))
