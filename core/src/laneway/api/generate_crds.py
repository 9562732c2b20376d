"""Writes ``crds/*.yaml`` from the pydantic models; ``--check`` compares them with the files.

pydantic's JSON schema is close to the structural schema that Kubernetes wants. The differences are rewritten here:
references are inlined, ``anyOf`` with null becomes an absent field, titles and Python's own keywords are dropped.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import yaml
from laneway.api.gpu_node import GPUNodeSpec, GPUNodeStatus
from laneway.api.names import GROUP, VERSION
from laneway.api.pod_template import pod_definitions, pod_template_schema
from laneway.api.schema import MAX_COUNTER, Model, camel, rules
from laneway.api.training_job import MAX_NAME_LENGTH, TrainingJobSpec
from laneway.api.training_job_status import TrainingJobStatus
from laneway.api.training_profile import TrainingProfileStatus

Schema = dict[str, Any]

_HEADER = "# Generated from laneway.api by `make generate`. Do not edit.\n"
_POD_TEMPLATE = Path(__file__).with_name("pod_template.json")
_MAX_INT32 = 2**31 - 1
_DROPPED = {"title", "$defs", "exclusiveMinimum", "uniqueItems"}


def structural(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """Return a pydantic JSON schema as a structural schema of a CRD."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rsplit("/", 1)[1]]
        return structural(
            {**target, **{key: value for key, value in schema.items() if key != "$ref"}}, definitions
        )
    if "anyOf" in schema:
        return _one_of(schema, definitions)
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
        result.setdefault("maximum", MAX_COUNTER)
        result["format"] = "int32" if result["maximum"] <= _MAX_INT32 else "int64"
    if "default" in result and result.get("type") == "object":
        result["default"] = {}  # the fields' own defaults fill it
    return result


def _one_of(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """Return a schema with ``anyOf`` as a structural one: of one type beside null, or of integers and strings, as quantities are."""
    choices = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    if [choice.get("type") for choice in choices] == ["integer", "string"]:
        return {"anyOf": choices, "x-kubernetes-int-or-string": True, **structural(rest, definitions)}
    if len(choices) != 1:
        raise ValueError(f"a CRD field has one type, this has {len(choices)}: {schema}")
    return structural({**choices[0], **rest}, definitions)


def schema_of(model: type[Model]) -> Schema:
    """Return the structural schema of a model, one line of description each."""
    raw = model.model_json_schema(by_alias=True, mode="validation")
    computed = model.model_json_schema(by_alias=True, mode="serialization")
    for name in model.model_computed_fields:
        field = camel(name)
        raw["properties"][field] = {
            key: value for key, value in computed["properties"][field].items() if key != "readOnly"
        }
    schema = structural(raw, {**computed.get("$defs", {}), **raw.get("$defs", {})})
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
    spec: Schema | None,
    status: Schema,
    columns: list[Schema],
    root: Schema | None = None,
    required: list[str] | None = None,
    selectable: tuple[str, ...] = (),
    scale: Schema | None = None,
) -> Schema:
    """Return a CustomResourceDefinition of one version. Where there is a spec, the status is a subresource; else one writer has
    the whole object, and writes it at once."""
    schema: Schema = {
        "type": "object",
        "description": description,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            **({} if spec is None else {"spec": spec}),
            "status": status,
        },
        **(root or {}),
    }
    if required:
        schema["required"] = required
    subresources = {"status": {}, **({"scale": scale} if scale else {})}
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
                    **({} if spec is None else {"subresources": subresources}),
                    "additionalPrinterColumns": columns,
                    **(
                        {"selectableFields": [{"jsonPath": path} for path in selectable]}
                        if selectable
                        else {}
                    ),
                }
            ],
        },
    }


_ONE_WORKER = "({0}.spec.workers == 1 && {0}.spec.?maxWorkers.orValue(1) == 1)"
"""In CEL: a job is no gang, and does not become one."""


def training_job() -> Schema:
    """Return the CRD of TrainingJob."""
    spec = schema_of(TrainingJobSpec)
    spec["properties"]["template"] = {
        "description": spec["properties"]["template"]["description"],
        **pod_template_schema(json.loads(_POD_TEMPLATE.read_text())),
    }
    return crd(
        kind="TrainingJob",
        plural="trainingjobs",
        short_names=["tj"],
        scope="Namespaced",
        description="A deep-learning training job that shares the cluster's GPUs with other jobs.",
        spec=spec,
        status=schema_of(TrainingJobStatus),
        selectable=(".status.state",),
        scale={
            "specReplicasPath": ".spec.workers",
            "statusReplicasPath": ".status.workers",
            "labelSelectorPath": ".status.selector",
        },
        columns=[
            column("State", "string", ".status.state", "Summary of the conditions."),
            column("Reason", "string", ".status.reason", "Why the job is in this state."),
            column("Workers", "integer", ".status.workers", "Workers that the job has now."),
            column("Desired", "integer", ".spec.workers", "Workers that the spec asks for.", priority=1),
            column(
                "Progress", "integer", ".status.progress.percent", "Progress of the training, in percent."
            ),
            column("Queue", "integer", ".status.queue", "Queue of the job in the order policy.", priority=1),
            column(
                "Position", "integer", ".status.waiting.position", "Place among the waiting jobs.", priority=1
            ),
            column(
                "Service",
                "integer",
                ".status.attainedServiceGPUMilliseconds",
                "Attained service in GPU-milliseconds.",
                priority=1,
            ),
            column("Preemptions", "integer", ".status.preemptions", "Number of preemptions.", priority=1),
            column(
                "Restarts", "integer", ".status.restarts", "Number of restarts after failures.", priority=1
            ),
            column(
                "Unsaved",
                "date",
                ".status.progress.unsavedSince",
                "Time since the work that an eviction would lose.",
                priority=1,
            ),
            column("Nodes", "string", ".status.placement[*].node", "Nodes of the workers.", priority=1),
            column("Age", "date", ".metadata.creationTimestamp", "Time since the job was created."),
        ],
        root=rules(
            (
                f"size(self.metadata.name) <= {MAX_NAME_LENGTH} && !self.metadata.name.contains('.')",
                f"metadata.name is part of the workers' host names: use at most {MAX_NAME_LENGTH} "
                "lower-case letters, digits and '-'",
            ),
            (
                # Operators with one Service for each gang name it after the job, and a downgrade may bring them back. Before
                # Kubernetes 1.36 a Service's name must begin with a letter.
                # Jobs that an earlier version let be gangs with such a name stay valid.
                f"{_ONE_WORKER.format('self')} || self.metadata.name.matches('^[a-z]') || "
                f"(oldSelf.hasValue() && !{_ONE_WORKER.format('oldSelf.value()')})",
                "metadata.name of a gang must begin with a letter: earlier operators name a Service after the gang",
            ),
            *(
                (
                    f"self.spec.?{field} == oldSelf.spec.?{field} || "
                    "(oldSelf.spec.suspend && oldSelf.?status.workers.orValue(0) == 0)",
                    f"{field} can change only while the job has no workers: set spec.suspend to true, and wait until status.workers is 0",
                )
                for field in ("minWorkers", "maxWorkers")
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
        description="The GPUs of one node. The node writes the status; the spec holds orders to pods on the node.",
        # Server-side apply leaves the spec null when it removes the last order; the default makes it valid.
        spec={**schema_of(GPUNodeSpec), "default": {}},
        status=schema_of(GPUNodeStatus),
        columns=[
            column("GPUs", "integer", ".status.gpuCount", "Number of GPUs."),
            column("Model", "string", ".status.gpus[0].model", "Model of the first GPU."),
            column(
                "Ready",
                "string",
                '.status.conditions[?(@.type=="Ready")].status',
                "Whether the node's agent runs and sees the GPUs.",
            ),
            column(
                "Observed",
                "date",
                ".status.observedAt",
                "Time of the agent's last report, written when something changed.",
            ),
            column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created."),
        ],
    )


def training_profile() -> Schema:
    """Return the CRD of TrainingProfile."""
    return crd(
        kind="TrainingProfile",
        plural="trainingprofiles",
        short_names=["tp"],
        scope="Namespaced",
        description="What the jobs of one template have shown; its name is the template's hash. Only the operator writes it.",
        spec=None,
        status=schema_of(TrainingProfileStatus),
        columns=[
            column("Image", "string", ".status.image", "Image of the template."),
            column("Models", "string", ".status.models[*].model", "GPU models."),
            column("Used", "date", ".status.lastUsed", "Time since the newest attempt started."),
            column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created."),
        ],
    )


class _Dumper(yaml.SafeDumper):
    """Writes an object that occurs several times in full each time, without YAML anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def render(resource: Schema) -> str:
    """Return the text of a CRD file."""
    text: str = yaml.dump(resource, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
    return _HEADER + text


def pod_definitions_text(openapi: Schema) -> str:
    """Return the content of ``pod_template.json`` for an API server's OpenAPI v2 document."""
    definitions = pod_definitions(openapi)
    lines = (f"{json.dumps(name)}: {json.dumps(each, sort_keys=True)}" for name, each in definitions.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def files() -> dict[str, str]:
    """Return the files' texts by name."""
    return {
        "trainingjobs.yaml": render(training_job()),
        "gpunodes.yaml": render(gpu_node()),
        "trainingprofiles.yaml": render(training_profile()),
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or with ``--check`` list those that are out of date; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("crds"), help="the folder (default: crds)")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 when a file is not current"
    )
    parser.add_argument(
        "--openapi",
        type=Path,
        help="an API server's OpenAPI v2 document (kubectl get --raw /openapi/v2): first write pod_template.json from it",
    )
    options = parser.parse_args(arguments)
    if options.openapi:
        _POD_TEMPLATE.write_text(pod_definitions_text(json.loads(options.openapi.read_text())))
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
