"""TrainingJobs from Python, with the verbs of Kubeflow's TrainerClient.

``TrainingJobClient`` builds a job from a trainer (``manifest``, ``script``) and asks the API server through ``cluster``, which alone
talks to it. ``watch`` and ``logs`` follow what changes. ``AsyncTrainingJobClient`` runs the same on threads.
"""

from __future__ import annotations

from laneway.sdk.aio import AsyncTrainingJobClient
from laneway.sdk.client import TrainingJobClient
from laneway.sdk.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidJobError,
    JobFailedError,
    LanewayError,
    NotFoundError,
    UnauthorizedError,
    UnreachableError,
    WrongArgumentError,
)
from laneway.sdk.job import EndedAttempt, Event, TrainingJob
from laneway.sdk.manifest import job_manifest
from laneway.sdk.trainers import CustomTrainer, CustomTrainerContainer, CustomTrainerScript, Trainer

__all__ = [
    "AlreadyExistsError",
    "AsyncTrainingJobClient",
    "ConflictError",
    "CustomTrainer",
    "CustomTrainerContainer",
    "CustomTrainerScript",
    "EndedAttempt",
    "Event",
    "ForbiddenError",
    "InvalidJobError",
    "JobFailedError",
    "LanewayError",
    "NotFoundError",
    "Trainer",
    "TrainingJob",
    "TrainingJobClient",
    "UnauthorizedError",
    "UnreachableError",
    "WrongArgumentError",
    "job_manifest",
]
