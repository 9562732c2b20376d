"""A reader gets the names of jobs of the own namespace, and the number of the others."""

from __future__ import annotations

import pytest
from laneway.api.job_names import JobSentence, sentence_for, sentence_in_full, visible_jobs, within


@pytest.mark.parametrize(
    ("story", "jobs", "want"),
    [
        ("one of its own", ["a/x"], "Behind a/x."),
        ("two of its own", ["a/x", "a/y"], "Behind a/x and a/y."),
        ("many of its own", [f"a/{n}" for n in range(5)], "Behind a/0, a/1, a/2 and 2 more."),
        ("one of another", ["b/x"], "Behind a job of another namespace."),
        ("several of others", ["b/x", "c/x"], "Behind 2 jobs of other namespaces."),
        ("both", ["b/x", "a/x", "c/x"], "Behind a/x and 2 jobs of other namespaces."),
        (
            "many of both",
            ["b/x", *(f"a/{n}" for n in range(4))],
            "Behind a/0, a/1, a/2, 1 more and a job of another namespace.",
        ),
        ("a namespace that begins alike", ["ab/x"], "Behind a job of another namespace."),
        ("a tenant without a namespace", ["9a07756858254e69"], "Behind a job of another namespace."),
    ],
)
def test_a_sentence_is_worded_for_a_namespace(story: str, jobs: list[str], want: str) -> None:
    assert JobSentence("Behind ", tuple(jobs), ".").for_namespace("a") == want, story


def test_a_sentence_that_begins_with_jobs_begins_with_a_capital() -> None:
    sentence = JobSentence("", ("b/x",), " is ahead.")
    assert sentence.for_namespace("a") == "A job of another namespace is ahead."
    assert sentence.for_namespace("b") == "b/x is ahead.", "names stay as they are"


def test_notes_stand_beside_the_jobs_that_are_named_only() -> None:
    sentence = JobSentence("beside ", ("a/x", "b/y"), "", (" (30 percent)", " (50 percent)"))
    assert sentence.for_namespace("a") == "beside a/x (30 percent) and a job of another namespace"
    assert sentence.in_full() == "beside a/x (30 percent) and b/y (50 percent)"


def test_a_sentence_that_is_printed_as_it_stands_names_nobody() -> None:
    sentence = JobSentence("Behind ", ("a/x", "b/y"), ".")
    assert f"{sentence}" == str(sentence) == "Behind 2 jobs of other namespaces."
    assert sentence_in_full(sentence) == "Behind a/x and b/y."


def test_a_clause_keeps_its_jobs_within_a_longer_sentence() -> None:
    longer = within("It waits: ", JobSentence("it is behind ", ("a/x",), ""), ".")
    assert sentence_for(longer, "b") == "It waits: it is behind a job of another namespace."
    assert within("It waits: ", "it is late", ".") == "It waits: it is late."


def test_jobs_are_split_into_those_that_are_named_and_the_number_of_the_others() -> None:
    assert visible_jobs(("b/x", "a/x", "a/y"), "a") == (("a/x", "a/y"), 1)


def test_a_sentence_about_no_job_stays_a_sentence() -> None:
    assert JobSentence("Behind ", (), "nobody.").for_namespace("a") == "Behind nobody."
    assert JobSentence("", (), "").in_full() == ""


def test_figures_of_a_job_that_is_not_named_are_left_out() -> None:
    sentence = JobSentence("Preempted by ", ("a/x",), " (queue 0)", after_unnamed=" (in a higher queue)")
    for reader, want in [("a", "a/x (queue 0)."), ("b", "a job of another namespace (in a higher queue).")]:
        assert sentence_for(within("", sentence, "."), reader) == f"Preempted by {want}"
    assert sentence.in_full() == "Preempted by a/x (queue 0)"
    both = JobSentence("Beside ", ("a/x", "b/y"), " at 70%.", after_unnamed=" slowly.")
    assert both.for_namespace("a") == "Beside a/x and a job of another namespace slowly."
