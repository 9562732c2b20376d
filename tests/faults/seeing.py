"""Waits for the conditions of a script's next step."""

from __future__ import annotations

from typing import Any

from laneway.api import names

from tests.faults.history import History

Raw = dict[str, Any]


class Seeing:
    """Looks at a history."""

    def __init__(self, history: History) -> None:
        self._history = history

    def pods(self, job: str) -> list[Raw]:
        """Return the pods of a job as they are now."""
        return [pod for pod in self._history.pods if pod["metadata"]["labels"][names.JOB_LABEL] == job]

    def ended(self, job: str) -> bool:
        """Whether all pods of a job have succeeded."""
        return all(pod["status"]["phase"] == "Succeeded" for pod in self.pods(job))

    async def running(self, name: str, attempt: int) -> None:
        """Wait until the operator says that a job runs in an attempt."""

        def look() -> bool:
            return self._holds(name, "Running") and self._status(name).get("attempt") == attempt

        await self._history.until(f"{name} runs in attempt {attempt}", look)

    async def workers(self, name: str, workers: int) -> None:
        """Wait until the current attempt of a job has a number of workers."""
        await self._history.until(
            f"{name} has {workers} workers", lambda: self._status(name).get("workers") == workers
        )

    async def condition(self, name: str, kind: str) -> None:
        """Wait for a condition of a job."""
        await self._history.until(f"{name} has {kind}", lambda: self._holds(name, kind))

    async def waiting(self, name: str, reason: str) -> None:
        """Wait until a job waits for a reason."""

        def look() -> bool:
            return (self._status(name).get("waiting") or {}).get("reason") == reason

        await self._history.until(f"{name} waits for {reason}", look)

    async def gone(self, name: str) -> None:
        """Wait until a job is gone, and its pods with it."""

        def look() -> bool:
            return self._history.job(name) is None and not self.pods(name)

        await self._history.until(f"{name} and its pods are gone", look)

    async def no_pods(self, name: str) -> None:
        """Wait until a job has no pods."""
        await self._history.until(f"{name} has no pods", lambda: not self.pods(name))

    async def profiled(self, name: str) -> None:
        """Wait until a job's status has its workers' profile."""
        await self._history.until(f"{name} is profiled", lambda: "profile" in self._status(name))

    async def known_to_take_turns(self, name: str) -> None:
        """Wait until the operator has seen all workers of a job take turns; it can pause the job only then."""

        def look() -> bool:
            status = self._status(name)
            turns = status.get("turns", 0) - status.get("turnsBeforeAttempt", 0)
            return bool(self.pods(name)) and turns >= len(self.pods(name))

        await self._history.until(f"{name} is known to take turns", look)

    async def paused_in_place(self, name: str, reason: str) -> None:
        """Wait until the operator says that a job is paused or offloaded."""

        def look() -> bool:
            conditions = self._status(name).get("conditions") or ()
            said = [(each["type"], each["status"], each["reason"]) for each in conditions]
            return ("Running", "False", reason) in said

        await self._history.until(f"{name} is {reason}", look)

    async def ordered(self, name: str, order: str) -> None:
        """Wait until all workers of a job are ordered something."""

        def look() -> bool:
            uids = {pod["metadata"]["uid"] for pod in self.pods(name)}
            return bool(uids) and all((uid, order) in self._orders() for uid in uids)

        await self._history.until(f"the workers of {name} are ordered to {order}", look)

    async def nothing_ordered(self) -> None:
        """Wait until there are no orders."""
        await self._history.until("no order stands", lambda: not self._orders())

    async def sessions(self, name: str, node: str, state: str) -> None:
        """Wait until a node says that the workers of a job that it has are in a state."""

        def look() -> bool:
            uids = {pod["metadata"]["uid"] for pod in self.pods(name) if pod["spec"].get("nodeName") == node}
            gpus = ((self._history.node(node) or {}).get("status") or {}).get("gpus") or ()
            held = [each for gpu in gpus for each in gpu.get("sessions") or () if each["podUID"] in uids]
            return bool(held) and all(each["state"] == state for each in held)

        await self._history.until(f"the workers of {name} on {node} are {state}", look)

    def _orders(self) -> set[tuple[str, str]]:
        nodes = [each.get("spec") or {} for each in self._history.nodes]
        return {(order["podUID"], order["order"]) for spec in nodes for order in spec.get("orders") or ()}

    def _status(self, name: str) -> Raw:
        return (self._history.job(name) or {}).get("status") or {}

    def _holds(self, name: str, kind: str) -> bool:
        conditions = self._status(name).get("conditions") or ()
        return any(each["type"] == kind and each["status"] == "True" for each in conditions)
