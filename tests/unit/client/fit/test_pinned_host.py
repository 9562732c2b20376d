"""Copies to pinned memory and back, on streams by hand: content arrives whole whatever is done first, and no memory is used again too early."""

from __future__ import annotations

import pytest
from laneway.client.fit import host as module
from laneway.client.fit.custody import Custody, Handle
from laneway.client.fit.host import LARGE_BYTES, PROBE_BYTES, Arrival, PinnedHost
from laneway.client.fit.liveness import Liveness, SavedStorage
from laneway.client.fit.planner import Plan
from laneway.client.fit.policies import Everything, Known, Planned

from tests.unit.client.fit.fake_cuda import Device, Tensor, Torch

OUT, IN = 1, 2
"""The host's streams, in the order in which they are made."""


@pytest.fixture
def torch() -> Torch:
    return Torch()


@pytest.fixture
def device(torch: Torch) -> Device:
    return torch.device


@pytest.fixture
def host(torch: Torch) -> PinnedHost:
    return PinnedHost(torch)


def hurry(device: Device, eager: bool) -> None:
    """Copies may run the moment they are given, or not before somebody waits for them."""
    if eager:
        for stream in (device.streams[OUT], device.streams[IN]):
            stream.run()


@pytest.mark.parametrize("eager", [False, True])
def test_what_was_computed_is_what_is_copied_and_what_is_read(
    host: PinnedHost, device: Device, eager: bool
) -> None:
    tensor = device.tensor(b"before")
    copy = host.send(tensor.untyped_storage())
    hurry(device, eager)
    assert copy.untyped_storage().block.pinned
    del tensor
    after = device.tensor(b"others")  # would be in the same memory, if that were free
    arrival = host.bring(copy, "cuda", ahead=True)
    hurry(device, eager)
    arrival.wait()
    found = device.read(Tensor(device, arrival.storage))
    device.main.run()
    assert found == [b"before"]
    assert after.untyped_storage().block.content == b"others"
    assert device.waits == 0, "streams wait for one another, and the process for none of them"


def test_the_computation_does_not_wait_for_copies(host: PinnedHost, device: Device) -> None:
    copy = host.send(device.tensor(b"before").untyped_storage())
    arrival = host.bring(copy, "cuda", ahead=True)
    after = device.tensor(b"others")
    device.main.run()
    assert after.untyped_storage().block.content == b"others"
    assert [device.streams[number].done for number in (OUT, IN)] == [0, 0]
    arrival.wait()
    device.main.run()
    assert arrival.storage.block.content == b"before", "but from when it is read"


def test_memory_of_the_device_is_free_again_once_it_was_copied(host: PinnedHost, device: Device) -> None:
    storage = device.tensor(b"before").untyped_storage()
    block = storage.block
    copy = host.send(storage)
    del storage
    other = device.allocate(6)
    assert other.block is not block, "the copy has not begun"
    device.streams[OUT].run()
    assert device.allocate(6).block is block
    assert copy.untyped_storage().block.content == b"before"


def test_what_nobody_reads_in_the_end_is_not_written_into_the_memory_of_others(
    host: PinnedHost, device: Device
) -> None:
    """A backward pass may end early, with copies on their way."""
    copy = host.send(device.tensor(b"before").untyped_storage())
    device.streams[OUT].run()
    arrival = host.bring(copy, "cuda", ahead=True)
    del copy, arrival
    after = device.tensor(b"others")
    device.main.run()
    device.synchronize()
    assert after.untyped_storage().block.content == b"others"


def test_memory_whose_last_owner_is_not_done_is_filled_after_that(host: PinnedHost, device: Device) -> None:
    copy = host.send(device.tensor(b"before").untyped_storage())
    device.streams[OUT].run()
    given_back = device.tensor(b"others")  # its work has not run yet when its memory is free
    block = given_back.untyped_storage().block
    del given_back
    arrival = host.bring(copy, "cuda", ahead=True)
    assert arrival.storage.block is block
    device.streams[IN].run()
    device.main.run()
    assert block.content == b"before"


def test_copying_is_timed_once_with_the_device_at_rest(host: PinnedHost, device: Device) -> None:
    rates = host.rates()
    waits = device.waits
    assert waits >= 2
    assert rates.overlaps, "copies go on beside the computation"
    assert rates.copy_bytes_per_second > 0
    assert host.rates() is rates
    assert device.waits == waits
    assert [len(block.content) for block in device.given_back] == [PROBE_BYTES], "the probe's memory is free"


def test_a_large_copy_needs_room_on_the_host(host: PinnedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "room_bytes", lambda: LARGE_BYTES)
    assert host.has_room(LARGE_BYTES - 1)
    assert not host.has_room(LARGE_BYTES)
    monkeypatch.setattr(module, "room_bytes", lambda: None)
    assert host.has_room(LARGE_BYTES)


class Iteration:
    """Custody on a GPU: operations that save their results, and a backward pass that wants them the other way round."""

    def __init__(self, torch: Torch) -> None:
        self.device = torch.device
        self.custody = Custody(torch, PinnedHost(torch), "cuda")
        self.handles: list[Handle] = []
        self.found: list[list[bytes]] = []

    def forward(self, *contents: bytes) -> None:
        for content in contents:
            self.handles.append(self.custody.pack(self.device.tensor(content)))

    def read_last(self) -> None:
        handle = self.handles.pop()
        self.found.append(self.device.read(self.custody.unpack(handle)))


def planned(fetch_after: dict[int, tuple[int, ...]]) -> Planned:
    """Three storages of four bytes, all away."""
    storages = tuple(SavedStorage(4, 0, 1) for _ in range(3))
    plan = Plan(frozenset({0, 1, 2}), frozenset(), fetch_after, 0, 0.0)
    return Planned([Known(Liveness((0, 0), storages), plan, 0)])


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize(("fetch_after", "ahead"), [({}, 0), ({2: (1,), 1: (0,)}, 2)])
def test_custody_sends_fetches_ahead_and_reads_what_was_saved(
    torch: Torch, eager: bool, fetch_after: dict[int, tuple[int, ...]], ahead: int
) -> None:
    iteration = Iteration(torch)
    iteration.custody.start(planned(fetch_after), None)
    iteration.forward(b"aaaa", b"bbbb", b"cccc")
    hurry(torch.device, eager)
    assert iteration.custody.kept() == []
    for _ in range(3):
        iteration.read_last()
        hurry(torch.device, eager)
    torch.device.main.run()
    assert iteration.found == [[b"cccc"], [b"bbbb"], [b"aaaa"]]
    assert iteration.custody.fetched_ahead == ahead
    assert torch.device.waits == 0


def test_what_the_backward_pass_is_done_with_is_free_on_the_device(torch: Torch) -> None:
    iteration = Iteration(torch)
    iteration.custody.start(Everything(), None)
    iteration.forward(b"aaaa")
    iteration.read_last()
    torch.device.synchronize()
    assert iteration.found == [[b"aaaa"]]
    assert all(block.is_free() for block in torch.device.given_back)
    assert len(torch.device.given_back) == 2, "where it was computed, and where it came back to"


def test_a_copy_that_finds_no_room_on_the_device_ahead_comes_when_it_is_read(
    torch: Torch, monkeypatch: pytest.MonkeyPatch
) -> None:
    iteration = Iteration(torch)
    bring = iteration.custody.host.bring

    def bring_late(copy: Tensor, device: Device, ahead: bool) -> Arrival:
        if ahead:
            raise RuntimeError("CUDA out of memory")
        return bring(copy, device, ahead)

    monkeypatch.setattr(iteration.custody.host, "bring", bring_late)
    iteration.custody.start(planned({2: (1,), 1: (0,)}), None)
    iteration.forward(b"aaaa", b"bbbb", b"cccc")
    for _ in range(3):
        iteration.read_last()
    torch.device.main.run()
    assert iteration.found == [[b"cccc"], [b"bbbb"], [b"aaaa"]]
    assert iteration.custody.fetched_ahead == 0
