"""A PyTorch without the hooks that turns need."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest
from laneway.client import runtime
from laneway.client.pytorch.hooks import install
from laneway.client.runtime import Client

from tests.unit.client.fake_agent import FakeAgent


@pytest.fixture
def old_pytorch(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    for name in ("torch", "torch.optim", "torch.optim.optimizer"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    return SimpleNamespace(__version__="1.13.1")


def test_the_log_names_an_old_version_and_what_to_do(
    old_pytorch: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    install(old_pytorch)
    (record,) = caplog.records
    assert "PyTorch 1.13.1 has no hooks" in record.message
    assert "use PyTorch 2.0 or newer" in record.message


def test_the_agent_learns_why_there_are_no_turns(
    old_pytorch: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    make_client: Callable[[], Client],
    agent: FakeAgent,
) -> None:
    agent.greets = False
    monkeypatch.setattr(runtime, "_client", make_client())
    install(old_pytorch)
    connection = agent.connection()
    assert connection.ended.wait(10), "it opens no session"
    assert connection.hello["framework"] == "torch 1.13.1"
    assert "PyTorch 1.13.1 has no hooks" in connection.hello["no_turns"]
