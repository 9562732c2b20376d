"""SIGTERM: noted at once, delivered between two iterations, at the latest by the deadline."""

from __future__ import annotations

import signal
import sys
import weakref
from collections.abc import Callable, Iterator

import pytest
from laneway.client.common_boundary import STOP
from laneway.client.stop_signal import SETTLE_SECONDS, Deferral, StopSignal

TIMEOUT_SECONDS = 20.0


class Case:
    """A stop signal with a clock that stands still, in the process that runs the test."""

    def __init__(self) -> None:
        self.now_seconds = 1000.0
        self.woken = 0
        self.calls: list[str] = []
        self.stop = StopSignal(TIMEOUT_SECONDS, self._wake, lambda: self.now_seconds)

    def _wake(self) -> None:
        self.woken += 1

    def handler(self, name: str) -> Callable[[int, object], None]:
        return lambda signum, frame: self.calls.append(name)

    def begin(self) -> None:
        """As the gate does before an iteration."""
        self.stop.adopt()
        self.stop.deliver()
        self.stop.inside = True

    def end(self) -> None:
        self.stop.inside = False
        self.stop.boundary_ns = int(self.now_seconds * 1e9)


@pytest.fixture
def case() -> Iterator[Case]:
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield Case()
    signal.signal(signal.SIGTERM, before)


def terminate() -> None:
    signal.raise_signal(signal.SIGTERM)


def test_nothing_is_touched_before_the_first_iteration(case: Case) -> None:
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_script_without_a_handler_exits_before_the_next_iteration(case: Case) -> None:
    case.begin()
    terminate()
    assert case.stop.requested
    case.end()
    with pytest.raises(SystemExit) as exited:
        case.begin()
    assert exited.value.code == 143


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_scripts_own_handler_is_called_between_iterations(case: Case, when: str) -> None:
    if when == "before":
        signal.signal(signal.SIGTERM, case.handler("own"))
        case.begin()
    else:
        case.begin()
        case.end()
        signal.signal(signal.SIGTERM, case.handler("own"))
        case.begin()
    terminate()
    assert case.calls == []
    case.end()
    assert case.calls == []
    case.begin()
    assert case.calls == ["own"]


def test_it_is_delivered_once(case: Case) -> None:
    signal.signal(signal.SIGTERM, case.handler("own"))
    case.begin()
    terminate()
    terminate()
    for _ in range(3):
        case.end()
        case.begin()
    assert case.calls == ["own"]
    assert case.stop.requested


def test_it_is_delivered_at_once_long_after_a_boundary(case: Case) -> None:
    signal.signal(signal.SIGTERM, case.handler("own"))
    case.begin()
    case.end()
    case.now_seconds += SETTLE_SECONDS
    terminate()
    assert case.calls == ["own"]


def test_right_after_a_boundary_the_scripts_bookkeeping_is_waited_for(case: Case) -> None:
    signal.signal(signal.SIGTERM, case.handler("own"))
    case.begin()
    case.end()
    case.now_seconds += SETTLE_SECONDS / 2
    terminate()
    assert case.calls == []
    assert case.woken == 1
    assert case.stop.patience() == pytest.approx(SETTLE_SECONDS / 2)
    case.now_seconds += SETTLE_SECONDS / 2
    case.stop.patience()
    assert case.calls == ["own"], "the listening thread sent it anew"


def test_an_iteration_that_does_not_end_is_interrupted_at_the_deadline(case: Case) -> None:
    signal.signal(signal.SIGTERM, case.handler("own"))
    case.begin()
    terminate()
    case.now_seconds += TIMEOUT_SECONDS - 1
    assert case.stop.patience() == pytest.approx(1)
    assert case.calls == []
    case.now_seconds += 1
    case.stop.patience()
    assert case.calls == ["own"]


def test_a_handler_that_calls_the_one_before_it_reaches_that(case: Case) -> None:
    signal.signal(signal.SIGTERM, case.handler("first"))
    case.begin()
    case.end()
    before = signal.getsignal(signal.SIGTERM)

    def second(signum: int, frame: object) -> None:
        case.calls.append("second")
        assert callable(before)
        before(signum, None)

    signal.signal(signal.SIGTERM, second)
    case.begin()
    terminate()
    case.end()
    case.begin()
    assert case.calls == ["second", "first"]


def test_a_handler_that_is_put_back_is_in_force_again(case: Case) -> None:
    signal.signal(signal.SIGTERM, case.handler("first"))
    case.begin()
    case.end()
    before = signal.signal(signal.SIGTERM, case.handler("second"))
    case.begin()
    case.end()
    signal.signal(signal.SIGTERM, before)
    case.begin()
    terminate()
    case.end()
    case.begin()
    assert case.calls == ["first"]


def test_a_script_that_ignores_sigterm_goes_on_ignoring_it(case: Case) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    case.begin()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_a_script_that_asks_whether_it_is_to_stop_is_not_ended(case: Case) -> None:
    assert case.stop.watch() is False
    case.begin()
    terminate()
    case.end()
    assert case.stop.watch() is True
    case.begin()
    assert not case.stop.pending


def test_what_the_handler_raises_goes_through_and_is_known_to_be_its_own(case: Case) -> None:
    def fail(signum: int, frame: object) -> None:
        raise ValueError("the script's own")

    signal.signal(signal.SIGTERM, fail)
    case.begin()
    terminate()
    case.end()
    with pytest.raises(ValueError, match="the script's own") as raised:
        case.begin()
    assert case.stop.raised is raised.value


def test_a_forked_child_gets_the_scripts_handler_back(case: Case) -> None:
    own = case.handler("own")
    signal.signal(signal.SIGTERM, own)
    case.begin()
    assert isinstance(signal.getsignal(signal.SIGTERM), Deferral)
    case.stop.restore()
    assert signal.getsignal(signal.SIGTERM) is own


def test_an_exit_that_python_drops_comes_again(case: Case) -> None:
    """The signal comes in a weak reference's callback, as the import system has them: what is raised there goes nowhere."""

    class Watched:
        pass

    case.begin()
    case.end()
    case.now_seconds += SETTLE_SECONDS + 1
    watched = Watched()
    reference = weakref.ref(watched, lambda _: terminate())
    before = sys.unraisablehook
    del watched
    assert reference() is None
    assert case.stop.pending
    assert sys.unraisablehook is before
    with pytest.raises(SystemExit) as leaving:
        case.begin()
    assert leaving.value.code == 143
    sys.unraisablehook = before


class AgreedGang:
    """Ranks that have agreed on a boundary: stands in for a `CommonBoundary`, whose own tests show that it keeps its word."""

    def __init__(self, common: int) -> None:
        self.common = common

    def arrive(self, at: int, setting_out: bool = True) -> str | None:
        return STOP if at >= self.common else None


def meet(case: Case, gang: AgreedGang, iterations: int) -> None:
    """As the hooks do before an iteration."""
    case.stop.iterations = lambda: iterations
    if case.stop.gang is not None:
        case.stop.meet(gang)  # type: ignore[arg-type]
    case.begin()


@pytest.mark.parametrize("signalled", [True, False])
def test_a_rank_is_told_at_the_common_boundary_whether_or_not_the_signal_was_its_own(
    case: Case, signalled: bool
) -> None:
    signal.signal(signal.SIGTERM, case.handler("own"))
    gang = AgreedGang(3)
    case.stop.gang = gang  # type: ignore[assignment]
    meet(case, gang, 1)
    if signalled:
        terminate()
    for iterations in (2, 3):
        assert case.calls == []
        case.end()
        meet(case, gang, iterations)
    assert case.calls == ["own"]
    if not signalled:
        terminate()
        case.end()
        meet(case, gang, 4)
        assert case.calls == ["own"], "its own signal comes later, and is no news"


def test_a_rank_of_a_gang_that_does_not_agree_is_told_at_its_deadline(case: Case) -> None:
    signal.signal(signal.SIGTERM, case.handler("own"))
    case.stop.gang = AgreedGang(1_000)  # type: ignore[assignment]
    case.begin()
    case.end()
    terminate()
    case.now_seconds += TIMEOUT_SECONDS - 1
    case.stop.patience()
    assert case.calls == []
    case.now_seconds += 1
    case.stop.patience()
    assert case.calls == ["own"]
