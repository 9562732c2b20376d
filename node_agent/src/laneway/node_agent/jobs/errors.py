"""The error of a job that cannot be started."""

from __future__ import annotations


class JobError(Exception):
    """The job is not started; the text says why, and what to do instead."""
