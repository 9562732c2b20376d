"""How a script reaches the workers: as an annotation of their pods, which a volume shows as a file.

So no shell quotes it, a traceback names its lines, and the kubelet needs no object beside the job. The file's folder is named after its
content, because jobs with one command line count as one template (``TrainingProfile``).
"""

from __future__ import annotations

import ast
import dis
import hashlib
import inspect
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laneway.api.names import GROUP
from laneway.sdk.errors import WrongArgumentError

ANNOTATION = f"{GROUP}/script"
_VOLUME = "laneway-script"
_MAX_BYTES = 200 * 1024
"""Kubernetes allows 256 KiB for all annotations of a pod; the operator adds its own."""


@dataclass(frozen=True)
class Script:
    """A Python file to send."""

    name: str
    text: str

    @property
    def folder(self) -> str:
        """Where the containers see it."""
        return f"/laneway/{hashlib.sha256(self.text.encode()).hexdigest()[:8]}"

    @property
    def path(self) -> str:
        """The path of the file in the containers."""
        return f"{self.folder}/{self.name}"

    def add_to(self, template: dict[str, Any]) -> None:
        """Add it to a pod template, for its first container."""
        template.setdefault("metadata", {}).setdefault("annotations", {})[ANNOTATION] = self.text
        item = {"path": self.name, "fieldRef": {"fieldPath": f"metadata.annotations['{ANNOTATION}']"}}
        template["spec"].setdefault("volumes", []).append({"name": _VOLUME, "downwardAPI": {"items": [item]}})
        mount = {"name": _VOLUME, "mountPath": self.folder, "readOnly": True}
        template["spec"]["containers"][0].setdefault("volumeMounts", []).append(mount)


def script_of_file(path: Path) -> Script:
    """Return the script in a file.

    Raises:
        WrongArgumentError: it cannot be read, or is too long.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongArgumentError(f"cannot read {path}: {error}") from error
    return _checked(Script(path.name, text))


def script_of_function(function: Callable[..., Any], arguments: Mapping[str, Any] | None) -> Script:
    """Return a script that holds the source of a function, and calls it.

    Raises:
        WrongArgumentError: there is no source that could be sent, or an argument cannot be written as source.
    """
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        raise WrongArgumentError(f"func is {function!r}: give a function that is defined with def")
    if outside := _names_from_outside(function):
        raise WrongArgumentError(
            f"{function.__name__} uses {', '.join(outside)} from outside of it, and only its own source is sent: import and define "
            "in its body what it uses, or pass it in func_args"
        )
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise WrongArgumentError(
            f"the source of {function.__name__} is not known: define it in a file or a notebook's cell"
        ) from error
    given = ", ".join(f"{name}={_literal(name, value)}" for name, value in (arguments or {}).items())
    return _checked(Script(f"{function.__name__}.py", f"{source}\n\n{function.__name__}({given})\n"))


def after_installing(command: Sequence[str], packages: Sequence[str], indexes: Sequence[str]) -> list[str]:
    """Return a command that first installs packages with pip, once in each worker."""
    if not packages:
        return list(command)
    options = [
        f"--index-url={url}" if not number else f"--extra-index-url={url}"
        for number, url in enumerate(indexes)
    ]
    install = shlex.join(["python3", "-m", "pip", "install", "--quiet", *options, *packages])
    return ["sh", "-ec", f'{install}\nexec "$0" "$@"', *command]


def _names_from_outside(function: Callable[..., Any]) -> list[str]:
    """Return the names of modules, variables and functions around a function that it uses."""
    code, known = function.__code__, function.__globals__
    read = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
    return sorted({*code.co_freevars, *(read & known.keys())} - {function.__name__})


def _literal(name: str, value: Any) -> str:
    text = repr(value)
    try:
        same = bool(ast.literal_eval(text) == value)
    except (ValueError, SyntaxError):
        same = False
    if not same:
        raise WrongArgumentError(
            f"func_args[{name!r}] is {text}: only numbers, strings, and lists, tuples, sets and dictionaries of them can be sent"
        )
    return text


def _checked(script: Script) -> Script:
    size = len(script.text.encode())
    if size > _MAX_BYTES:
        raise WrongArgumentError(
            f"{script.name} has {size:,} bytes, and at most {_MAX_BYTES:,} can be sent with a job: build it into the image"
        )
    return script
