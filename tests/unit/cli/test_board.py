"""``laneway board``: what it takes from the kubeconfig, and what it says where it cannot start."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
import sys
from pathlib import Path
from typing import Any

import certifi
import pytest
import yaml
from laneway.cli.cluster_access import cluster_access
from laneway.cli.exit_codes import FAILED
from laneway.cli.main import main
from laneway.sdk import UnreachableError

from tests.support import pod_environment
from tests.support.pod_environment import enter_pod

SERVER = {"server": "https://192.0.2.1:6443"}


def kubeconfig(folder: Path, user: dict[str, Any], **cluster: Any) -> str:
    """The path of a kubeconfig with one context."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": SERVER | cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(path)


def plugin(program: str) -> dict[str, Any]:
    """A user whose credential a program prints."""
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["-c", program],
            "interactiveMode": "Never",
        }
    }


def test_the_token_of_the_kubeconfig_is_the_credential(tmp_path: Path) -> None:
    own = cluster_access(kubeconfig(tmp_path, {"token": "t0ken"}), None)
    assert own.endpoint.url == SERVER["server"]
    assert asyncio.run(own.credential()) == "Bearer t0ken"


def test_a_credential_plugin_is_asked(tmp_path: Path) -> None:
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "of-the-plugin"},
    }
    own = cluster_access(kubeconfig(tmp_path, plugin(f"print({json.dumps(json.dumps(answer))})")), None)
    assert asyncio.run(own.credential()) == "Bearer of-the-plugin"


def test_the_server_is_verified_unless_the_kubeconfig_says_otherwise(tmp_path: Path) -> None:
    for skip, mode in ((False, ssl.CERT_REQUIRED), (True, ssl.CERT_NONE)):
        path = kubeconfig(
            tmp_path, {"token": "t"}, **{"insecure-skip-tls-verify": skip, "tls-server-name": "k8s"}
        )
        endpoint = cluster_access(path, None).endpoint
        assert endpoint.context is not None
        assert (endpoint.context.verify_mode, endpoint.server_name) == (mode, "k8s")


@pytest.mark.parametrize(("bypassed", "proxy"), [("", "http://proxy:3128"), (".invalid", None)])
def test_a_proxy_of_the_environment_is_passed_by_where_the_environment_says_so(
    bypassed: str, proxy: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK does so, too, and both are to reach the same cluster."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", bypassed)
    path = kubeconfig(tmp_path, {"token": "t"}, server="https://cluster.invalid")
    assert cluster_access(path, None).endpoint.proxy == proxy


def test_without_a_kubeconfig_it_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="set KUBECONFIG or give the path of one"):
        cluster_access(str(tmp_path / "missing"), None)


def test_in_a_pod_without_a_kubeconfig_the_service_account_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter_pod(tmp_path, monkeypatch)
    shutil.copy(certifi.where(), tmp_path / "ca.crt")
    own = cluster_access(None, None)
    assert own.endpoint.url == pod_environment.SERVER
    assert asyncio.run(own.credential()) == f"bearer {pod_environment.TOKEN}"
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path, {"token": "t0ken"}))
    assert asyncio.run(cluster_access(None, None).credential()) == "Bearer t0ken"


def test_a_port_that_is_taken_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = kubeconfig(tmp_path, {"token": "t"})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["board", "--kubeconfig", path, "--port", port]) == FAILED
    assert f"cannot serve on port {port}" in capsys.readouterr().err
