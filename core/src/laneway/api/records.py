"""How the files that Laneway's own components exchange are checked: strictly, with messages that name the place."""

from __future__ import annotations

from typing import get_args

from pydantic import BaseModel, ConfigDict, ValidationError


class Record(BaseModel):
    """A frozen record in a file of ours."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


def explain(error: ValidationError, source: str, model: type[BaseModel] | None = None) -> str:
    """Return a validation error as lines of ``source: field: what is wrong``; with a model, also the names that it has."""
    lines = []
    for problem in error.errors(include_url=False):
        place = ".".join(str(part) for part in problem["loc"]) or "(whole file)"
        given = problem.get("input")
        shown = (
            "" if problem["type"] == "missing" or isinstance(given, dict | list) else f" (found {given!r})"
        )
        lines.append(
            f"{source}: {place}: {problem['msg']}{shown}{_advice(problem['type'], problem['loc'], model)}"
        )
    return "\n".join(lines)


def _advice(kind: str, place: tuple[int | str, ...], model: type[BaseModel] | None) -> str:
    """Return what to write instead, for problems whose message does not say it."""
    if kind == "tuple_type":
        return ": write a list"
    if kind in ("model_type", "dict_type"):
        return ": write names with values"
    if kind == "extra_forbidden" and model is not None:
        names = _names_at(model, place[:-1])
        return f": write one of {', '.join(names)}" if names else ""
    return ""


def _names_at(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """Return the names of the fields at a place of a model, sorted; none if no model is there."""
    for part in place:
        if isinstance(part, int):
            continue
        found = [
            inner
            for name, field in model.model_fields.items()
            if part in (name, field.alias)
            for inner in _models(field.annotation)
        ]
        if not found:
            return []
        model = found[0]
    return sorted(field.alias or name for name, field in model.model_fields.items())


def _models(annotation: object) -> list[type[BaseModel]]:
    """Return the models in a field's type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models(argument)]
