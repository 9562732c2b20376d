"""What a script says of its progress (`laneway.client.report`), and when the agent hears it: at most once a second, the last word always.

A value that lies on a device is read when it is sent and not before, because reading it waits for the device. Nothing that a script
reports can end it: what makes no sense is left out, with one warning that says what to write.
"""

from __future__ import annotations

import logging
import math
import operator
from collections import deque
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, Optional, Union

if TYPE_CHECKING:
    from laneway.client.detached import Detached
    from laneway.client.profile import Profiler
    from laneway.client.session import Session

log = logging.getLogger("laneway.client")

SEND_NS: Final = 1_000_000_000
"""Between two packets."""
REMEMBERED: Final = 256
"""Packets over which the pace is measured: some minutes at least."""
MOST_STEPS: Final = 2**53
TOLERANCE_PERCENT: Final = 2
"""By so much what is left may differ from what it was expected to be, before the profile tells it anew."""
NAMES: Final = ("loss", "step", "steps", "epoch")


class Progress:
    """The last word of the process's script. `take` may be called from any thread."""

    def __init__(self, profiler: Profiler, heard: bool = True) -> None:
        """Begins with nothing said.

        Args:
            profiler: is told how many iterations are left.
            heard: whether there can be an agent; else nothing is kept.
        """
        self.pending = False
        """Something was said that the agent does not know."""
        self._profiler = profiler
        self._heard = heard
        self._said: dict[str, Any] = {}
        self._own = False
        """The script itself counts its steps."""
        self._moment = (0, 0)
        """When the last word came, and how many iterations were done then."""
        self._sent_ns = -SEND_NS
        self._paces: deque[tuple[int, int, int]] = deque(maxlen=REMEMBERED)
        """Times in ns, steps and iterations at them."""
        self._ends_at = 0
        """The iteration that the profiler was told to be the last."""
        self._complained: set[str] = set()

    def take(self, said: dict[str, Any], iterations: int, session: Union[Session, Detached]) -> None:
        """Takes what the script reports, and sends it if the last packet was long enough ago.

        Args:
            said: values by name; those that are None say nothing.
            iterations: how many the process has completed.
            session: where it goes.
        """
        if not self._heard or not any(value is not None for value in said.values()):
            return
        now_ns = monotonic_ns()
        due = session.contested and now_ns - self._sent_ns >= SEND_NS
        for name, value in said.items():
            if value is not None:
                self._said[name] = value if due else _kept(value)
                self._own = self._own or name in ("step", "steps")
        self._moment = (now_ns, iterations)
        self.pending = True
        if due:
            self.send(session, now_ns)

    def count(
        self, step: int, steps: Optional[int], iterations: int, session: Union[Session, Detached]
    ) -> None:
        """Takes a count that is not the script's own word, which comes before it."""
        if not self._own:
            self.take({"step": step, "steps": steps}, iterations, session)
            self._own = False

    def renew(self) -> None:
        """There is another agent, which has heard nothing."""
        self.pending = bool(self._said)

    def send(self, session: Union[Session, Detached], now_ns: int) -> None:
        """Tells the agent, unless it was told a moment ago or there is none."""
        if now_ns - self._sent_ns >= SEND_NS and session.contested:
            self.finish(session)

    def finish(self, session: Union[Session, Detached]) -> None:
        """Tells the agent what it does not know yet, now."""
        if not self.pending:
            return
        self.pending = False
        self._sent_ns = monotonic_ns()
        try:
            packet: dict[str, Any] = {name: self._read(name) for name in NAMES if name in self._said}
            packet["remaining_seconds"] = self._remaining_seconds(packet)
            session.tell("report", **packet)
        except (
            Exception
        ) as fault:  # of ours, or the device's: a training does not end because it was reported
            log.debug("a report could not be sent: %r", fault)

    # --- within ---

    def _read(self, name: str) -> Union[str, int, None]:
        value = self._said[name]
        try:
            found = _loss(value) if name == "loss" else _whole(value, rounds=name == "epoch")
        except Exception:  # whatever a foreign type raises
            del self._said[name]
            self._complain(name, value)
            return None
        self._said[name] = found if name != "loss" else float(found)
        return found

    def _complain(self, name: str, value: Any) -> None:
        if name in self._complained:
            return
        self._complained.add(name)
        instead = (
            "one number, such as loss, loss.mean() or loss.item()"
            if name == "loss"
            else f"a whole number from 0 to 2^53, such as {name}={name}"
        )
        log.warning("laneway.client.report(%s=%s): write %s; left out", name, _shown(value), instead)

    def _remaining_seconds(self, packet: dict[str, Any]) -> Optional[float]:
        """How long the rest takes at the pace of late, as time passes, waits included; tells the profiler how many iterations it is."""
        step: Optional[int] = packet.get("step")
        steps: Optional[int] = packet.get("steps")
        now_ns, iterations = self._moment
        if steps is None:
            return None
        if step is None:
            self._expect(max(0, steps - iterations), iterations)
            return None
        paces = self._paces
        if paces and step < paces[-1][1]:
            paces.clear()  # it counts anew
        paces.append((now_ns, step, iterations))
        first_ns, first_step, first_iterations = paces[0]
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


def _kept(value: Any) -> Any:
    """A value as it is to be read later: as it is now, without what it was computed from, and without waiting for it."""
    try:
        detach = getattr(value, "detach", None)
        if detach is None:
            return value
        kept = detach()
        return kept.item() if kept.device.type == "cpu" and kept.numel() == 1 else kept.clone()
    except Exception:
        return value


def _number(value: Any) -> Any:
    item = getattr(value, "item", None)
    return value if item is None else item()


def _loss(value: Any) -> str:
    """A loss as text, because JSON has no NaN.

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


def _whole(value: Any, rounds: bool) -> int:
    """A count; `rounds` for one that may have a fraction.

    Raises:
        Exception: it is not one, or none from 0 to 2^53.
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
    if not 0 <= number <= MOST_STEPS:
        raise ValueError("out of range")
    return number


def _shown(value: Any) -> str:
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
