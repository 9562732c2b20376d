"""Formats generated Markdown as `make format` formats the rest."""

from __future__ import annotations

import tomllib
from pathlib import Path

CONFIGURATION = Path(__file__).resolve().parents[1] / ".mdformat.toml"


def formatted(text: str) -> str:
    """Returns the text in mdformat's style: paragraphs wrapped, tables without padding."""
    import mdformat  # here: a machine with a GPU imports the tables of its results, and may have no mdformat

    options = tomllib.loads(CONFIGURATION.read_text(encoding="utf-8"))
    return mdformat.text(text, options=options, extensions=("gfm", "tables"))
