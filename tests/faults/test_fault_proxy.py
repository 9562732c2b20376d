"""The proxy that does a fault's harm leaves nothing open when it ends."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.support.api_faults.fault import Fault
from tests.support.api_faults.fault_proxy import FaultProxy, serving
from tests.support.api_faults.journal import Journal
from tests.support.api_faults.namespace_view import NamespaceView
from tests.support.api_faults.upstream import Upstream


@pytest.mark.parametrize("iterations", range(6))
async def test_a_connection_is_closed_that_comes_just_before_the_end(iterations: int, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()  # what other tests have left
    proxy = FaultProxy(Upstream(None, ""), NamespaceView("n"), Fault(), Journal())  # type: ignore[arg-type]
    async with serving(proxy, tmp_path) as kubeconfig:
        server = urlsplit(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
        late = socket.create_connection((server.hostname, server.port))
        late.settimeout(60)
        for _ in range(iterations):
            await asyncio.sleep(0)
    gc.collect()  # what is unclosed and unreachable fails the test
    with late, suppress(ConnectionResetError):
        assert late.recv(1) == b""
