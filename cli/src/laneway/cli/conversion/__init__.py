"""Converts Kubeflow's TrainJobs and ``torchrun`` Jobs into TrainingJobs, and back. Pure.

A conversion takes what it knows out of a ``Source``; what is left there has no counterpart, and is named in the result.
"""

from __future__ import annotations

from laneway.cli.conversion.kinds import KINDS, Converted, WrongKindError, convert

__all__ = ["KINDS", "Converted", "WrongKindError", "convert"]
