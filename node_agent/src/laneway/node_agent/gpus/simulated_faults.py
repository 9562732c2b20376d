"""Faults of simulated GPUs, from ``/run/laneway/simulated-faults.yaml``; reread when the file changes."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from pathlib import Path

from laneway.api.config_file import ConfigError, parse_config
from laneway.api.simulated_gpus import SimulatedFault, SimulatedFaults

_log = logging.getLogger(__name__)
_NO_FAULTS = SimulatedFaults()
_Fingerprint = tuple[int, int, int]


class FaultsFile:
    """The current file. An invalid file is logged and changes nothing; without a file there are no faults.

    An XID is raised when it appears in the file. One that is there before the agent starts was missed, as a
    driver's message would be.
    """

    def __init__(self, path: Path) -> None:
        """Read the file if it exists."""
        self._path = path
        self._lock = threading.Lock()
        self._seen: _Fingerprint | None = None
        self._faults = _NO_FAULTS
        self._raised: list[tuple[int, int]] = []
        self._read()
        self._raised.clear()

    def of(self, index: int) -> SimulatedFault:
        """Return the faults of a GPU. May be called from any thread."""
        with self._lock:
            self._read()
            return _fault(self._faults, index)

    def take_xids(self) -> list[tuple[int, int]]:
        """Return (GPU index, XID) of those that appeared since the last call."""
        with self._lock:
            self._read()
            raised, self._raised = self._raised, []
            return raised

    def _read(self) -> None:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            self._seen, self._faults = None, _NO_FAULTS
            return
        fingerprint = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if fingerprint == self._seen:
            return
        self._seen = fingerprint
        try:
            faults = parse_config(self._path.read_text(encoding="utf-8"), SimulatedFaults, str(self._path))
        except (ConfigError, OSError, UnicodeDecodeError) as error:
            _log.error("simulated faults ignored, keeping the previous ones error=%r", str(error))
            return
        for fault in faults.gpus:
            before = Counter(_fault(self._faults, fault.gpu).xids)
            new = Counter(fault.xids) - before
            self._raised += [(fault.gpu, number) for number in new.elements()]
        self._faults = faults
        _log.info(
            "simulated faults changed faults=%s", faults.model_dump_json(by_alias=True, exclude_defaults=True)
        )


def _fault(faults: SimulatedFaults, index: int) -> SimulatedFault:
    return next((fault for fault in faults.gpus if fault.gpu == index), SimulatedFault(gpu=index))
