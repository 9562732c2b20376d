"""JSON schemas for kubeconform, from where the truth is: a real API server's OpenAPI document, and CRDs.

kubeconform's public collection of schemas is out of reach without the internet, and lags behind; the API server that the tests run against
describes each of its kinds itself. Objects are closed on the way, so that a misspelt field is an error and not ignored.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from hack.cluster.binaries import binary
from hack.cluster.cache import cache_folder
from hack.cluster.control_plane import LoopbackControlPlane
from hack.images.cache import entry

Schema = dict[str, Any]

FILE_NAME = "{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json"
"""The file name of a kind, as a template for kubeconform's -schema-location. For the core group, kubeconform uses the
version."""

_REFERENCE = "#/definitions/"
_NUMBER_OR_TEXT: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


def kubernetes_schemas() -> Path:
    """A folder with the schema of every kind of the pinned Kubernetes version; asked of its API server once, then cached."""
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    return entry(
        cache_folder() / "schemas", f"kubernetes-{binary('kube-apiserver').version}-{recipe}", _ask_api_server
    )


def write_crd_schemas(crd_files: list[Path], folder: Path) -> None:
    """Writes the schema of each version of each CRD in the files."""
    for path in crd_files:
        for crd in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            for version in crd["spec"]["versions"]:
                schema = closed(version["schema"]["openAPIV3Schema"])
                _write(folder, crd["spec"]["group"], version["name"], crd["spec"]["names"]["kind"], schema)


def _ask_api_server(folder: Path) -> None:
    with LoopbackControlPlane() as cluster:
        command = [
            str(cluster.kubectl),
            "--kubeconfig",
            str(cluster.kubeconfig),
            "get",
            "--raw",
            "/openapi/v2",
        ]
        document = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    folder.mkdir()
    definitions = {name: closed(schema) for name, schema in document["definitions"].items()}
    definitions[_QUANTITY] = {"anyOf": [{"type": "number"}, {"type": "string"}]}
    for name, schema in document["definitions"].items():
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            needed = {other: definitions[other] for other in _reachable(name, definitions)}
            _write(
                folder,
                kind["group"],
                kind["version"],
                kind["kind"],
                {"$ref": _REFERENCE + name, "definitions": needed},
            )


def _write(folder: Path, group: str, version: str, kind: str, schema: Schema) -> None:
    name = (
        FILE_NAME.replace("{{.Group}}", group or version)
        .replace("{{.ResourceAPIVersion}}", version)
        .replace("{{.ResourceKind}}", kind.lower())
    )
    (folder / name).write_text(json.dumps(schema), encoding="utf-8")


def closed(schema: Any) -> Any:
    """A schema of Kubernetes' dialect as plain JSON schema, with objects that take no field they don't name."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return _NUMBER_OR_TEXT
    result = {
        key: closed(value)
        for key, value in schema.items()
        if key not in ("properties", "description", "default", "format", "nullable")
        and not key.startswith("x-kubernetes-")
    }
    if "properties" in schema:
        result["properties"] = {name: closed(field) for name, field in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            result.setdefault("additionalProperties", False)
    return result


def _reachable(name: str, definitions: dict[str, Schema]) -> set[str]:
    seen: set[str] = set()
    to_visit = [name]
    while to_visit:
        current = to_visit.pop()
        if current not in seen:
            seen.add(current)
            to_visit += _references(definitions[current])
    return seen


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(_REFERENCE)
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)
