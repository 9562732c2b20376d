"""The exit codes of the process, and the error that carries one."""

from __future__ import annotations

from laneway.sdk import LanewayError, NotFoundError, UnreachableError, WrongArgumentError

OK = 0
FAILED = 1
"""The cluster refused the request, or the job failed."""

USAGE = 2
"""The command line, or a file that it names, is wrong."""

NOT_FOUND = 3
TIMED_OUT = 4
UNREACHABLE = 5
"""There is no cluster, or it does not answer."""

INTERRUPTED = 130


class CommandError(Exception):
    """A command failed; the message says why and what to do."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def exit_code_of(error: CommandError | LanewayError) -> int:
    """Return the exit code for an error of a command or of the SDK."""
    if isinstance(error, CommandError):
        return error.exit_code
    codes = {NotFoundError: NOT_FOUND, UnreachableError: UNREACHABLE, WrongArgumentError: USAGE}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), FAILED)
