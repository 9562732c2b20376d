"""Where the plugin's metrics and probes answer."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest
from laneway.device_plugin.http_endpoint import HttpEndpoint, json_answer
from laneway.device_plugin.main import _parser


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_by_default_it_answers_on_ipv4_and_ipv6(host: str, tmp_path: Path) -> None:
    options = _parser().parse_args(["--config", str(tmp_path / "node.yaml"), "--http-port", "0"])
    endpoint = HttpEndpoint(
        options.http_address, options.http_port, {"/healthz": lambda: json_answer(True, {})}
    )
    endpoint.start()
    try:
        with urllib.request.urlopen(f"http://{host}:{endpoint.port}/healthz", timeout=60) as answer:
            assert answer.status == 200
    finally:
        endpoint.stop()
