"""Saves the self-test's results in ``/var/lib/laneway/agent/interposer-tests.json``: one for each driver version and library, so
that the test runs once for both and not at each start of the agent."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from laneway.api.records import Record, explain
from laneway.node_agent.atomic_file import write_atomically
from laneway.node_agent.self_test.evaluation import SelfTestResult
from pydantic import ValidationError

RESULTS_NAME = "interposer-tests.json"
_MOST_RESULTS = 16

_log = logging.getLogger(__name__)


class LibraryOnDriver(Record):
    """What a result is of."""

    driver: str
    """The driver's version."""

    library: str
    """The SHA-256 of the library and the test's program, in hexadecimal."""


class SavedResult(Record):
    """One result."""

    of: LibraryOnDriver
    passed: bool | None = None
    """None: the test began, and the agent ended before it did."""

    reason: str = ""
    interruptions: int = 0
    """How often the agent ended in the middle of it."""


class ResultsRecord(Record):
    """The whole file, the newest result last."""

    version: Literal[1] = 1
    results: tuple[SavedResult, ...]


class ResultsFile:
    """The file. A folder that cannot be written to is logged: the next agent tests again."""

    def __init__(self, agent_state: Path) -> None:
        self._path = agent_state / RESULTS_NAME
        self._results = {result.of: result for result in self._read()}

    def result(self, of: LibraryOnDriver) -> SavedResult | None:
        """Return the saved result; None if there is none."""
        return self._results.get(of)

    def begin(self, of: LibraryOnDriver) -> None:
        """Save that a test begins, as if the agent ended in the middle of it."""
        earlier = self._results.get(of, SavedResult(of=of))
        self._put(of, earlier.model_copy(update={"interruptions": earlier.interruptions + 1}))

    def finish(self, of: LibraryOnDriver, result: SelfTestResult) -> None:
        """Save a result. Nothing is kept of a test that found nothing."""
        known = result.passed is not None
        self._put(of, SavedResult(of=of, passed=result.passed, reason=result.reason) if known else None)

    def _put(self, of: LibraryOnDriver, result: SavedResult | None) -> None:
        self._results.pop(of, None)
        if result is not None:
            self._results[of] = result
        record = ResultsRecord(results=tuple(self._results.values())[-_MOST_RESULTS:])
        try:
            write_atomically(self._path, record.model_dump_json(), mode=0o600)
        except OSError as error:
            _log.error("cannot save the interposer's test path=%s error=%r", self._path, str(error))

    def _read(self) -> tuple[SavedResult, ...]:
        try:
            return ResultsRecord.model_validate_json(self._path.read_bytes()).results
        except FileNotFoundError:
            pass
        except OSError as error:
            _log.error("interposer's tests are lost path=%s error=%r", self._path, error.strerror)
        except ValidationError as error:
            _log.error("interposer's tests are lost error=%r", explain(error, str(self._path)))
        return ()
