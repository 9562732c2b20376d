"""What the library raises."""

from __future__ import annotations


class CheckpointError(Exception):
    """A checkpoint cannot be used, or not be made; the message says why, and what to do."""
