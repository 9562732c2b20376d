"""Waiting for rights: the API server learns of roles and bindings by watches of its own, a moment after it has stored them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

from hack.cluster.control_plane import LoopbackControlPlane
from hack.cluster.probes import wait_until

_WAIT_SECONDS = 60.0


def until_allowed(
    plane: LoopbackControlPlane, user: str, right: str, namespace: str = "default", group: str = ""
) -> None:
    """Wait until a user, or one of a group, has a right, such as `list pods`."""
    kubectl = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), "auth", "can-i"]
    command = [*kubectl, *right.split(), "--namespace", namespace, "--as", user]
    command += ["--as-group", group] if group else []

    def allowed() -> bool:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        assert answer.stdout.strip() in ("yes", "no"), answer.stderr
        return answer.returncode == 0

    wait_until(allowed, f"{user} having the right to {right} in {namespace}", _WAIT_SECONDS)


def until_bound(plane: LoopbackControlPlane, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Wait until service accounts have what manifests that were applied give them: a right of each binding to a role among them."""
    manifests = list(manifests)
    roles = {_key(each, each["metadata"]["name"]): each["rules"] for each in manifests if "rules" in each}
    for each in manifests:
        rules = roles.get(_key(each, each["roleRef"]["name"]), []) if "roleRef" in each else []
        for rule in (rule for rule in rules[:1] if "resources" in rule):
            resource = ".".join(filter(None, (rule["resources"][0], rule["apiGroups"][0])))
            right = "/".join([f"{rule['verbs'][0]} {resource}", *rule.get("resourceNames", [])[:1]])
            for subject in each["subjects"]:
                user = f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
                until_allowed(plane, user, right, each["metadata"].get("namespace", "default"))


def _key(manifest: Mapping[str, Any], role: str) -> tuple[str, str, str]:
    """Return what a role and its bindings have in common."""
    return manifest["kind"].removesuffix("Binding"), manifest["metadata"].get("namespace", ""), role
