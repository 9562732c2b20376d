"""A container that uses a new process for each turn gets only its share of the lane's time."""

from __future__ import annotations

import pytest

from tests.support.node_agent.gpu_bench import GPUBench, Process

ROUNDS = 60
SIZES = (50, 300)


def replace(process: Process) -> Process:
    """End a process while it holds its turn, and continue in another one of its container."""
    process.die()
    successor = process.bench.process(process.lease)
    successor.profile(*SIZES)
    successor.request()
    return successor


@pytest.mark.parametrize("hold_seconds", [0.02, 0.4])
@pytest.mark.parametrize("others", [1, 2])
def test_a_process_for_each_turn_gains_nothing(hold_seconds: float, others: int) -> None:
    bench = GPUBench(max_lanes=1, quantum_seconds=0.02)
    processes = [bench.job(f"p{number}", *SIZES) for number in range(1 + others)]
    seconds = [0.0] * len(processes)
    for process in processes:
        process.request()
    while min(seconds) < ROUNDS * hold_seconds:
        number = next(number for number, each in enumerate(processes) if each.holds_turn)
        process, began = processes[number], bench.clock.now
        process.begin()
        bench.clock.advance(hold_seconds if number == 0 else 0.01)
        process.end()
        seconds[number] += bench.clock.now - began
        if number == 0:
            processes[0] = replace(process)
        elif process.asked_to_yield:
            process.release()
            process.request()
    assert max(seconds) - min(seconds) <= hold_seconds + 0.04, seconds


def test_a_process_for_each_turn_pays_for_the_gaps_that_it_filled_too() -> None:
    """Its neighbour pauses at the beginning of each other turn, as a process does that the kernel does not schedule."""
    bench = GPUBench(max_lanes=1, quantum_seconds=0.02)
    hog, other = (bench.job(pod, *SIZES, percent=50) for pod in ("hog", "other"))
    hog.request()
    other.request()
    hog_seconds = other_seconds = 0.0
    pauses = False
    while hog_seconds < ROUNDS * 0.4:
        began = bench.clock.now
        if hog.holds_turn:
            hog.begin()
            bench.clock.advance(0.4)
            hog.end()
            hog_seconds += bench.clock.now - began
            hog, pauses = replace(hog), not pauses
            continue
        if pauses:
            bench.clock.advance(0.012)
        if not other.asked_to_yield:
            other.begin()
            bench.clock.advance(0.01)
            other.end()
        pauses = False
        other_seconds += bench.clock.now - began
        if other.asked_to_yield:
            other.release()
            other.request()
    assert hog_seconds - other_seconds <= 2 * 0.4 + 0.04
