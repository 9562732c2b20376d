"""How a script reaches the workers: as annotations of their pods, which a volume shows as files.

So no shell quotes it, a traceback names its lines, and the kubelet needs no object beside the job. The files' folder is named after their
content, because jobs with one command line count as one template (``TrainingProfile``).
"""

from __future__ import annotations

import ast
import builtins
import dis
import hashlib
import inspect
import json
import re
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from laneway.api.names import GROUP
from laneway.sdk.errors import WrongArgumentError
from laneway.sdk.local_modules import is_package, local_modules

ANNOTATION = f"{GROUP}/script."
"""A file's annotation begins with this; its name follows."""

_VOLUME = "laneway-script"
_MAX_BYTES = 200 * 1024
"""Kubernetes allows 256 KiB for all annotations of a pod; the operator adds its own."""

_ONLY_STARTED_BY_A_CALL = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

_FILE_NAME = re.compile(r"[A-Za-z0-9._-]{0,54}[A-Za-z0-9]")
"""What an annotation's name may end with, whose part after the slash has at most 63 characters."""


@dataclass(frozen=True)
class Script:
    """A Python file to send, with the modules beside it that it imports."""

    name: str
    files: Mapping[str, str]
    """The text of each file, by its name."""

    def __post_init__(self) -> None:
        if wrong := sorted(name for name in self.files if not _FILE_NAME.fullmatch(name)):
            raise WrongArgumentError(
                f"{wrong[0]} cannot be sent: name it by at most 55 letters, digits and . _ -"
            )
        size = sum(len(text.encode()) for text in self.files.values())
        if size > _MAX_BYTES:
            raise WrongArgumentError(
                f"{', '.join(self.files)} {'has' if len(self.files) == 1 else 'have'} {size:,} bytes, and at most {_MAX_BYTES:,} "
                "can be sent with a job: build them into the image"
            )

    @property
    def folder(self) -> str:
        """Where the containers see the files."""
        content = json.dumps(dict(self.files), sort_keys=True).encode()
        return f"/laneway/{hashlib.sha256(content).hexdigest()[:8]}"

    @property
    def path(self) -> str:
        """The path of the script in the containers."""
        return f"{self.folder}/{self.name}"

    def add_to(self, template: dict[str, Any]) -> None:
        """Add it to a pod template, for its first container."""
        annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
        annotations |= {f"{ANNOTATION}{name}": text for name, text in self.files.items()}
        items = [
            {"path": name, "fieldRef": {"fieldPath": f"metadata.annotations['{ANNOTATION}{name}']"}}
            for name in self.files
        ]
        template["spec"].setdefault("volumes", []).append({"name": _VOLUME, "downwardAPI": {"items": items}})
        mount = {"name": _VOLUME, "mountPath": self.folder, "readOnly": True}
        template["spec"]["containers"][0].setdefault("volumeMounts", []).append(mount)


def script_of_file(path: Path) -> Script:
    """Return the script in a file, with the modules of its folder that it imports, and those that these import.

    Warns of the packages of its folder that they import: a package has several files, and is not sent.

    Raises:
        WrongArgumentError: one of them cannot be read, is no Python, or they are too long together.
    """
    files: dict[str, str] = {}
    packages: dict[str, Path] = {}
    unread = [path]
    while unread:
        each = unread.pop()
        try:
            files[each.name] = each.read_text(encoding="utf-8-sig")
            imported = {module.partition(".")[0] for module in _imported(ast.parse(files[each.name]))}
        except (OSError, UnicodeDecodeError, SyntaxError) as error:
            raise WrongArgumentError(f"cannot send {each}: {error}") from error
        folders = {module: path.with_name(module) for module in imported}
        packages |= {module: at for module, at in folders.items() if is_package(at)}
        # Python takes a package before a module of its name.
        beside = {f"{module}.py" for module in imported - packages.keys()} - files.keys()
        unread += [path.with_name(name) for name in sorted(beside) if path.with_name(name).is_file()]
    _warn_of_unsent(path.name, packages, "single modules beside it are, and packages are not", "")
    return Script(path.name, files)


def _warn_of_unsent(sender: str, modules: Mapping[str, Path], sent: str, otherwise: str) -> None:
    if not modules:
        return
    named = ", ".join(f"{name} ({place})" for name, place in sorted(modules.items()))
    verb, them = ("is", "it") if len(modules) == 1 else ("are", "them")
    warnings.warn(
        f"{sender} imports {named}, which {verb} not sent with it: {sent}. Unless the image has {them}, "
        f"the workers fail at the import: build an image with your project, or install it by packages_to_install (--pip){otherwise}",
        stacklevel=2,
    )


def _imported(module: ast.Module) -> Iterator[str]:
    """Yield the modules that a file imports."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def script_of_function(function: Callable[..., Any], arguments: Mapping[str, Any] | None) -> Script:
    """Return a script that holds the source of a function, and calls it.

    Warns of the modules of this machine that the function imports.

    Raises:
        WrongArgumentError: there is no source that could be sent, or an argument cannot be written as source.
    """
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        raise WrongArgumentError(f"func is {function!r}: give a function that is defined with def")
    if function.__code__.co_flags & _ONLY_STARTED_BY_A_CALL:
        raise WrongArgumentError(
            f"{function.__name__} is a coroutine or a generator, whose call trains nothing: give a plain function"
        )
    source = _source(function)
    if outside := _names_from_outside(function, source):
        raise WrongArgumentError(
            f"{function.__name__} uses {', '.join(outside)} from outside of it, and only its own source is sent: import and define "
            "in its body what it uses, or pass it in func_args"
        )
    module = ast.parse(source)
    if any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(module)):
        raise WrongArgumentError(
            f"{function.__name__} imports relatively (from . import …), and only its own source is sent: import by the full name"
        )
    _warn_of_unsent(
        function.__name__,
        local_modules(_imported(module)),
        "only the function's own source is",
        ", or write a script for CustomTrainerScript, with which the modules beside it are sent",
    )
    try:
        inspect.signature(function).bind(**(arguments or {}))
    except TypeError as error:
        raise WrongArgumentError(f"func_args do not fit {function.__name__}: {error}") from error
    given = ", ".join(f"{name}={_literal(name, value)}" for name, value in (arguments or {}).items())
    name = f"{function.__name__}.py"
    return Script(name, {name: f"{source}\n\n{function.__name__}({given})\n"})


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


def _source(function: Callable[..., Any]) -> str:
    """Return the source of a function, as a module may hold it."""
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError) as error:
        raise WrongArgumentError(
            f"the source of {function.__name__} is not known: define it in a file or a notebook's cell"
        ) from error
    # Without its indent, a text of several lines in it would have other spaces.
    return f"if True:\n{source}" if source[:1].isspace() else source


def _names_from_outside(function: Callable[..., Any], source: str) -> list[str]:
    """Return the names of modules, variables and functions around a function that it or its definition uses."""
    read = {
        each.argval
        for code in _code_objects(function.__code__)
        for each in dis.get_instructions(code)
        if each.opname == "LOAD_GLOBAL"
    }
    used = {*function.__code__.co_freevars, *(read & function.__globals__.keys())}
    # The script's own level evaluates decorators, defaults and annotations.
    definition = dis.get_instructions(compile(source, function.__name__, "exec", dont_inherit=True))
    used |= {each.argval for each in definition if each.opname == "LOAD_NAME"} - vars(builtins).keys()
    return sorted(used - {function.__name__})


def _code_objects(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function, and of the functions and comprehensions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_objects(constant)


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
