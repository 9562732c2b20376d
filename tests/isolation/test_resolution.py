"""Each way to a function of the driver. 10 times 20 MiB are asked for, and 100 MiB are the quota."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.isolation.building import fake_driver, program
from tests.support.isolation.container import QUOTA, Container
from tests.support.isolation.fake_devices import MIB


def attempt(container: Container, *command: str | Path, **changes: str | None) -> tuple[int, int]:
    """Runs a program that prints how often it got 20 MiB; returns this and the bytes that the device holds for it then."""
    with container.running(*command, **changes) as got:
        return got, container.device.used


@pytest.mark.parametrize(
    "way",
    [
        "linked",
        "dlsym",
        "dlvsym",
        "default",
        "next",
        "libc's dlsym",
        "the next dlsym",
        "the next dlsym of a version",
        "dlvsym of a version",
        "cuGetProcAddress 11.3",
        "cuGetProcAddress 12",
        "cuGetProcAddress of itself",
    ],
)
def test_the_quota_holds_however_the_function_was_found(container: Container, way: str) -> None:
    assert attempt(container, program("resolved"), way) == (5, QUOTA)


def test_it_holds_for_the_driver_by_its_path(container: Container) -> None:
    path = fake_driver() / "libcuda.so.1"
    assert attempt(container, program("resolved"), "path", path) == (5, QUOTA)


@pytest.mark.parametrize("way", ["dlsym", "next", "libc's dlsym"])
def test_it_holds_beside_a_library_with_its_own_dlsym(container: Container, way: str) -> None:
    own = program("own_lookup", "-shared", "-fPIC", "-ldl")
    preloaded = f"{own}:{container.interposer}"
    assert attempt(container, program("resolved"), way, LD_PRELOAD=preloaded) == (5, QUOTA)


@pytest.mark.parametrize("way", ["copy", "dlmopen"])
def test_it_holds_for_a_second_instance_of_the_driver(container: Container, tmp_path: Path, way: str) -> None:
    copy = tmp_path / "innocent.so"
    shutil.copyfile(fake_driver() / "libcuda.so.1", copy)
    assert attempt(container, program("resolved"), way, copy) == (5, QUOTA)


def test_an_exec_with_a_clean_environment_is_still_held(container: Container) -> None:
    """Here the library comes from LD_PRELOAD; `test_preload_file.py` has the same with /etc/ld.so.preload, which `env -i` cannot clear."""
    command = ["env", "-i", *(f"{name}={value}" for name, value in container.environment().items())]
    assert attempt(container, *command, program("resolved"), "linked") == (5, QUOTA)


# What escapes the library. The device's table sees what the account does not: the watchdog compares the two.


def test_without_the_library_only_the_device_knows(container: Container) -> None:
    assert attempt(container, program("resolved"), "linked", LD_PRELOAD=None) == (10, 200 * MIB)
    assert container.account.requests == []


def test_a_static_program_escapes(container: Container) -> None:
    objects = [str(path) for path in sorted(fake_driver().glob("*.o")) if path.name != "proc_address.o"]
    static = program("static", "-static", *objects, "-pthread")
    assert attempt(container, static) == (10, 200 * MIB)
    assert container.account.requests == []


def test_a_program_that_reads_the_drivers_symbols_itself_escapes(container: Container) -> None:
    assert attempt(container, program("loader")) == (10, 200 * MIB)
    assert container.account.requests == []


def test_a_deeply_bound_library_that_is_linked_to_the_driver_escapes(container: Container) -> None:
    """Its own dependencies come before the preloaded libraries (RTLD_DEEPBIND)."""
    bound = program("bound", "-shared", "-fPIC", f"-L{fake_driver()}", "-lcuda")
    assert attempt(container, program("resolved"), "deepbind", bound) == (10, 200 * MIB)
    assert container.account.requests == []


def test_lookups_of_other_names_are_the_dynamic_linkers_own(container: Container) -> None:
    lookups = program("lookups", "-ldl", "-fno-builtin")
    assert container.run(lookups) == [1] * 6
    assert container.run(lookups, LD_PRELOAD=None) == [1] * 6


def test_a_function_of_an_unloaded_driver_is_not_found(container: Container, tmp_path: Path) -> None:
    copy = tmp_path / "innocent.so"
    shutil.copyfile(fake_driver() / "libcuda.so.1", copy)
    assert container.run(program("unloaded", "-ldl"), copy) == [1] * 4


def test_each_version_of_a_call_keeps_its_signature(container: Container) -> None:
    assert container.run(program("versions")) == [1] * 4


def test_a_program_with_its_own_dl_iterate_phdr_runs(container: Container) -> None:
    own = program("own_iteration", "-rdynamic", "-ldl")
    assert container.run(own) == [1]
