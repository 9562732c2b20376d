"""Reads the simulator's input files: one error type, and messages that name the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class InputError(ValueError):
    """A file cannot be read or is wrong; the message names the file and the line, and says what to write."""


def read_json(path: Path, what: str) -> Any:
    """Return the content of a JSON file.

    Args:
        path: the file.
        what: what the file holds, for the message: "records".

    Raises:
        InputError: the file cannot be read, or is not valid JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"cannot read the {what} {path}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is not valid JSON: {error}") from error
