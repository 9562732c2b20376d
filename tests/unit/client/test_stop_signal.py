"""SIGTERM is recorded at once and delivered between two iterations, at the latest by the deadline."""

from __future__ import annotations

import signal
import sys
import weakref
from collections.abc import Callable, Iterator

import pytest
from laneway.client.boundary.stop_signal import SETTLE_SECONDS, DeferredHandler, StopSignal
from laneway.client.distributed.common_boundary import STOP

TIMEOUT_SECONDS = 20.0


class Case:
    """A stop signal with a stopped clock, in the test's own process."""

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
        """Does what the iteration guard does before an iteration."""
        self.stop.wrap_handler()
        self.stop.deliver()
        self.stop.in_iteration = True

    def end(self) -> None:
        self.stop.in_iteration = False
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


def test_right_after_a_boundary_it_waits_for_the_scripts_bookkeeping(case: Case) -> None:
    signal.signal(signal.SIGTERM, case.handler("own"))
    case.begin()
    case.end()
    case.now_seconds += SETTLE_SECONDS / 2
    terminate()
    assert case.calls == []
    assert case.woken == 1
    assert case.stop.get_timeout() == pytest.approx(SETTLE_SECONDS / 2)
    case.now_seconds += SETTLE_SECONDS / 2
    case.stop.get_timeout()
    assert case.calls == ["own"], "the listening thread sent it again"


def test_an_endless_iteration_is_interrupted_at_the_deadline(case: Case) -> None:
    signal.signal(signal.SIGTERM, case.handler("own"))
    case.begin()
    terminate()
    case.now_seconds += TIMEOUT_SECONDS - 1
    assert case.stop.get_timeout() == pytest.approx(1)
    assert case.calls == []
    case.now_seconds += 1
    case.stop.get_timeout()
    assert case.calls == ["own"]


def test_a_handler_that_calls_its_predecessor_reaches_it(case: Case) -> None:
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


def test_a_restored_handler_is_in_force_again(case: Case) -> None:
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


def test_a_script_that_ignores_sigterm_continues_to(case: Case) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    case.begin()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_a_script_that_calls_stopping_is_not_ended(case: Case) -> None:
    assert case.stop.poll() is False
    case.begin()
    terminate()
    case.end()
    assert case.stop.poll() is True
    case.begin()
    assert not case.stop.pending


def test_the_handlers_exception_passes_through_and_is_recognised(case: Case) -> None:
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
    assert isinstance(signal.getsignal(signal.SIGTERM), DeferredHandler)
    case.stop.restore_handler()
    assert signal.getsignal(signal.SIGTERM) is own


def test_an_exit_dropped_by_python_is_raised_again(case: Case) -> None:
    """The signal comes in a weak reference's callback, as the import system has them; Python drops exceptions
    raised there."""

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
    """Ranks that have agreed on a boundary; stands in for `CommonBoundary`, which has its own tests."""

    def __init__(self, common: int) -> None:
        self.common = common

    def arrive(self, at: int, continuing: bool = True) -> str | None:
        return STOP if at >= self.common else None


def sync_with_gang(case: Case, gang: AgreedGang, iterations: int) -> None:
    """Does what the hooks do before an iteration."""
    case.stop.iterations = lambda: iterations
    if case.stop.gang is not None:
        case.stop.sync_with_gang(gang)  # type: ignore[arg-type]
    case.begin()


@pytest.mark.parametrize("signalled", [True, False])
def test_every_rank_stops_at_the_common_boundary_with_or_without_its_own_signal(
    case: Case, signalled: bool
) -> None:
    signal.signal(signal.SIGTERM, case.handler("own"))
    gang = AgreedGang(3)
    case.stop.gang = gang  # type: ignore[assignment]
    sync_with_gang(case, gang, 1)
    if signalled:
        terminate()
    for iterations in (2, 3):
        assert case.calls == []
        case.end()
        sync_with_gang(case, gang, iterations)
    assert case.calls == ["own"]
    if not signalled:
        terminate()
        case.end()
        sync_with_gang(case, gang, 4)
        assert case.calls == ["own"], "its own signal comes later and is not delivered again"


def test_a_rank_without_agreement_stops_at_its_deadline(case: Case) -> None:
    signal.signal(signal.SIGTERM, case.handler("own"))
    case.stop.gang = AgreedGang(1_000)  # type: ignore[assignment]
    case.begin()
    case.end()
    terminate()
    case.now_seconds += TIMEOUT_SECONDS - 1
    case.stop.get_timeout()
    assert case.calls == []
    case.now_seconds += 1
    case.stop.get_timeout()
    assert case.calls == ["own"]
