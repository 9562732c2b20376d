"""``pause`` by a user who may not change GPUNodes says who may, and what the user can do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from laneway.cli.main import main

from tests.support.fake_api_server import Answer, FakeAPIServer, a_kubeconfig

WORKER = {
    "metadata": {"name": "digits-0", "uid": "u"},
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Running"},
}


def answer(path: str) -> Answer:
    if "/gpunodes/" in path:
        return 403, json.dumps({"kind": "Status", "message": "gpunodes.laneway.dev is forbidden"}).encode()
    found = {"items": [WORKER]} if "/pods" in path else {"metadata": {"name": "digits", "uid": "j"}}
    return 200, json.dumps({"kind": "Object", **found}).encode()


def test_it_says_who_may_pause_and_what_a_user_can_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeAPIServer(answer) as server:
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(json.dumps(a_kubeconfig(server.address)), encoding="utf-8")
        assert main(["--kubeconfig", str(kubeconfig), "pause", "digits"]) != 0
    said = capsys.readouterr().err
    assert "gpunodes.laneway.dev is forbidden" in said
    assert "administrators may change" in said
    assert "kubectl laneway suspend digits" in said
