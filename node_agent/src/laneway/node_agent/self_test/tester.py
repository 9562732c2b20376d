"""Tests on its own thread whether the memory interposer holds a quota on the node's driver, before the node offers it.

library, driver's version ──▶ saved result ──▶ problem ──▶ level of enforcement
                               none: plain run, run with the library ──▶ evaluate ──▶ interposer-tests.json
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path

from laneway.api.names import INTERPOSER_NAME
from laneway.node_agent.gpus.deadline import DeadlineCaller
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.gpus.protocol import GPUError, GPUInfo, GPUSource
from laneway.node_agent.host_folders import HostFolders
from laneway.node_agent.memory_accounts.packets import uuid_bytes
from laneway.node_agent.self_test.cuda_program import PIECE_BYTES
from laneway.node_agent.self_test.evaluation import AccountUse, SelfTestResult, evaluate, gpu_to_test
from laneway.node_agent.self_test.private_account import PrivateAccount
from laneway.node_agent.self_test.program_runner import PROGRAM, ProgramRunner, Run
from laneway.node_agent.self_test.results_file import LibraryOnDriver, ResultsFile, SavedResult

_log = logging.getLogger(__name__)

QUOTA_BYTES = 128 << 20
"""More than a driver reserves for a pool at a time (32 MiB)."""

_MOST_INTERRUPTIONS = 2
_STOP_SECONDS = 5.0
"""How long a test that was ended may take to say so. A program that waits inside the kernel's driver may never end."""


class InterposerTester:
    """The result for the library and the driver that the node has now."""

    LIMIT_SECONDS = 60
    """For one run of the program: a driver without persistence mode starts in up to 20 s."""

    CHECK_SECONDS = 60.0
    """How often it looks for another driver or library, and at most how long until it tries a test again that found nothing."""

    RETRY_SECONDS = 1.0
    """When it first tries again: a GPU is first read soon after the start. Later tries wait longer."""

    def __init__(
        self,
        source: GPUSource,
        gpus: tuple[GPUInfo, ...],
        health: Callable[[str], GPUHealth],
        folders: HostFolders,
        answer_seconds: float,
    ) -> None:
        """Look up the saved result, so that a restart lowers no level. No test runs before :meth:`start`.

        Args:
            source: the driver.
            gpus: the node's GPUs.
            health: returns the last health of a GPU; callable from any thread.
            folders: the host's folders.
            answer_seconds: how long the driver may take to tell its version.
        """
        self._source = source
        self._gpus = gpus
        self._health = health
        self._library = folders.client / INTERPOSER_NAME
        self._socket = folders.account_socket
        self._results = ResultsFile(folders.agent_state)
        self._caller: DeadlineCaller[str] = DeadlineCaller("the driver's version", answer_seconds)
        self._runner = ProgramRunner(self.LIMIT_SECONDS)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="interposer-test", daemon=True)
        self._problem = "its self-test has not run yet"
        self._without_result: set[str] = set()
        self._known_library = ""
        """The digest of the library that :attr:`problem` is about."""
        self._look_up()

    @property
    def problem(self) -> str:
        """Return why the library must not be offered, as a clause; empty if it may. May be called from any thread."""
        return self._problem

    def start(self) -> None:
        """Start testing."""
        self._thread.start()

    def stop(self) -> None:
        """End the test that runs, and start no other. It does not count as interrupted: the next agent tests again."""
        self._stopped.set()
        self._runner.close()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def check(self) -> bool:
        """Test the library if there is no result for it on this driver. Return whether there is one now."""
        tested = self._look_up()
        if tested is None:
            return False
        saved = self._results.result(tested)
        if saved is not None and (saved.passed is not None or saved.interruptions >= _MOST_INTERRUPTIONS):
            return True
        found = self._test(tested)
        self._say(found, tested.driver)
        return found.passed is not None

    def _run(self) -> None:
        pause_seconds = self.RETRY_SECONDS / 2
        while not self._stopped.is_set():
            try:
                known = self.check()
            except Exception:
                _log.exception("testing the interposer failed, will retry")
                known = False
            pause_seconds = self.RETRY_SECONDS / 2 if known else min(2 * pause_seconds, self.CHECK_SECONDS)
            self._stopped.wait(self.CHECK_SECONDS if known else pause_seconds)

    def _look_up(self) -> LibraryOnDriver | None:
        """Say what is saved of the present library and driver; return them, or None if they cannot be told."""
        try:
            library = _digest(self._library)
            driver = self._caller.call(self._source.driver_version)
        except GPUError as error:
            # A driver that does not answer now is the one that did, as long as NVML runs: its GPUs' health says what is wrong.
            if library != self._known_library:
                self._problem = f"its self-test cannot run: {error}"
            return None
        except OSError as error:
            self._problem = f"its self-test cannot run: {error}"
            return None
        tested = LibraryOnDriver(driver=driver, library=library)
        self._known_library = library
        saved = self._results.result(tested)
        if saved is not None:
            self._say(_result_of(saved), driver)
        elif not self._problem:
            self._problem = f"its self-test on driver {driver} has not run yet"
        return tested

    def _test(self, tested: LibraryOnDriver) -> SelfTestResult:
        health = [(gpu, self._health(gpu.uuid)) for gpu in self._gpus]
        gpu, problem = gpu_to_test(health, self._without_result)
        raw = None if gpu is None else uuid_bytes(gpu.uuid)
        if gpu is None or raw is None:
            return SelfTestResult(None, problem or "the GPU has no uuid of NVML's kind")
        self._results.begin(tested)
        found = SelfTestResult(None, "it failed")
        try:
            found = self._runs(gpu, raw)
            if found.perhaps_chance:
                stopped = self._stopped.is_set()
                found = SelfTestResult(None, "the agent ends") if stopped else self._runs(gpu, raw)
            if _digest(self._library) != tested.library:
                found = SelfTestResult(None, "the library was replaced meanwhile")
        except OSError as error:
            found = SelfTestResult(None, f"it cannot start: {error}")
        finally:  # whatever fails here is no end of the agent in the middle of a test
            self._results.finish(tested, found)
        if gpu.uuid in self._without_result:
            self._without_result.clear()  # each was tried
        if found.passed is None:
            self._without_result.add(gpu.uuid)
        return found

    def _runs(self, gpu: GPUInfo, raw: bytes) -> SelfTestResult:
        plain = self._runner.run(gpu.uuid, raw, 0)
        if plain.found is None:
            return evaluate(plain, Run(), AccountUse(asked=False, refusals=0), QUOTA_BYTES)
        with PrivateAccount(self._socket, raw, QUOTA_BYTES) as account:
            interposed = self._runner.run(gpu.uuid, raw, QUOTA_BYTES + PIECE_BYTES, self._library)
        again = self._runner.run(gpu.uuid, raw, 0) if interposed.found is None else None
        return evaluate(plain, interposed, account.use, QUOTA_BYTES, again)

    def _say(self, found: SelfTestResult, driver: str) -> None:
        if found.passed:
            problem = ""
        elif found.passed is None:
            problem = f"its self-test on driver {driver} has no result yet: {found.reason}"
        else:
            problem = f"its self-test on driver {driver} failed: {found.reason}"
        if problem != self._problem:
            _log.info("interposer's self-test driver=%s problem=%r", driver, problem)
        self._problem = problem


def _result_of(saved: SavedResult) -> SelfTestResult:
    if saved.passed is None:
        return SelfTestResult(None, f"the agent ended {saved.interruptions} times in the middle of it")
    return SelfTestResult(saved.passed, saved.reason)


def _digest(library: Path) -> str:
    """Return what names a library in the results. A later test may find what an earlier one missed, so it names the test too."""
    return hashlib.sha256(library.read_bytes() + PROGRAM.read_bytes()).hexdigest()
