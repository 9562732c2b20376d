"""A later version of the API: the CRD gets a second version, objects stay readable and writable, stored ones migrate.

docs/api-versions.md describes the plan that this follows.
"""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.cluster.control_plane import LoopbackControlPlane
from hack.cluster.probes import wait_until

CRD = Path(__file__).parents[3] / "crds" / "trainingjobs.yaml"
NAME = "trainingjobs.laneway.dev"
OLD, NEW = "v1alpha1", "v1beta1"


@pytest.fixture
def plane() -> Iterator[LoopbackControlPlane]:
    """A control plane of its own: other tests share theirs, and rely on its CRDs."""
    with LoopbackControlPlane(controllers=False) as made:
        yield made


def ask(
    plane: LoopbackControlPlane, *arguments: str, given: object = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), *arguments],
        input=None if given is None else json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )


def kubectl(plane: LoopbackControlPlane, *arguments: str, given: object = None) -> str:
    asked = ask(plane, *arguments, given=given)
    assert asked.returncode == 0, asked.stderr
    return asked.stdout


def install(plane: LoopbackControlPlane, crd: dict[str, Any]) -> None:
    """Store a CRD, and wait until the API server serves its versions: it learns of a change by a watch of its own."""
    kubectl(plane, "apply", "--server-side", "--filename=-", given=crd)
    plane.wait_for_crds()
    for version in (each["name"] for each in crd["spec"]["versions"] if each["served"]):
        wait_until(partial(serves, plane, version), f"{version} being served", 60)


def serves(plane: LoopbackControlPlane, version: str) -> bool:
    return ask(plane, "get", f"trainingjobs.{version}.laneway.dev").returncode == 0


def today() -> dict[str, Any]:
    crd: dict[str, Any] = yaml.safe_load(CRD.read_text())
    return crd


def before_the_rules_of_the_template() -> dict[str, Any]:
    """Return today's CRD without the rules about pods, and with the grace period's former default."""
    crd = today()
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["preemption"]["properties"]["gracePeriodSeconds"]["default"] = 30
    template = spec["properties"]["template"]["properties"]
    for schema in (spec, template["metadata"], template["spec"]):
        del schema["x-kubernetes-validations"]
    return crd


def with_new_version(*, old_served: bool = True) -> dict[str, Any]:
    """Return today's CRD with a second version, which is stored and has one more optional field."""
    crd = today()
    (old,) = crd["spec"]["versions"]
    new = copy.deepcopy(old)
    new["name"] = NEW
    new["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["team"] = {"type": "string"}
    # A field that only one version had would be lost by a write through the other: both get it.
    old["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["team"] = {"type": "string"}
    old.update(storage=False, served=old_served)
    crd["spec"]["versions"] = [new, old]
    return crd


def job(name: str, version: str = OLD) -> dict[str, Any]:
    return {
        "apiVersion": f"laneway.dev/{version}",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "gpus": {"type": "Share", "sharePercent": 50},
            "template": {"spec": {"containers": [{"name": "trainer", "image": "training:1"}]}},
        },
    }


def get(plane: LoopbackControlPlane, name: str, version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        kubectl(plane, "get", f"trainingjobs.{version}.laneway.dev", name, "--output=json")
    )
    assert found["apiVersion"] == f"laneway.dev/{version}"
    return found


def stored_versions(plane: LoopbackControlPlane) -> list[str]:
    crd = json.loads(kubectl(plane, "get", "crd", NAME, "--output=json"))
    return list(crd["status"]["storedVersions"])


def test_objects_survive_the_upgrade_to_a_new_version(plane: LoopbackControlPlane) -> None:
    install(plane, today())
    kubectl(plane, "create", "--filename=-", given=job("old"))
    status = {"status": {"attempt": 1, "attainedServiceGPUMilliseconds": 1500}}
    patch = ("patch", "tj", "old", "--subresource=status", "--type=merge", f"--patch={json.dumps(status)}")
    kubectl(plane, *patch)
    before = get(plane, "old", OLD)

    install(plane, with_new_version())
    assert stored_versions(plane) == [OLD, NEW]
    for version in (OLD, NEW):
        now = get(plane, "old", version)
        assert (now["spec"], now["status"]) == (before["spec"], before["status"])
        kubectl(plane, "create", "--filename=-", given=job(f"made-in-{version}", version))
    for written, read in ((OLD, NEW), (NEW, OLD)):
        change = json.dumps({"spec": {"team": written, "suspend": written == OLD}})
        resource = f"trainingjobs.{written}.laneway.dev"
        kubectl(plane, "patch", resource, "old", "--type=merge", f"--patch={change}")
        assert get(plane, "old", read)["spec"]["team"] == written
        assert get(plane, "old", read)["spec"]["suspend"] is (written == OLD)

    # Every object is written once, unchanged: the API server stores it in the new version.
    every = json.loads(
        kubectl(plane, "get", f"trainingjobs.{NEW}.laneway.dev", "--all-namespaces", "--output=json")
    )
    kubectl(plane, "replace", "--filename=-", given=every)
    migrated = json.dumps({"status": {"storedVersions": [NEW]}})
    kubectl(plane, "patch", "crd", NAME, "--subresource=status", "--type=merge", f"--patch={migrated}")

    # The API server refuses to drop a version in which it may still have objects; now it has none.
    last = with_new_version(old_served=False)
    last["spec"]["versions"] = last["spec"]["versions"][:1]
    kubectl(
        plane,
        "replace",
        "--filename=-",
        given={**json.loads(kubectl(plane, "get", "crd", NAME, "-o", "json")), "spec": last["spec"]},
    )
    assert stored_versions(plane) == [NEW]
    assert get(plane, "old", NEW)["status"]["attainedServiceGPUMilliseconds"] == 1500
    names = kubectl(plane, "get", "tj", "--output=name").split()
    assert names == [
        f"trainingjob.laneway.dev/{name}" for name in ("made-in-v1alpha1", "made-in-v1beta1", "old")
    ]


def test_a_version_with_stored_objects_cannot_be_dropped(plane: LoopbackControlPlane) -> None:
    install(plane, today())
    kubectl(plane, "create", "--filename=-", given=job("old"))
    install(plane, with_new_version())
    crd = json.loads(kubectl(plane, "get", "crd", NAME, "--output=json"))
    crd["spec"]["versions"] = [each for each in crd["spec"]["versions"] if each["name"] == NEW]
    refused = ask(plane, "replace", "--filename=-", given=crd)
    assert refused.returncode != 0
    assert "status.storedVersions" in refused.stderr


def test_a_job_from_before_a_rule_can_still_be_changed_otherwise(plane: LoopbackControlPlane) -> None:
    install(plane, before_the_rules_of_the_template())
    old = job("old")
    old["spec"]["template"]["spec"] |= {"hostname": "mine", "terminationGracePeriodSeconds": 60}
    old["spec"]["template"]["metadata"] = {"labels": {"laneway.dev/rank": "7"}}
    kubectl(plane, "create", "--filename=-", given=old)
    install(plane, today())
    new = {**old, "metadata": {**old["metadata"], "name": "new"}}

    def refused() -> bool:
        return (
            "hostname is forbidden" in ask(plane, "create", "--dry-run=server", "-f", "-", given=new).stderr
        )

    wait_until(refused, "the rules being in force", 60)
    patch = ("patch", "tj", "old", "--type=merge")
    kubectl(plane, *patch, "--subresource=status", '--patch={"status": {"attempt": 1}}')
    kubectl(plane, *patch, '--patch={"spec": {"suspend": true}}')
    kubectl(plane, *patch, '--patch={"spec": {"preemption": {"gracePeriodSeconds": null}}}')
    found = get(plane, "old", OLD)
    assert (found["status"]["attempt"], found["spec"]["suspend"]) == (1, True)
    assert found["spec"]["preemption"] == {"mode": "Auto"}
