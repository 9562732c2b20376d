"""An image's own PYTHONPATH and sitecustomize work in a container with a share as they do in one without: the interposer starts the
client, and no variable does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from laneway.api.names import GPU_PERCENT

from hack.cluster.probes import wait_until
from tests.e2e.conftest import Bench, Laneway
from tests.e2e.manifests import SMALL_IMAGE
from tests.support.derived_image import derive

_TELL = """
import json, os, subprocess, sys
try:
    import own_module
except ImportError:
    own_module = None
path = [entry for entry in sys.path if entry and not entry.startswith("/opt/laneway")]
name, ran = getattr(own_module, "NAME", ""), getattr(sys, "own", "")
print(json.dumps([name, ran, path, os.environ["PYTHONPATH"]]), flush=True)
if "CHILD" not in os.environ:
    subprocess.run([sys.executable, "-c", os.environ["TELL"]], env={**os.environ, "CHILD": "1"}, check=True)
"""
_ENTRY_POINT = ["sh", "-c", 'PYTHONPATH="$PYTHONPATH:/added" exec python3 -c "$TELL"']
_FILES = {
    "/opt/own/own_module.py": "NAME = 'of the image'",
    "/opt/own/sitecustomize.py": "import sys; sys.own = 'ran'",
}
_NAME = "docker.io/laneway/with-a-path"


@pytest.fixture(scope="module")
def pinned_image(laneway: Laneway, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image with a PYTHONPATH and modules of its own on all nodes, named by its digest."""
    (base,) = (image for image in laneway.installation.images if image.name == "client")
    archive: Path = tmp_path_factory.mktemp("images") / "image.tar"
    digest = derive(base.archive, archive, f"{_NAME}:1", {"PYTHONPATH": "/opt/own:/opt/more"}, _FILES)
    laneway.cluster.load_image(archive)
    for node in laneway.cluster.nodes:
        node.run([*node.ctr(), "images", "tag", "--force", f"{_NAME}:1", f"{_NAME}@{digest}"])
    return f"{_NAME}@{digest}"


def container(name: str, image: str, percent: int) -> dict[str, Any]:
    limits = {"limits": {GPU_PERCENT: str(percent)}} if percent else {}
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "Never",
        "command": _ENTRY_POINT,
        "env": [{"name": "TELL", "value": _TELL}],
        "resources": limits,
    }


def start(
    bench: Bench, name: str, *containers: dict[str, Any], first: tuple[dict[str, Any], ...] = ()
) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "initContainers": list(first),
            "containers": list(containers),
        },
    }
    kubectl, place = bench.laneway.kubectl, ("--namespace", bench.namespace)
    kubectl.run("create", *place, "-f", "-", stdin=json.dumps(pod))


def reported(bench: Bench, pod: str, container: str) -> list[tuple[str, str, list[str], str]]:
    """Return one line of the container's Python and one of its child: the module's name, whether the image's sitecustomize ran,
    ``sys.path`` and PYTHONPATH. The runtime may write the last lines after the container's end."""
    found: list[str] = []

    def both_are_there() -> bool:
        place = ("--container", container, "--namespace", bench.namespace)
        found[:] = bench.laneway.kubectl.run("logs", pod, *place).splitlines()
        return len(found) >= 2

    wait_until(both_are_there, f"{pod} has printed two lines", 120)
    return [tuple(json.loads(line)) for line in found]


def test_each_container_has_the_path_of_its_own_image(bench: Bench, pinned_image: str) -> None:
    """By tag and by digest, in init containers and in main ones; an entry point's addition stays where it was made."""
    by_tag = f"{_NAME}:1"
    start(bench, "without", container("plain", by_tag, 0))
    start(
        bench,
        "shares",
        container("trainer", pinned_image, 10),
        container("other", SMALL_IMAGE, 20),
        first=(container("prepare", by_tag, 5),),
    )
    for pod in ("without", "shares"):
        wait = ("wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{pod}", "--timeout=240s")
        bench.laneway.kubectl.run(*wait, "--namespace", bench.namespace)

    without = reported(bench, "without", "plain")
    assert without[0][:2] == ("of the image", "ran")
    assert without[0][2][:3] == ["/opt/own", "/opt/more", "/added"]
    assert len(without) == 2
    assert reported(bench, "shares", "trainer") == without
    assert reported(bench, "shares", "prepare") == without
    other = reported(bench, "shares", "other")
    assert [line[:2] + line[3:] for line in other] == [("", "", ":/added")] * 2
    assert "/added" in other[0][2]
