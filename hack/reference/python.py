"""The page docs/python.md: the public names of ``laneway.sdk`` and ``laneway.client``, from their signatures and docstrings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any, get_args

from laneway import client, sdk
from laneway.client.batching import Batch

from hack.markdown import formatted

_HEAD = """<!-- Generated from signatures and docstrings by `make generate`. Do not edit. -->

# Python reference

The public names of `laneway.sdk`, which creates and follows TrainingJobs ([sdk.md](sdk.md)), and of `laneway.client`, which training scripts
may call ([reporting.md](reporting.md), [checkpoints.md](checkpoints.md), [goodput.md](goodput.md)).
"""

_SAME_METHODS = (sdk.AsyncTrainingJobClient,)
"""Classes whose own text says which methods they have."""

_RETURNED = (Batch,)
"""Classes that functions return, and that users do not construct."""

_SECTIONS = {"Args:": "Arguments:", "Returns:": "Returns:", "Raises:": "Raises:"}
_LINE_WIDTH = 96


def python_page() -> str:
    """Returns the text of the page."""
    return formatted("\n".join([_HEAD, *_module(sdk), *_module(client, *_RETURNED)]))


def _module(module: ModuleType, *further: type) -> Iterator[str]:
    yield f"\n## {module.__name__}\n"
    public = [*(getattr(module, name) for name in module.__all__), *further]
    classes = list(filter(inspect.isclass, public))
    errors = [each for each in classes if issubclass(each, Exception)]
    records = [each for each in classes if dataclasses.is_dataclass(each)]
    clients = [each for each in classes if each not in errors and each not in records]
    for each in sorted(clients, key=lambda each: each in _SAME_METHODS):
        yield from _class(each)
    for function in filter(inspect.isfunction, public):
        yield from _function(function, f"### {function.__name__}")
    for each in records:
        yield from _class(each)
    for name in module.__all__:
        if kinds := get_args(getattr(module, name)):
            yield f"\n### {name}\n\nOne of {', '.join(f'`{kind.__name__}`' for kind in kinds)}."
    if errors:
        yield "\n### Errors\n"
        for each in errors:
            bases = ", ".join(f"`{base.__name__}`" for base in each.__bases__)
            yield f"- `{each.__name__}` ({bases}): {inspect.getdoc(each)}"


def _class(class_: type) -> Iterator[str]:
    constructed = not dataclasses.is_dataclass(class_) and class_ not in _RETURNED
    constructor: Any = vars(class_)["__init__"]
    yield f"\n### {class_.__name__}\n"
    if constructed:
        yield _signature(class_.__name__, constructor)
    yield from _text(inspect.getdoc(class_))
    if constructed:
        yield from ["", *_text(inspect.getdoc(constructor))]
    if attributes := [*_assigned(class_), *_properties(class_)]:
        yield "\nAttributes:\n"
        yield from attributes
    for name, value in vars(class_).items():
        if inspect.isfunction(value) and not name.startswith("_") and class_ not in _SAME_METHODS:
            yield from _function(value, f"#### {class_.__name__}.{name}")


def _function(function: Any, heading: str) -> Iterator[str]:
    yield f"\n{heading}\n"
    yield _signature(function.__name__, function)
    yield from _text(inspect.getdoc(function))


def _signature(name: str, function: Any) -> str:
    """Returns a block with a signature, on several lines where it is long; annotations are as in the source."""
    given = inspect.signature(function)
    words: list[str] = []
    for each in given.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not any(word.startswith("*") for word in words):
            words.append("*")
        if each.name != "self":
            words.append(str(each.replace(annotation=_Verbatim(each.annotation))))
    result = "" if function.__name__ == "__init__" else f" -> {given.return_annotation}"
    line = f"{name}({', '.join(words)}){result}"
    if len(line) > _LINE_WIDTH:
        line = "\n".join([f"{name}(", *(f"    {word}," for word in words), f"){result}"])
    return f"```python\n{line}\n```\n"


class _Verbatim(str):
    """The text of an annotation, which a signature would show with quotes."""

    __repr__ = str.__str__


def _text(doc: str | None) -> Iterator[str]:
    """Yields the Markdown of a docstring: its sections are lists."""
    section = ""
    for line in (doc or "").splitlines():
        if line in _SECTIONS:
            section = line
            yield f"{_SECTIONS[line]}\n"
        elif section and line.startswith("    ") and line[4] != " ":
            name, _, meaning = line.strip().partition(": ")
            yield f"- `{name}`: {meaning}" if section != "Returns:" else f"- {line.strip()}"
        else:
            yield f"  {line.strip()}" if section and line else line


def _properties(class_: type) -> Iterator[str]:
    for name, value in vars(class_).items():
        if isinstance(value, property) and not name.startswith("_"):
            type_ = inspect.signature(value.fget or repr).return_annotation
            yield f"- `{name}: {type_}`: {' '.join((value.__doc__ or '').split())}"


def _assigned(class_: type) -> Iterator[str]:
    """Yields the public fields of a record, and those that a constructor sets, which have a string behind them."""
    for each in class_.__mro__[-2::-1]:
        tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
        for node in ast.walk(tree):
            for pair in pairwise(node.body) if isinstance(node, ast.ClassDef | ast.FunctionDef) else ():
                match pair:
                    case (
                        ast.AnnAssign(ast.Name(name) | ast.Attribute(attr=name), annotation),
                        ast.Expr(ast.Constant(str(text))),
                    ):
                        type_ = f": {ast.unparse(annotation)}"
                    case ast.Assign([ast.Attribute(attr=name)]), ast.Expr(ast.Constant(str(text))):
                        type_ = ""
                    case _:
                        continue
                default = f" = {getattr(each, name)!r}" if hasattr(each, name) else ""
                if not name.startswith("_"):
                    yield f"- `{name}{type_}{default}`: {' '.join(text.split())}"
