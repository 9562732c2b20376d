"""Copies to pinned memory and back, on fake streams: content is intact in any order of work, and no memory is
reused too early."""

from __future__ import annotations

import pytest
from laneway.client.fit import host_pool as module
from laneway.client.fit.host_pool import LARGE_BYTES, PROBE_BYTES, PinnedHostPool, Transfer
from laneway.client.fit.liveness import Liveness, StorageLifetime
from laneway.client.fit.planner import Plan
from laneway.client.fit.policies import FollowPlan, LearnedIteration, OffloadAll
from laneway.client.fit.saved_activations import Handle, SavedActivations

from tests.unit.client.fit.fake_cuda import Device, Tensor, Torch

OUT, IN = 1, 2
"""The pool's streams, in the order in which they are created."""


@pytest.fixture
def torch() -> Torch:
    return Torch()


@pytest.fixture
def device(torch: Torch) -> Device:
    return torch.device


@pytest.fixture
def host(torch: Torch) -> PinnedHostPool:
    return PinnedHostPool(torch)


def hurry(device: Device, eager: bool) -> None:
    """Runs copies as soon as they are queued, or only when waited for."""
    if eager:
        for stream in (device.streams[OUT], device.streams[IN]):
            stream.run()


@pytest.mark.parametrize("eager", [False, True])
def test_computed_content_is_copied_and_read_back(host: PinnedHostPool, device: Device, eager: bool) -> None:
    tensor = device.tensor(b"before")
    copy = host.offload(tensor.untyped_storage())
    hurry(device, eager)
    assert copy.untyped_storage().block.pinned
    del tensor
    after = device.tensor(b"others")  # would get the same memory, if it were free
    transfer = host.fetch(copy, "cuda", prefetch=True)
    hurry(device, eager)
    transfer.wait()
    found = device.read(Tensor(device, transfer.storage))
    device.main.run()
    assert found == [b"before"]
    assert after.untyped_storage().block.content == b"others"
    assert device.waits == 0, "streams wait for one another, and the process for none of them"


def test_the_computation_does_not_wait_for_copies(host: PinnedHostPool, device: Device) -> None:
    copy = host.offload(device.tensor(b"before").untyped_storage())
    transfer = host.fetch(copy, "cuda", prefetch=True)
    after = device.tensor(b"others")
    device.main.run()
    assert after.untyped_storage().block.content == b"others"
    assert [device.streams[number].done for number in (OUT, IN)] == [0, 0]
    transfer.wait()
    device.main.run()
    assert transfer.storage.block.content == b"before", "but from when it is read"


def test_device_memory_is_free_once_it_was_copied(host: PinnedHostPool, device: Device) -> None:
    storage = device.tensor(b"before").untyped_storage()
    block = storage.block
    copy = host.offload(storage)
    del storage
    other = device.allocate(6)
    assert other.block is not block, "the copy has not begun"
    device.streams[OUT].run()
    assert device.allocate(6).block is block
    assert copy.untyped_storage().block.content == b"before"


def test_an_unread_copy_is_not_written_into_reused_memory(host: PinnedHostPool, device: Device) -> None:
    """A backward pass may end early, with copies in progress."""
    copy = host.offload(device.tensor(b"before").untyped_storage())
    device.streams[OUT].run()
    transfer = host.fetch(copy, "cuda", prefetch=True)
    del copy, transfer
    after = device.tensor(b"others")
    device.main.run()
    device.synchronize()
    assert after.untyped_storage().block.content == b"others"


def test_reused_memory_is_filled_after_its_last_owner_is_done(host: PinnedHostPool, device: Device) -> None:
    copy = host.offload(device.tensor(b"before").untyped_storage())
    device.streams[OUT].run()
    given_back = device.tensor(b"others")  # its work has not run when its memory is freed
    block = given_back.untyped_storage().block
    del given_back
    transfer = host.fetch(copy, "cuda", prefetch=True)
    assert transfer.storage.block is block
    device.streams[IN].run()
    device.main.run()
    assert block.content == b"before"


def test_copying_is_timed_once_on_an_idle_device(host: PinnedHostPool, device: Device) -> None:
    rates = host.rates()
    waits = device.waits
    assert waits >= 2
    assert rates.overlaps, "copies go on beside the computation"
    assert rates.copy_bytes_per_second > 0
    assert host.rates() is rates
    assert device.waits == waits
    assert [len(block.content) for block in device.given_back] == [PROBE_BYTES], "the probe's memory is free"


def test_a_large_copy_needs_host_memory(host: PinnedHostPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available_bytes", lambda: LARGE_BYTES)
    assert host.has_capacity(LARGE_BYTES - 1)
    assert not host.has_capacity(LARGE_BYTES)
    monkeypatch.setattr(module, "available_bytes", lambda: None)
    assert host.has_capacity(LARGE_BYTES)


class Iteration:
    """Saved activations on a GPU: operations save their results, and a backward pass reads them in reverse."""

    def __init__(self, torch: Torch) -> None:
        self.device = torch.device
        self.activations = SavedActivations(torch, PinnedHostPool(torch), "cuda")
        self.handles: list[Handle] = []
        self.found: list[list[bytes]] = []

    def forward(self, *contents: bytes) -> None:
        for content in contents:
            self.handles.append(self.activations.pack(self.device.tensor(content)))

    def read_last(self) -> None:
        handle = self.handles.pop()
        self.found.append(self.device.read(self.activations.unpack(handle)))


def planned(prefetch_after: dict[int, tuple[int, ...]]) -> FollowPlan:
    """A plan for three storages of four bytes, all offloaded."""
    storages = tuple(StorageLifetime(4, 0, 1) for _ in range(3))
    plan = Plan(frozenset({0, 1, 2}), frozenset(), prefetch_after, 0, 0.0)
    return FollowPlan([LearnedIteration(Liveness((0, 0), storages), plan, 0)])


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize(("prefetch_after", "prefetched"), [({}, 0), ({2: (1,), 1: (0,)}, 2)])
def test_storages_are_offloaded_prefetched_and_read_as_they_were(
    torch: Torch, eager: bool, prefetch_after: dict[int, tuple[int, ...]], prefetched: int
) -> None:
    iteration = Iteration(torch)
    iteration.activations.start(planned(prefetch_after), None)
    iteration.forward(b"aaaa", b"bbbb", b"cccc")
    hurry(torch.device, eager)
    assert iteration.activations.kept() == []
    for _ in range(3):
        iteration.read_last()
        hurry(torch.device, eager)
    torch.device.main.run()
    assert iteration.found == [[b"cccc"], [b"bbbb"], [b"aaaa"]]
    assert iteration.activations.prefetched == prefetched
    assert torch.device.waits == 0


def test_storages_used_by_the_backward_pass_are_freed_on_the_device(torch: Torch) -> None:
    iteration = Iteration(torch)
    iteration.activations.start(OffloadAll(), None)
    iteration.forward(b"aaaa")
    iteration.read_last()
    torch.device.synchronize()
    assert iteration.found == [[b"aaaa"]]
    assert all(block.is_free() for block in torch.device.given_back)
    assert len(torch.device.given_back) == 2, "where it was computed, and where it came back to"


def test_a_failed_prefetch_is_fetched_when_read(torch: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    iteration = Iteration(torch)
    bring = iteration.activations.host.fetch

    def bring_late(copy: Tensor, device: Device, prefetch: bool) -> Transfer:
        if prefetch:
            raise RuntimeError("CUDA out of memory")
        return bring(copy, device, prefetch)

    monkeypatch.setattr(iteration.activations.host, "fetch", bring_late)
    iteration.activations.start(planned({2: (1,), 1: (0,)}), None)
    iteration.forward(b"aaaa", b"bbbb", b"cccc")
    for _ in range(3):
        iteration.read_last()
    torch.device.main.run()
    assert iteration.found == [[b"cccc"], [b"bbbb"], [b"aaaa"]]
    assert iteration.activations.prefetched == 0
