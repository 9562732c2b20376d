"""Containers with a fake GPU of 1 GiB, of which a container may use 100 MiB."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.account_server import AccountServer
from tests.support.isolation.building import fake_driver_variables, interposer_for
from tests.support.isolation.container import QUOTA, Container, Interpreter
from tests.support.isolation.fake_devices import MIB, make_device

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def directory() -> Iterator[Path]:
    """In place of /run/laneway. Not pytest's folder: a socket's path is at most 107 bytes long."""
    folder = Path(tempfile.mkdtemp(prefix="laneway-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def interposer(directory: Path) -> Path:
    return interposer_for(directory)


@pytest.fixture
def container(directory: Path, interposer: Path, tmp_path: Path) -> Iterator[Container]:
    devices = [make_device(tmp_path, index, 1024 * MIB) for index in range(2)]
    account = AccountServer(directory, {devices[0].uuid: QUOTA, devices[1].uuid: QUOTA})
    account.start()
    yield Container(devices, account, interposer, fake_driver_variables(tmp_path))
    account.stop()


@pytest.fixture
def program(container: Container) -> Iterator[Interpreter]:
    interpreter = container.start()
    yield interpreter
    interpreter.end()
