"""Reads objects, such as TrainingJobs, from a file or from standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml
from laneway.api.names import API_VERSION
from laneway.cli.exit_codes import USAGE, CommandError


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
        documents = [item for item in yaml.safe_load_all(text) if item is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {name}: {error}", USAGE) from error
    except yaml.YAMLError as error:
        raise CommandError(f"{name} is not valid YAML: {error}", USAGE) from error
    if not documents:
        raise CommandError(f"{name} is empty: write a TrainingJob ({API_VERSION})", USAGE)
    found = [(f"{name}, document {number}", document) for number, document in enumerate(documents, start=1)]
    for where, document in found:
        if not isinstance(document, dict):
            raise CommandError(f"{where}: it is not an object", USAGE)
    return found


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
    return document
