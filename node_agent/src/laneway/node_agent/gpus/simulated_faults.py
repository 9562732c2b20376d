"""What is wrong with simulated GPUs, by the file ``/run/laneway/simulated-faults.yaml``. Asked at each call, read when it changed."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from pathlib import Path

from laneway.api.config_file import ConfigError, parse_config
from laneway.api.simulated_gpus import SimulatedFault, SimulatedFaults

_log = logging.getLogger(__name__)
_SOUND = SimulatedFaults()
_Fingerprint = tuple[int, int, int]


class FaultsFile:
    """The file as it is now. A wrong one is named in the log and changes nothing; none at all: nothing is wrong.

    An XID is raised when it appears in the file: one that stands there before the agent begins was missed, as a driver's
    messages are by those who do not wait for them.
    """

    def __init__(self, path: Path) -> None:
        """Read the file if it is there."""
        self._path = path
        self._lock = threading.Lock()
        self._seen: _Fingerprint | None = None
        self._faults = _SOUND
        self._raised: list[tuple[int, int]] = []
        self._read()
        self._raised.clear()

    def of(self, index: int) -> SimulatedFault:
        """Return what is wrong with a GPU. May be called from any thread."""
        with self._lock:
            self._read()
            return _fault(self._faults, index)

    def take_xids(self) -> list[tuple[int, int]]:
        """Return (GPU's index, XID) of those that appeared since the last call."""
        with self._lock:
            self._read()
            raised, self._raised = self._raised, []
            return raised

    def _read(self) -> None:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            self._seen, self._faults = None, _SOUND
            return
        fingerprint = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if fingerprint == self._seen:
            return
        self._seen = fingerprint
        try:
            faults = parse_config(self._path.read_text(encoding="utf-8"), SimulatedFaults, str(self._path))
        except (ConfigError, OSError, UnicodeDecodeError) as error:
            _log.error("simulated faults stay as they were: %s", error)
            return
        for fault in faults.gpus:
            before = Counter(_fault(self._faults, fault.gpu).xids)
            new = Counter(fault.xids) - before
            self._raised += [(fault.gpu, number) for number in new.elements()]
        self._faults = faults
        _log.info("simulated faults: %s", faults.model_dump_json(by_alias=True, exclude_defaults=True))


def _fault(faults: SimulatedFaults, index: int) -> SimulatedFault:
    return next((fault for fault in faults.gpus if fault.gpu == index), SimulatedFault(gpu=index))
