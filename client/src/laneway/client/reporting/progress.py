"""The progress that a script reports (`laneway.client.report`): sent at most once a second, and the last
report always.

A value on a device is read only when it is sent, because reading waits for the device. A report never ends
the script: invalid values are dropped with one warning that says what to write.
"""

from __future__ import annotations

import logging
import math
import operator
from collections import deque
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, Optional, Union

from laneway.client.reporting.batch import BatchReport
from laneway.client.reporting.saved_work import SavedWork

if TYPE_CHECKING:
    from laneway.client.reporting.profile import Profiler
    from laneway.client.session.null_session import NullSession
    from laneway.client.session.session import Session

log = logging.getLogger("laneway.client")

SEND_NS: Final = 1_000_000_000
"""Between two packets."""
REMEMBERED: Final = 256
"""Packets over which the pace is measured: some minutes at least."""
MAX_STEPS: Final = 2**53
TOLERANCE_PERCENT: Final = 2
"""By how much the remaining iterations may deviate from the expectation before the profile is sent again."""
NAMES: Final = ("loss", "step", "steps", "epoch")


class Progress:
    """The last report of this process's script. `update` may be called from any thread."""

    def __init__(self, profiler: Profiler, has_agent: bool = True) -> None:
        """Starts empty.

        Args:
            profiler: receives the number of remaining iterations.
            has_agent: whether there can be an agent; otherwise nothing is kept.
        """
        self.pending = False
        """There are values that the agent has not received."""
        self.saved_work = SavedWork()
        self.batch = BatchReport()
        self._profiler = profiler
        self._has_agent = has_agent
        self._values: dict[str, Any] = {}
        self._script_counts = False
        """The script itself reports its steps."""
        self._updated = (0, 0)
        """When the last update came, and how many iterations were done then."""
        self._sent_ns = -SEND_NS
        self._history: deque[tuple[int, int, int]] = deque(maxlen=REMEMBERED)
        """Times (ns), and the steps and iterations done by then."""
        self._ends_at = 0
        """The last iteration, as passed to the profiler."""
        self._warned: set[str] = set()

    def update(self, values: dict[str, Any], iterations: int, session: Union[Session, NullSession]) -> None:
        """Takes the values that the script reports, and sends them if the last packet is old enough.

        Args:
            values: by name; None values are ignored.
            iterations: how many the process has completed.
            session: where to send them.
        """
        if not self._has_agent or not any(value is not None for value in values.values()):
            return
        now_ns = monotonic_ns()
        due = session.has_agent and now_ns - self._sent_ns >= SEND_NS
        for name, value in values.items():
            if value is not None:
                self._values[name] = value if due else _snapshot(value)
                self._script_counts = self._script_counts or name in ("step", "steps")
        self._updated = (now_ns, iterations)
        self.pending = True
        if due:
            self.send(session, now_ns)

    def update_steps(
        self, step: int, steps: Optional[int], iterations: int, session: Union[Session, NullSession]
    ) -> None:
        """Takes step counts that the script did not report itself; the script's own counts take precedence."""
        if not self._script_counts:
            self.update({"step": step, "steps": steps}, iterations, session)
            self._script_counts = False

    def begin_training(self, trained_elements: int) -> None:
        """Records that an optimizer has stepped. Only the first call has an effect."""
        if self.saved_work.begin_training(trained_elements):
            self.pending = self._has_agent

    def note_save(self, began_at: float) -> None:
        """Records a complete checkpoint that was begun at a time (Unix time)."""
        self.saved_work.note_save(began_at)
        self.pending = self._has_agent

    def note_batch(self) -> None:
        """Records that there is news of the batch."""
        self.pending = self._has_agent

    def resend(self) -> None:
        """Marks the values for a new agent, which has received none."""
        self.pending = bool(self._values or self.saved_work.fields() or self.batch.fields())

    def send(self, session: Union[Session, NullSession], now_ns: int) -> None:
        """Sends pending values, unless there is no agent or the last packet is too recent."""
        if now_ns - self._sent_ns >= SEND_NS and session.has_agent:
            self.flush(session)

    def flush(self, session: Union[Session, NullSession]) -> None:
        """Sends pending values now."""
        if not self.pending:
            return
        self.pending = False
        self._sent_ns = monotonic_ns()
        try:
            packet: dict[str, Any] = {name: self._read(name) for name in NAMES if name in self._values}
            packet["remaining_seconds"] = self._remaining_seconds(packet)
            session.send_message("report", **packet, **self.saved_work.fields(), **self.batch.fields())
        except Exception as fault:  # an internal or device error: reporting must not end a training
            log.debug("a report could not be sent: %r", fault)

    # --- internals ---

    def _read(self, name: str) -> Union[str, int, None]:
        value = self._values[name]
        try:
            found = _loss(value) if name == "loss" else _count(value, rounds=name == "epoch")
        except Exception:  # a foreign type may raise anything
            del self._values[name]
            self._warn_once(name, value)
            return None
        self._values[name] = found if name != "loss" else float(found)
        return found

    def _warn_once(self, name: str, value: Any) -> None:
        if name in self._warned:
            return
        self._warned.add(name)
        instead = (
            "one number, such as loss, loss.mean() or loss.item()"
            if name == "loss"
            else f"a whole number from 0 to 2^53, such as {name}={name}"
        )
        log.warning("laneway.client.report(%s=%s) was ignored: write %s", name, _short_repr(value), instead)

    def _remaining_seconds(self, packet: dict[str, Any]) -> Optional[float]:
        """Returns the remaining time at the recent pace, waits included, and tells the profiler the remaining
        iterations."""
        step: Optional[int] = packet.get("step")
        steps: Optional[int] = packet.get("steps")
        now_ns, iterations = self._updated
        if steps is None:
            return None
        if step is None:
            self._expect(max(0, steps - iterations), iterations)
            return None
        history = self._history
        if history and step < history[-1][1]:
            history.clear()  # the script counts from the start again
        history.append((now_ns, step, iterations))
        first_ns, first_step, first_iterations = history[0]
        done, left = step - first_step, max(0, steps - step)
        if not left:
            self._expect(0, iterations)
            return 0.0
        if not done:
            return None
        self._expect(round(left * (iterations - first_iterations) / done), iterations)
        return left * (now_ns - first_ns) / 1e9 / done

    def _expect(self, left: int, iterations: int) -> None:
        off = abs(iterations + left - self._ends_at)
        if off > 1 and off * 100 > TOLERANCE_PERCENT * left:
            self._ends_at = iterations + left
            self._profiler.expect(left, iterations)


def _snapshot(value: Any) -> Any:
    """Returns a value that can be read later: detached from its graph and copied, without waiting for the
    device."""
    try:
        detach = getattr(value, "detach", None)
        if detach is None:
            return value
        snapshot = detach()
        return (
            snapshot.item() if snapshot.device.type == "cpu" and snapshot.numel() == 1 else snapshot.clone()
        )
    except Exception:
        return value


def _number(value: Any) -> Any:
    item = getattr(value, "item", None)
    return value if item is None else item()


def _loss(value: Any) -> str:
    """Returns a loss as text, because JSON has no NaN.

    Raises:
        Exception: it is not one number.
    """
    value = _number(value)
    if isinstance(value, (bool, str, bytes)):
        raise TypeError("not a number")
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return format(number, ".6g")


def _count(value: Any, rounds: bool) -> int:
    """Returns a count; with `rounds`, fractions are rounded down.

    Raises:
        Exception: it is not a number from 0 to 2^53.
    """
    value = _number(value)
    if isinstance(value, (bool, str, bytes)):
        raise TypeError("not a number")
    try:
        number = operator.index(value)
    except TypeError:
        number = int(value)
        if number != value and not rounds:
            raise
    if not 0 <= number <= MAX_STEPS:
        raise ValueError("out of range")
    return number


def _short_repr(value: Any) -> str:
    try:
        shape = getattr(value, "shape", None)
        text = (
            repr(value)
            if shape is None or not len(shape)
            else f"<{type(value).__name__} of shape {tuple(shape)}>"
        )
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 80 else f"{text[:77]}..."
