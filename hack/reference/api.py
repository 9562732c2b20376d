"""The page docs/api.md: every field of the custom resources, from their CRDs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from laneway.api.generate_crds import gpu_node, training_job, training_profile

from hack.markdown import formatted

Schema = dict[str, Any]

_HEAD = """<!-- Generated from the CRDs by `make generate`. Do not edit. -->

# API reference

Every field of TrainingJob, GPUNode and TrainingProfile. The group is `laneway.dev`. Field names are paths; `[]` marks the items of a list. How versions of the
API change is in [api-versions.md](api-versions.md), what the fields mean together in [jobs.md](jobs.md).
"""

_CLOSED = {"spec.template": "PodTemplateSpec"}
"""Fields that Kubernetes' own reference describes."""


def api_page() -> str:
    """Returns the text of the page."""
    kinds = (training_job(), gpu_node(), training_profile())
    return formatted("\n".join([_HEAD, *(line for kind in kinds for line in _kind(kind))]))


def _kind(crd: Schema) -> Iterator[str]:
    names, (version,) = crd["spec"]["names"], crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    yield f"\n## {names['kind']} ({version['name']})\n"
    scope = "Cluster-scoped" if crd["spec"]["scope"] == "Cluster" else "Namespaced"
    yield f"{schema['description']} {scope}; short name `{names['shortNames'][0]}`.\n"
    for part in ("spec", "status"):
        if part not in schema["properties"]:
            continue
        yield f"\n### {names['kind']} {part}\n"
        yield "| field | type | default | meaning |\n| --- | --- | --- | --- |"
        yield from _rows(schema["properties"][part], part)
        rules = [
            *_rules(schema["properties"][part], part),
            *(_rules(schema, "metadata") if part == "spec" else ()),
        ]
        if rules:
            yield "\nRules:\n"
            yield from rules


def _rows(schema: Schema, path: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        place = f"{path}.{name}"
        default = "required" if name in required else _default(field)
        described = " ".join([field.get("description", ""), _limits(field)]).strip().replace("|", "\\|")
        # Without the part's own name: the heading has it.
        yield f"| `{place.partition('.')[2]}` | {_CLOSED.get(place) or _type(field)} | {default} | {described} |"
        if place not in _CLOSED:
            inner = field.get("items", field)
            yield from _rows(inner, place + ("[]" if "items" in field else ""))


def _default(field: Schema) -> str:
    value = field.get("default")
    return (
        "" if value in (None, "", [], {}) else f"`{str(value).lower() if isinstance(value, bool) else value}`"
    )


def _type(field: Schema) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    return "time" if field.get("format") == "date-time" else str(field["type"])


def _limits(field: Schema) -> str:
    least, most = field.get("minimum"), field.get("maximum")
    if least is None or field.get("format") == "int64":
        return ""
    return f"{least} to {most}."


def _rules(schema: Schema, path: str) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield f"- `{path}`: {rule['message']}."
    if path == "metadata":
        return
    for name, field in schema.get("properties", {}).items():
        yield from _rules(field, f"{path}.{name}")
        if "items" in field:
            yield from _rules(field["items"], f"{path}.{name}[]")
