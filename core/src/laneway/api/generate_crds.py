"""Writes ``crds/*.yaml`` from the pydantic models; ``--check`` shows whether the files are current.

pydantic's JSON schema is close to the structural schema that Kubernetes wants. What differs is rewritten here:
references are inlined, ``anyOf`` with null becomes an absent field, titles and Python's own keywords go.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml
from laneway.api.gpu_node import GPUNodeSpec, GPUNodeStatus
from laneway.api.names import GROUP, VERSION
from laneway.api.schema import Model, rules
from laneway.api.training_job import MAX_NAME_LENGTH, TrainingJobSpec, TrainingJobStatus

Schema = dict[str, Any]

_HEADER = "# Generated from laneway.api by `make generate`. Do not edit.\n"
_DROPPED = {"title", "$defs", "exclusiveMinimum", "uniqueItems"}


def structural(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """Return a pydantic JSON schema as a structural schema of a CRD."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rsplit("/", 1)[1]]
        return structural(
            {**target, **{key: value for key, value in schema.items() if key != "$ref"}}, definitions
        )
    if "anyOf" in schema:
        choices = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
        if len(choices) != 1:
            raise ValueError(f"a CRD field has one type, this has {len(choices)}: {schema}")
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        return structural({**choices[0], **rest}, definitions)
    result: Schema = {}
    for key, value in schema.items():
        if key in _DROPPED or (key == "additionalProperties" and not isinstance(value, dict)):
            continue
        if key == "default" and value is None:
            continue
        if key == "const":
            result["enum"] = [value]
        elif key == "properties":
            result[key] = {name: structural(field, definitions) for name, field in value.items()}
        elif key in ("items", "additionalProperties"):
            result[key] = structural(value, definitions)
        else:
            result[key] = value
    if result.get("type") == "integer":
        result.setdefault("format", "int64")
    if "default" in result and result.get("type") == "object":
        result["default"] = {}  # the fields' own defaults fill it
    return result


def schema_of(model: type[Model]) -> Schema:
    """Return the structural schema of a model, one line of description each."""
    raw = model.model_json_schema(by_alias=True, mode="validation")
    schema = structural(raw, raw.get("$defs", {}))
    schema["description"] = (model.__doc__ or "").split("\n\n")[0].strip()
    return schema


def column(name: str, kind: str, path: str, description: str, priority: int = 0) -> Schema:
    """Return a printer column."""
    result: Schema = {"name": name, "type": kind, "jsonPath": path, "description": description}
    if priority:
        result["priority"] = priority
    return result


def crd(
    kind: str,
    plural: str,
    short_names: list[str],
    scope: str,
    description: str,
    spec: Schema,
    status: Schema,
    columns: list[Schema],
    root: Schema | None = None,
    required: list[str] | None = None,
) -> Schema:
    """Return a CustomResourceDefinition of one version, with the status subresource."""
    schema: Schema = {
        "type": "object",
        "description": description,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        **(root or {}),
    }
    if required:
        schema["required"] = required
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": short_names,
                "categories": ["laneway"],
            },
            "scope": scope,
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }


def training_job() -> Schema:
    """Return the CRD of TrainingJob."""
    condition = '.status.conditions[?(@.type=="{}")].{}'.format
    return crd(
        kind="TrainingJob",
        plural="trainingjobs",
        short_names=["tj"],
        scope="Namespaced",
        description="A deep-learning training job that shares the cluster's GPUs with others.",
        spec=schema_of(TrainingJobSpec),
        status=schema_of(TrainingJobStatus),
        columns=[
            column("Workers", "integer", ".spec.workers", "The size of the gang."),
            column("Placed", "string", condition("Placed", "status"), "Whether it has its GPUs."),
            column("Running", "string", condition("Running", "status"), "Whether all workers run."),
            column("Succeeded", "string", condition("Succeeded", "status"), "Whether all workers succeeded."),
            column("Percent", "integer", ".status.progress.percent", "How far it says that it is."),
            column("Waits", "string", ".status.waiting.reason", "Why it waits."),
            column("Queue", "integer", ".status.queue", "The queue that its attained service puts it in."),
            column("Service", "string", ".status.attainedService", "GPU-seconds attained."),
            column("Preemptions", "integer", ".status.preemptions", "How often it made way.", priority=1),
            column("Nodes", "string", ".status.placement[*].node", "Where its workers are.", priority=1),
            column("Age", "date", ".metadata.creationTimestamp", "Since when it is there."),
        ],
        root=rules(
            (
                f"size(self.metadata.name) <= {MAX_NAME_LENGTH} && !self.metadata.name.contains('.')",
                "metadata.name becomes part of its workers' host names: "
                f"write at most {MAX_NAME_LENGTH} lower-case letters, digits and '-'",
            ),
        ),
        required=["spec"],
    )


def gpu_node() -> Schema:
    """Return the CRD of GPUNode."""
    return crd(
        kind="GPUNode",
        plural="gpunodes",
        short_names=["gn"],
        scope="Cluster",
        description="What a node says about its GPUs (status, written by that node only), and orders to its pods (spec).",
        # A spec from which server-side apply takes the last order is null after that: refused, but for the default.
        spec={**schema_of(GPUNodeSpec), "default": {}},
        status=schema_of(GPUNodeStatus),
        columns=[
            column("GPUs", "integer", ".status.gpuCount", "How many GPUs it has."),
            column("Model", "string", ".status.gpus[0].model", "The model of the first."),
            column(
                "Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether its agent runs."
            ),
            column("Observed", "date", ".status.observedAt", "When the agent last wrote."),
            column("Age", "date", ".metadata.creationTimestamp", "Since when it is there."),
        ],
    )


def render(resource: Schema) -> str:
    """Return the text of a CRD file."""
    text: str = yaml.safe_dump(resource, sort_keys=False, width=110, allow_unicode=True)
    return _HEADER + text


def files() -> dict[str, str]:
    """Return the files' texts by name."""
    return {"trainingjobs.yaml": render(training_job()), "gpunodes.yaml": render(gpu_node())}


def main(arguments: list[str] | None = None) -> int:
    """Write the files into the folder, or with ``--check`` say which are not current; 1 when any is not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("crds"), help="the folder (default: crds)")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 when a file is not current"
    )
    options = parser.parse_args(arguments)
    stale = []
    for name, text in files().items():
        path = options.out / name
        if options.check:
            if not path.exists() or path.read_text() != text:
                stale.append(str(path))
        else:
            options.out.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale:
        print(f"not current: {', '.join(stale)}; run `make generate` and commit the result", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
