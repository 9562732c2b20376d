"""What a user reads about jobs: those of the user's own namespace by name, others as a number.

Names of other tenants' jobs are not for every reader, and a status, an event or a pod's message is read by all users of its namespace.
So a sentence about jobs stays a :class:`JobSentence` until its reader's namespace is known. Jobs have keys, ``namespace/name``; the jobs of a
simulation need no namespace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

NAMED = 3
"""The most jobs that a sentence names; the others are counted."""


class VisibleJobs(NamedTuple):
    """Jobs as the users of one namespace see them."""

    own: tuple[str, ...]
    """Keys of those of the namespace, in their order."""

    elsewhere: int
    """The number of the others."""


@dataclass(frozen=True, slots=True)
class JobSentence:
    """A sentence, or a clause, that is about jobs. As a ``str`` it names no job that has a namespace."""

    before: str
    jobs: tuple[str, ...]
    """Their keys."""

    after: str
    notes: tuple[str, ...] = ()
    """What follows each job that is named; empty: nothing."""

    after_unnamed: str | None = None
    """What is said in place of ``after`` to readers who are not told the names of all: no figures of these jobs. None: the same."""

    def for_namespace(self, namespace: str) -> str:
        """Return the sentence for the users of a namespace."""
        return self._about(*visible_jobs(self.jobs, namespace))

    def in_full(self) -> str:
        """Return the sentence for administrators."""
        return self._about(self.jobs, 0)

    def __str__(self) -> str:
        return self.for_namespace("")

    def renamed(self, name_of: Callable[[str], str]) -> JobSentence:
        """Return it with other keys."""
        return replace(self, jobs=tuple(map(name_of, self.jobs)))

    def _about(self, named: tuple[str, ...], elsewhere: int) -> str:
        notes = dict(zip(self.jobs, self.notes, strict=True)) if self.notes else {}
        parts = [f"{key}{notes.get(key, '')}" for key in named[:NAMED]]
        if len(named) > NAMED:
            parts.append(f"{len(named) - NAMED} more")
        if elsewhere:
            parts.append(jobs_elsewhere(elsewhere))
        jobs = " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
        if not (self.before or named):
            jobs = jobs[:1].upper() + jobs[1:]
        after = self.after_unnamed if elsewhere and self.after_unnamed is not None else self.after
        return f"{self.before}{jobs}{after}"


Sentence = str | JobSentence
"""A sentence for a user; a plain one is not about jobs of other namespaces."""


def sentence_for(sentence: Sentence, namespace: str) -> str:
    """Return a sentence for the users of a namespace."""
    return sentence if isinstance(sentence, str) else sentence.for_namespace(namespace)


def sentence_in_full(sentence: Sentence) -> str:
    """Return a sentence for administrators."""
    return sentence if isinstance(sentence, str) else sentence.in_full()


def within(before: str, clause: Sentence, after: str = "") -> Sentence:
    """Return a clause with what goes before and after it."""
    if isinstance(clause, str):
        return f"{before}{clause}{after}"
    unnamed = None if clause.after_unnamed is None else clause.after_unnamed + after
    return replace(clause, before=before + clause.before, after=clause.after + after, after_unnamed=unnamed)


def namespace_of(key: str) -> str:
    """Return the namespace of a job's key; empty if it has none."""
    return key.partition("/")[0] if "/" in key else ""


@lru_cache(maxsize=1024)  # an entry may hold thousands of keys
def visible_jobs(keys: tuple[str, ...], namespace: str) -> VisibleJobs:
    """Return jobs as the users of a namespace see them. Many jobs may wait for the same ones, so answers are kept."""
    own = tuple(key for key in keys if namespace_of(key) == namespace)
    return VisibleJobs(own, len(keys) - len(own))


def jobs_elsewhere(number: int) -> str:
    """Return some jobs of other namespaces in words."""
    return "a job of another namespace" if number == 1 else f"{number} jobs of other namespaces"
