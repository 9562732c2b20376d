"""The errors of the SDK. Each is a ``RuntimeError``, as those of Kubeflow's TrainerClient; a wait that takes too long raises ``TimeoutError``."""

from __future__ import annotations


class LanewayError(RuntimeError):
    """A request failed; the message says why, and what to do."""


class UnreachableError(LanewayError):
    """No cluster is configured, or it does not answer, or it says that it cannot now (429 or 5xx)."""


class ForbiddenError(LanewayError):
    """The cluster refused the credentials, or the user may not do this."""


class UnauthorizedError(ForbiddenError):
    """The cluster refused the credentials: they are wrong, or expired."""


class NotFoundError(LanewayError):
    """The object does not exist."""


class AlreadyExistsError(LanewayError):
    """An object of this name exists."""


class ConflictError(LanewayError):
    """The object has changed since it was read."""


class ExpiredError(LanewayError):
    """The changes since a resource version are no longer known: list again."""


class InvalidJobError(LanewayError):
    """The cluster refused an object as invalid."""


class JobFailedError(LanewayError):
    """The job failed, or ended, while something else was waited for."""


class WrongArgumentError(LanewayError, ValueError):
    """An argument is wrong; the message says what to write instead."""
