"""Why a job cannot be started."""

from __future__ import annotations


class JobError(Exception):
    """It is not started; the text says why, and what to do instead."""
