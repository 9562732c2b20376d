"""``doctor``: checks the installation from the cluster down to the GPUs, and says what to do."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from laneway.api.names import GROUP, VERSION
from laneway.cli.diagnosis import Finding, Level, Observations, Right, diagnose, runs_mps_daemon
from laneway.cli.exit_codes import FAILED, OK
from laneway.cli.gpu_node_format import node_report
from laneway.cli.output import write_object
from laneway.cli.verbs.options import add_cluster_options, add_output_option, open_client
from laneway.sdk import ForbiddenError, NotFoundError, TrainingJobClient
from laneway.sdk.cluster import Object, gpu_nodes_path

HELP = "Check the installation, and say what to do"
_OWN_PODS = "app.kubernetes.io/part-of=laneway"
_MPS_PODS = "app.kubernetes.io/component=mps-daemon"
"""An upgrade leaves them as they are, and those of the first charts lack the other label."""
_RIGHTS = (
    ("create", GROUP, "trainingjobs", ""),
    ("patch", GROUP, "trainingjobs", ""),
    ("delete", GROUP, "trainingjobs", ""),
    ("get", "", "pods", "log"),
)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.epilog = "The exit code is 1 if a check failed. What you may not read is unknown, and not failed."
    add_output_option(parser)
    add_cluster_options(parser)


def run(arguments: Namespace) -> int:
    """Check it, and print a line for each finding."""
    findings = list(diagnose(_observe(open_client(arguments))))
    if arguments.output:
        write_object(
            [
                {
                    "level": str(each.level),
                    "subject": each.subject,
                    "message": each.message,
                    "advice": each.advice,
                }
                for each in findings
            ],
            arguments.output,
        )
    else:
        print("\n".join(_lines(findings)))
    return FAILED if any(each.level is Level.FAILED for each in findings) else OK


def _lines(findings: Sequence[Finding]) -> list[str]:
    width = max(len(each.subject) for each in findings)
    lines = []
    for each in findings:
        lines.append(f"{each.level.upper():<8} {each.subject:<{width}}  {each.message}")
        if each.advice:
            lines.append(f"{'':<8} {'':<{width}}  → {each.advice}")
    return lines


def _observe(client: TrainingJobClient) -> Observations:
    cluster = client.cluster
    try:
        listed = cluster.get(f"/apis/{GROUP}/{VERSION}", what="Laneway's API group")["resources"]
    except NotFoundError:
        listed = []
    resources = frozenset(str(each["name"]) for each in listed)
    pods = _own_pods(client)
    reports = _items(client, gpu_nodes_path()) if "gpunodes" in resources else []
    namespaces = sorted({str(pod["metadata"]["namespace"]) for pod in pods or ()})
    leases = [
        _items(client, f"/apis/coordination.k8s.io/v1/namespaces/{each}/leases") or () for each in namespaces
    ]
    return Observations(
        cli_version=version("laneway-cli"),
        kubernetes_version=str(cluster.get("/version", what="the version")["gitVersion"]),
        resources=resources,
        namespace=client.namespace,
        rights=[_right(client, *each) for each in _RIGHTS],
        pods=pods,
        nodes=_items(client, "/api/v1/nodes"),
        reports=None if reports is None else [node_report(each) for each in reports],
        leases=[lease for found in leases for lease in found],
    )


def _own_pods(client: TrainingJobClient) -> list[Object] | None:
    """Return Laneway's pods; None where the user may not list them."""
    own = _items(client, "/api/v1/pods", labelSelector=_OWN_PODS)
    of_mps = _items(client, "/api/v1/pods", labelSelector=_MPS_PODS)
    if own is None or of_mps is None:
        return None
    known = {pod["metadata"]["uid"] for pod in own}
    return own + [pod for pod in of_mps if pod["metadata"]["uid"] not in known and runs_mps_daemon(pod)]


def _items(client: TrainingJobClient, path: str, **query: str) -> list[Object] | None:
    """Return the objects of a list; None where the user may not read it."""
    try:
        return list(client.cluster.get(path, what=path, **query)["items"])
    except ForbiddenError:
        return None


def _right(client: TrainingJobClient, verb: str, group: str, resource: str, subresource: str) -> Right:
    asked: dict[str, Any] = {
        "namespace": client.namespace,
        "verb": verb,
        "group": group,
        "resource": resource,
    }
    if subresource:
        asked["subresource"] = subresource
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = client.cluster.create(path, review, what="your rights")
    name = "/".join(part for part in (resource, subresource) if part)
    return Right(verb, name, bool(answer["status"]["allowed"]))
