"""The possible enforcement level of a GPU, and the reason if it is not the requested one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from laneway.api.enforcement import Enforcement
from laneway.node_agent.enforcement.capability import no_eviction_reason
from laneway.node_agent.enforcement.interposer import no_interposer_reason
from laneway.node_agent.enforcement.levels import (
    Level,
    LevelInputs,
    level_of,
    level_of_container,
    with_level,
)
from laneway.node_agent.enforcement.mps_limits_file import ConfirmedLimit
from laneway.node_agent.gpus.protocol import GPUReading

from tests.support.device_plugin.builders import gpu

COOPERATIVE, WATCHDOG = Enforcement.COOPERATIVE, Enforcement.WATCHDOG
INTERPOSER, MPS = Enforcement.INTERPOSER, Enforcement.MPS
SEEN = GPUReading(used_bytes=0, exclusive_process=True, compute_capability=(7, 0))
LIMIT = ConfirmedLimit(gpu="GPU-0", limit_bytes=1 << 30, since_ticks=7)
ALL = LevelInputs(SEEN)


@pytest.mark.parametrize(
    ("asked", "means", "want"),
    [
        (MPS, ALL, Level(MPS, interposer=True)),
        (MPS, replace(ALL, mps_limit=LIMIT), Level(MPS, interposer=True, mps_limit=LIMIT)),
        (
            MPS,
            LevelInputs(SEEN, no_mps="a limit is lost", mps_limit=LIMIT),
            Level(INTERPOSER, "no MPS: a limit is lost", interposer=True),
        ),
        (INTERPOSER, ALL, Level(INTERPOSER, interposer=True)),
        (WATCHDOG, ALL, Level(WATCHDOG)),
        (COOPERATIVE, ALL, Level(COOPERATIVE)),
        (
            MPS,
            LevelInputs(SEEN, no_mps="there is none"),
            Level(INTERPOSER, "no MPS: there is none", interposer=True),
        ),
        (
            MPS,
            LevelInputs(SEEN, no_mps="there is none", no_interposer="it is missing"),
            Level(WATCHDOG, "no MPS: there is none; no interposer: it is missing"),
        ),
        (MPS, LevelInputs(SEEN, no_interposer="it is missing"), Level(MPS)),
        (
            INTERPOSER,
            LevelInputs(SEEN, no_interposer="it is missing"),
            Level(WATCHDOG, "no interposer: it is missing"),
        ),
        (WATCHDOG, LevelInputs(SEEN, no_interposer="it is missing"), Level(WATCHDOG)),
        (
            INTERPOSER,
            LevelInputs(SEEN, no_eviction="it may not"),
            Level(COOPERATIVE, "no watchdog: it may not", interposer=True),
        ),
        (
            INTERPOSER,
            LevelInputs(None, "it hangs", no_interposer="it is missing"),
            Level(COOPERATIVE, "no watchdog: it hangs"),
        ),
        (WATCHDOG, LevelInputs(SEEN, no_mps="there is none"), Level(WATCHDOG)),
        (WATCHDOG, LevelInputs(None, "it hangs"), Level(COOPERATIVE, "no watchdog: it hangs")),
        (
            MPS,
            LevelInputs(None, "it hangs"),
            Level(COOPERATIVE, "no watchdog: it hangs", interposer=True),
        ),
        (
            MPS,
            LevelInputs(replace(SEEN, processes_hidden="they are hidden")),
            Level(COOPERATIVE, "no watchdog: they are hidden", interposer=True),
        ),
        (
            WATCHDOG,
            LevelInputs(SEEN, no_eviction="it may not"),
            Level(COOPERATIVE, "no watchdog: it may not"),
        ),
        (COOPERATIVE, LevelInputs(None, "it hangs"), Level(COOPERATIVE)),
    ],
)
def test_an_impossible_level_falls_to_the_next_lower_one_with_the_reason(
    asked: Enforcement, means: LevelInputs, want: Level
) -> None:
    assert level_of(asked, means) == want


def test_a_gpu_that_allows_bypassing_the_mps_server_is_not_at_level_mps() -> None:
    level = level_of(MPS, LevelInputs(replace(SEEN, exclusive_process=False)))
    assert level.enforcement is INTERPOSER
    assert "nvidia-smi --compute-mode EXCLUSIVE_PROCESS" in level.reason


@pytest.mark.parametrize(
    ("capability", "says"),
    [
        ((6, 1), "no MPS: MPS limits memory from compute capability 7.0 (Volta), and the GPU has 6.1"),
        (None, "no MPS: NVML does not report the GPU's compute capability"),
    ],
)
def test_a_gpu_whose_mps_does_not_limit_memory_is_not_at_level_mps(
    capability: tuple[int, int] | None, says: str
) -> None:
    level = level_of(MPS, LevelInputs(replace(SEEN, compute_capability=capability)))
    assert level == Level(INTERPOSER, says, interposer=True)


def test_the_inventory_holds_the_daemons_limit() -> None:
    held = with_level(gpu(0), Level(MPS, mps_limit=LIMIT))
    assert (held.enforcement, held.mps_limit_bytes) == (MPS, 1 << 30)
    assert with_level(held, Level(WATCHDOG)).mps_limit_bytes == 0


def test_a_container_that_the_daemons_limit_does_not_hold_is_at_a_lower_level() -> None:
    reading, pids = replace(SEEN, mps_pids=frozenset({1})), frozenset({1})
    level = Level(MPS, interposer=True, mps_limit=LIMIT)
    assert level_of_container(level, True, pids, reading, pids) is INTERPOSER
    assert level_of_container(level, True, pids, reading) is WATCHDOG


@pytest.mark.parametrize(
    ("level", "identified", "pids", "want"),
    [
        (COOPERATIVE, True, {1}, Enforcement.NONE),
        (WATCHDOG, True, set(), WATCHDOG),
        (WATCHDOG, False, {1}, Enforcement.NONE),
        (MPS, True, {1, 2}, MPS),
        (MPS, True, {1, 3}, WATCHDOG),
        (MPS, True, set(), WATCHDOG),
    ],
)
def test_a_container_is_at_level_mps_once_all_of_its_processes_are_clients(
    level: Enforcement, identified: bool, pids: set[int], want: Enforcement
) -> None:
    reading = replace(SEEN, mps_pids=frozenset({1, 2}))
    container = level_of_container(Level(level), identified, frozenset(pids), reading, mps_limit_holds=True)
    assert container is want


@pytest.mark.parametrize(
    ("level", "pids", "want"),
    [
        (Level(INTERPOSER, interposer=True), {3, 4}, INTERPOSER),
        (Level(INTERPOSER, interposer=True), {3, 5}, WATCHDOG),
        (Level(INTERPOSER, interposer=True), set(), WATCHDOG),
        (Level(MPS, interposer=True), {3, 4}, INTERPOSER),
        (Level(MPS, interposer=True), {1, 2}, MPS),
        (Level(MPS), {3, 4}, WATCHDOG),
        (Level(WATCHDOG), {3, 4}, WATCHDOG),
        (Level(COOPERATIVE), {3, 4}, Enforcement.NONE),
        (Level(COOPERATIVE, interposer=True), {3, 4}, Enforcement.NONE),
    ],
)
def test_a_container_is_at_level_interposer_once_it_is_loaded_in_all_of_its_processes(
    level: Level, pids: set[int], want: Enforcement
) -> None:
    reading = replace(SEEN, mps_pids=frozenset({1, 2}))
    interposed = frozenset({3, 4})
    container = level_of_container(level, True, frozenset(pids), reading, interposed, mps_limit_holds=True)
    assert container is want


def test_containers_get_the_interposer_if_both_files_are_in_the_clients_folder(tmp_path: Path) -> None:
    for name in ("liblaneway-interposer.so", "ld.so.preload"):
        assert no_interposer_reason(tmp_path).startswith(f"{tmp_path / name} does not exist")
        (tmp_path / name).touch()
    assert no_interposer_reason(tmp_path) == ""


def test_an_agent_without_eviction_says_why(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tagent\nCapEff:\t0000000000000020\n")
    assert no_eviction_reason("Evict", status) == ""
    assert "watchdog.action is Warn" in no_eviction_reason("Warn", status)
    status.write_text("Name:\tagent\nCapEff:\t000001ffffffffdf\n")
    assert "lacks the capability KILL" in no_eviction_reason("Evict", status)
    assert no_eviction_reason("Evict", status, only_own_jobs=True) == ""
    assert "watchdog.action is Warn" in no_eviction_reason("Warn", status, only_own_jobs=True)
