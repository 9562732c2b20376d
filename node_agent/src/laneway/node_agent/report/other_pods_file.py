"""Reads ``pod-requests.json``, which the device plugin writes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from laneway.api.other_pods import OtherPods
from laneway.api.records import explain
from pydantic import ValidationError

_log = logging.getLogger(__name__)


class OtherPodsFile:
    """What the node's other pods request, as last read. A missing or invalid file changes nothing."""

    def __init__(self, path: Path) -> None:
        self.requests: Mapping[str, str] | None = None
        """None: not known yet."""

        self._path = path
        self._seen: tuple[int, int, int] | None = None

    def read_if_changed(self) -> bool:
        """Read the file if it changed since the last reading; return whether that changed anything."""
        try:
            status = self._path.stat()
            signature = (status.st_ino, status.st_mtime_ns, status.st_size)
            if signature == self._seen:
                return False
            content = self._path.read_bytes()
        except OSError:
            return False  # the next call tries again
        self._seen = signature
        try:
            requests = OtherPods.model_validate_json(content).requests
        except ValidationError as error:
            _log.error("file ignored error=%r", explain(error, str(self._path)))
            return False
        changed = requests != self.requests
        self.requests = requests
        return changed
