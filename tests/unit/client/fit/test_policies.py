"""What is offloaded in an iteration: what the matching plan says, or what memory pressure requires."""

from __future__ import annotations

import pytest
from laneway.client.fit.host_pool import SimulatedHostPool
from laneway.client.fit.liveness import Liveness, StorageLifetime
from laneway.client.fit.memory_fit import MemoryFit, Mode, Stage
from laneway.client.fit.planner import Plan
from laneway.client.fit.policies import FollowPlan, LearnedIteration, OffloadUnderPressure
from laneway.client.fit.saved_activations import SavedActivations, SavedStorage


class Storage:
    """The used part of torch.UntypedStorage."""

    device = "cpu"

    def __init__(self, size: int) -> None:
        self.size = size

    def nbytes(self) -> int:
        return self.size


def known(*sizes: int, away: set[int], fetch: dict[int, tuple[int, ...]] | None = None) -> LearnedIteration:
    storages = tuple(StorageLifetime(size, 0, 1) for size in sizes)
    return LearnedIteration(
        Liveness((0, 0), storages), Plan(frozenset(away), frozenset(), fetch or {}, 0, 0.0), 0
    )


def leaving(policy: FollowPlan, *sizes: int) -> list[bool]:
    """Returns the policy's decisions for these storages in order."""
    storages = [Storage(size) for size in sizes]
    return [
        policy.should_offload(SavedStorage(number, storage, 0)) for number, storage in enumerate(storages)
    ]


def test_an_iteration_follows_the_matching_plan() -> None:
    small, large = known(10, 20, away={0}), known(10, 40, away={1}, fetch={0: (1,)})
    policy = FollowPlan([small, large])
    assert leaving(policy, 10, 40) == [True, True], "the first decides until they differ"
    assert policy.followed is large
    assert policy.prefetch_after(0) == (1,)
    assert not policy.is_mismatch


@pytest.mark.parametrize("sizes", [(10, 21), (10, 20, 5)])
def test_after_a_mismatch_everything_is_offloaded(sizes: tuple[int, ...]) -> None:
    policy = FollowPlan([known(10, 20, away=set())])
    assert leaving(policy, *sizes)[-1] is True
    assert policy.is_mismatch
    assert policy.followed is None
    assert policy.prefetch_after(0) == ()


class Shelf:
    """Saved activations; offloaded ones become free memory."""

    def __init__(self, *sizes: int) -> None:
        storages = [Storage(size) for size in sizes]
        self.all = [SavedStorage(number, storage, 0) for number, storage in enumerate(storages)]
        self.sent: list[int] = []

    def kept(self) -> list[SavedStorage]:
        return [saved for saved in self.all if saved.number not in self.sent]

    def offload(self, saved: SavedStorage) -> bool:
        self.sent.append(saved.number)
        return True

    def held(self) -> int:
        return sum(saved.size for saved in self.kept())


def test_under_pressure_the_oldest_is_offloaded_first_and_no_more_than_necessary() -> None:
    shelf = Shelf(10, 10, 10, 10)
    policy = OffloadUnderPressure(shelf, shelf.held, 65)  # type: ignore[arg-type]
    assert not policy.should_offload(shelf.all[-1])
    assert shelf.sent == [0, 1], "four times the largest is left free"
    assert policy.has_offloaded


def test_without_pressure_nothing_is_offloaded() -> None:
    shelf = Shelf(10, 10)
    policy = OffloadUnderPressure(shelf, shelf.held, 1000)  # type: ignore[arg-type]
    assert not policy.should_offload(shelf.all[-1])
    assert not shelf.sent
    assert not policy.has_offloaded


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
    ("mode", "stage"), [(Mode.AUTO, Stage.OBSERVE), (Mode.OFFLOAD, Stage.WARM_UP), (Mode.OFF, Stage.IDLE)]
)
def test_a_budget_starts_the_stage_of_its_mode(mode: Mode, stage: Stage) -> None:
    fit = MemoryFit(None, mode, lambda: (0, 0), lambda: None)
    assert fit.stage is Stage.IDLE
    fit.set_budget(1000, "cpu")
    assert fit.stage is stage


class Tensor:
    """A tensor whose storage cannot be inspected."""

    _version = 3
    dtype = "float32"


def test_an_internal_error_leaves_tensors_to_autograd() -> None:
    activations = SavedActivations(None, SimulatedHostPool(None), "cpu")
    activations.start(FollowPlan([]), None)
    tensor = Tensor()
    handle = activations.pack(tensor)
    assert activations.failed
    assert activations.unpack(handle) is tensor
    assert activations.unpack(activations.pack(tensor)) is tensor


def test_a_kept_tensor_changed_in_place_is_rejected_as_by_pytorch() -> None:
    class Changed(Tensor):
        shape = (2, 2)

        def type(self) -> str:
            return "torch.FloatTensor"

    activations = SavedActivations(None, SimulatedHostPool(None), "cpu")
    tensor = Changed()
    handle = activations.pack(tensor)
    tensor._version = 4
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        activations.unpack(handle)
