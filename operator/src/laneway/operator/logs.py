"""Log lines as JSON objects, one a line, each with the id of the cycle that it belongs to."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

CYCLE: ContextVar[str] = ContextVar("cycle", default="")
"""The id of the cycle that runs in this task; empty outside of cycles."""

_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Renders a record with its ``extra`` fields: ``logger.info("placed", extra={"job": key})``."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if cycle := CYCLE.get():
            line["cycle"] = cycle
        line.update({key: value for key, value in vars(record).items() if key not in _STANDARD_FIELDS})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def configure(level: str) -> None:
    """Send all log lines to stderr; of kopf and the HTTP libraries only warnings, which the cycle's own lines replace."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in ("kopf", "aiohttp", "asyncio", "kubernetes", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # kopf runs in its own thread on purpose, and warns at each start that signals do not reach it there.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
