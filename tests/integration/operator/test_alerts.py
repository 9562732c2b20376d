"""A real Prometheus beside an operator whose API server is gone: its alerts fire, and others when it is killed."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from tests.support.operator.operator_process import OperatorProcess
from tests.support.operator.waiting import until
from tests.support.prometheus_process import prometheus


def kubeconfig(folder: Path, port: int) -> Path:
    """A way to an API server on a port where nobody listens."""
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(content))
    return path


async def test_an_operator_without_an_api_server_and_one_that_is_killed(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        unanswered = taken.getsockname()[1]
        with OperatorProcess(tmp_path / "operator", kubeconfig(tmp_path, unanswered), "default") as operator:

            async def serves() -> bool:
                return operator.port is not None

            await until("the operator serves", serves)
            targets = {"operator": f"127.0.0.1:{operator.port}/metrics"}
            with prometheus(tmp_path, targets, at_once=True) as server:

                async def reported() -> bool:
                    return {"LanewayNoLeader", "LanewayAPIErrors"} <= server.firing().keys()

                async def gone() -> bool:
                    return "LanewayOperatorDown" in server.firing()

                await until("no leader and failing requests are reported", reported)
                operator.kill()
                await until("its end is reported", gone)
