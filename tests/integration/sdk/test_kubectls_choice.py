"""The SDK and kubectl choose the same cluster from the same kubeconfigs."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from laneway.sdk import UnreachableError
from laneway.sdk.cluster import Cluster

from hack.cluster.build import built

NONE = "no cluster"


def write(path: Path, current: str | None) -> None:
    """Write a kubeconfig whose cluster has the file's name; its context ``same`` is in each file."""
    name = path.name
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.invalid"}}],
        "contexts": [{"name": each, "context": {"cluster": name, "user": name}} for each in (name, "same")],
        "users": [{"name": name, "user": {"token": name}}],
    }
    current_context = {} if current is None else {"current-context": current}
    path.write_text(yaml.safe_dump(document | current_context), encoding="utf-8")


def chosen_by_kubectl(context: str | None) -> str:
    asked = [] if context is None else ["--context", context]
    server = ["--minify", "-o", "jsonpath={.clusters[0].cluster.server}"]
    command = [str(built("kubectl")), *asked, "config", "view", *server]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else NONE


def chosen_by_the_sdk(context: str | None) -> str:
    try:
        return Cluster(context=context).server
    except UnreachableError:
        return NONE


@pytest.mark.parametrize("context", [None, "a", "same", "gone"])
@pytest.mark.parametrize("names", [*itertools.permutations("ab"), "a", ("empty", "b"), ("absent", "b", "a"), ("missing", "b")])  # fmt: skip
def test_they_choose_the_same_cluster(
    names: tuple[str, ...], context: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, current in {"a": "a", "b": "b", "empty": "", "absent": None}.items():
        write(tmp_path / name, current)
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(str(tmp_path / name) for name in names))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert chosen_by_the_sdk(context) == chosen_by_kubectl(context)
