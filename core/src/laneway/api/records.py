"""How the files that Laneway's own components exchange are checked: strictly, with messages that name the place."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError


class Record(BaseModel):
    """A frozen record in a file of ours."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


def explain(error: ValidationError, source: str) -> str:
    """Return a validation error as lines of ``source: field: what is wrong``."""
    lines = []
    for problem in error.errors(include_url=False):
        place = ".".join(str(part) for part in problem["loc"]) or "(whole file)"
        given = problem.get("input")
        shown = (
            "" if problem["type"] == "missing" or isinstance(given, dict | list) else f" (found {given!r})"
        )
        lines.append(f"{source}: {place}: {problem['msg']}{shown}")
    return "\n".join(lines)
