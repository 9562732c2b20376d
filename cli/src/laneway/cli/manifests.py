"""Reads objects, such as TrainingJobs, from a file or from standard input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml
from laneway.api.names import API_VERSION
from laneway.cli.exit_codes import USAGE, CommandError

_MAX_CHARACTERS = 4_000_000
"""An API server takes requests of 3 MiB."""


class _Loader(yaml.SafeLoader):
    """Reads YAML as Kubernetes does: dates and times of day are texts, and no key comes twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value} comes twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int | float | str:
    if ":" in node.value:  # 1:30 is 90 in YAML 1.1
        return str(node.value)
    is_int = node.tag == "tag:yaml.org,2002:int"
    return loader.construct_yaml_int(node) if is_int else loader.construct_yaml_float(node)


def _text(_: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    return str(node.value)


for _kind, _constructor in (("int", _number), ("float", _number), ("timestamp", _text)):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _constructor)


def read_manifests(name: str) -> list[dict[str, Any]]:
    """Return the TrainingJobs of a YAML or JSON file; ``-`` is standard input.

    Raises:
        CommandError: the file cannot be read, is not YAML, or holds something else.
    """
    return [_checked(document, where) for where, document in read_objects(name)]


def read_objects(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the objects of a YAML or JSON file, each with its place, as errors name it; ``-`` is standard input.

    Raises:
        CommandError: the file cannot be read, is not YAML, is empty, or holds something else.
    """
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        documents = [item for item in yaml.load_all(text, _Loader) if item is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {name}: {error}", USAGE) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CommandError(f"{name} is not valid YAML: {error}", USAGE) from error
    if not documents:
        raise CommandError(f"{name} is empty: write a TrainingJob ({API_VERSION})", USAGE)
    found = [(f"{name}, document {number}", document) for number, document in enumerate(documents, start=1)]
    for where, document in found:
        if not isinstance(document, dict):
            raise CommandError(f"{where}: it is not an object", USAGE)
        _check_json(document, where)
    return found


def _check_json(document: dict[str, Any], where: str) -> None:
    """Refuse what no request can carry: values that hold themselves or are no JSON, and texts that are repeated to no end."""
    size = 0
    try:
        for piece in json.JSONEncoder(allow_nan=False).iterencode(document):
            size += len(piece)
            if size > _MAX_CHARACTERS:
                raise CommandError(f"{where}: it has more than {_MAX_CHARACTERS:,} characters as JSON", USAGE)
    except (TypeError, ValueError, RecursionError) as error:
        raise CommandError(f"{where}: it cannot be written as JSON: {error}", USAGE) from error


def _checked(document: dict[str, Any], where: str) -> dict[str, Any]:
    found = (document.get("apiVersion"), document.get("kind"))
    if found != (API_VERSION, "TrainingJob"):
        raise CommandError(
            f"{where}: it is a {found[1]} of {found[0]}; submit accepts TrainingJobs of {API_VERSION}; "
            "apply other objects with kubectl, or see laneway convert",
            USAGE,
        )
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise CommandError(f"{where}: it has no metadata.name", USAGE)
    for field in ("name", "generateName", "namespace"):
        if not isinstance(value := metadata.get(field) or "", str):
            raise CommandError(
                f"{where}: its metadata.{field} is {value}, which is no text: write it in quotes", USAGE
            )
    return document
