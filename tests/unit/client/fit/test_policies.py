"""What leaves in an iteration: what the plan of a known one says, as long as it resembles one; or what has to."""

from __future__ import annotations

import pytest
from laneway.client.fit.custody import Custody, Saved
from laneway.client.fit.fit import Fit, Mode, Stage
from laneway.client.fit.host import SimulatedHost
from laneway.client.fit.liveness import Liveness, SavedStorage
from laneway.client.fit.planner import Plan
from laneway.client.fit.policies import Known, Planned, UnderPressure


class Storage:
    """As much of a torch.UntypedStorage as is looked at."""

    device = "cpu"

    def __init__(self, size: int) -> None:
        self.size = size

    def nbytes(self) -> int:
        return self.size


def known(*sizes: int, away: set[int], fetch: dict[int, tuple[int, ...]] | None = None) -> Known:
    storages = tuple(SavedStorage(size, 0, 1) for size in sizes)
    return Known(Liveness((0, 0), storages), Plan(frozenset(away), frozenset(), fetch or {}, 0, 0.0), 0)


def leaving(policy: Planned, *sizes: int) -> list[bool]:
    """What the policy says of one storage after the other."""
    storages = [Storage(size) for size in sizes]
    return [policy.leaves(Saved(number, storage, 0)) for number, storage in enumerate(storages)]


def test_an_iteration_follows_the_plan_of_the_one_it_resembles() -> None:
    small, large = known(10, 20, away={0}), known(10, 40, away={1}, fetch={0: (1,)})
    policy = Planned([small, large])
    assert leaving(policy, 10, 40) == [True, True], "the first decides until they differ"
    assert policy.followed is large
    assert policy.fetch_after(0) == (1,)
    assert not policy.surprised


@pytest.mark.parametrize("sizes", [(10, 21), (10, 20, 5)])
def test_of_a_surprise_everything_leaves(sizes: tuple[int, ...]) -> None:
    policy = Planned([known(10, 20, away=set())])
    assert leaving(policy, *sizes)[-1] is True
    assert policy.surprised
    assert policy.followed is None
    assert policy.fetch_after(0) == ()


class Shelf:
    """Custody of storages, each of which is free memory once it was sent."""

    def __init__(self, *sizes: int) -> None:
        storages = [Storage(size) for size in sizes]
        self.all = [Saved(number, storage, 0) for number, storage in enumerate(storages)]
        self.sent: list[int] = []

    def kept(self) -> list[Saved]:
        return [saved for saved in self.all if saved.number not in self.sent]

    def send(self, saved: Saved) -> bool:
        self.sent.append(saved.number)
        return True

    def held(self) -> int:
        return sum(saved.size for saved in self.kept())


def test_under_pressure_the_oldest_leaves_first_and_no_more_than_has_to() -> None:
    shelf = Shelf(10, 10, 10, 10)
    policy = UnderPressure(shelf, shelf.held, 65)  # type: ignore[arg-type]
    assert not policy.leaves(shelf.all[-1])
    assert shelf.sent == [0, 1], "four times the largest is left free"
    assert policy.pressed


def test_without_pressure_nothing_leaves() -> None:
    shelf = Shelf(10, 10)
    policy = UnderPressure(shelf, shelf.held, 1000)  # type: ignore[arg-type]
    assert not policy.leaves(shelf.all[-1])
    assert not shelf.sent
    assert not policy.pressed


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("Offload", Mode.OFFLOAD),
        ("recompute ", Mode.RECOMPUTE),
        ("Off", Mode.OFF),
        ("", Mode.AUTO),
        ("?", Mode.AUTO),
    ],
)
def test_a_mode_is_read_by_its_name(text: str, mode: Mode) -> None:
    assert Mode.read(text) is mode


@pytest.mark.parametrize(
    ("mode", "stage"), [(Mode.AUTO, Stage.WATCH), (Mode.OFFLOAD, Stage.WARM), (Mode.OFF, Stage.IDLE)]
)
def test_a_limit_starts_what_its_mode_says(mode: Mode, stage: Stage) -> None:
    fit = Fit(None, mode, lambda: (0, 0), lambda: None)
    assert fit.stage is Stage.IDLE
    fit.limit(1000, "cpu")
    assert fit.stage is stage


class Tensor:
    """A tensor that custody cannot look into."""

    _version = 3
    dtype = "float32"


def test_a_fault_of_ours_leaves_the_tensor_to_autograd_and_ends_our_part() -> None:
    custody = Custody(None, SimulatedHost(None), "cpu")
    custody.start(Planned([]), None)
    tensor = Tensor()
    handle = custody.pack(tensor)
    assert custody.failed
    assert custody.unpack(handle) is tensor
    assert custody.unpack(custody.pack(tensor)) is tensor


def test_a_kept_tensor_that_was_changed_in_place_is_refused_as_pytorch_does() -> None:
    class Changed(Tensor):
        shape = (2, 2)

        def type(self) -> str:
            return "torch.FloatTensor"

    custody = Custody(None, SimulatedHost(None), "cpu")
    tensor = Changed()
    handle = custody.pack(tensor)
    tensor._version = 4
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        custody.unpack(handle)
