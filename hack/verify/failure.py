"""How a check of the repository fails."""


class CheckFailedError(Exception):
    """A check failed; the message names it and its findings."""
