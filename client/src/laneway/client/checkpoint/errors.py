"""The library's exceptions."""

from __future__ import annotations


class CheckpointError(Exception):
    """A checkpoint cannot be used or made; the message says why and what to do."""
