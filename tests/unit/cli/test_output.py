"""What is written for people to read on a terminal."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from laneway.cli.main import main
from laneway.cli.output import table, write_object
from laneway.cli.verbs import explain, get, wait
from laneway.sdk import LanewayError, TrainingJob

from tests.support.training_jobs import a_condition, a_job

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b1A\r\u202e\x7f"
SHOWN = r"\x1b]0;title\x07\x1b[2J\x9b1A\r\u202e\x7f"
"""The same, as it is to be read."""


@pytest.mark.parametrize("verb", ["explain", "get", "wait"])
def test_words_of_users_do_not_steer_the_terminal(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = TrainingJob(a_job(conditions=[a_condition("Complete", message=HOSTILE)]))
    client = SimpleNamespace(get_job=lambda name: job, watch_job=lambda name, timeout: [job])
    for module in (explain, get, wait):
        monkeypatch.setattr(module, "open_client", lambda arguments: client)
    assert main([verb, "a"]) == 0
    written = capsys.readouterr().out
    assert SHOWN in written
    assert written.replace("\n", "").isprintable()


def test_errors_with_words_of_users_do_not_either(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(arguments: object) -> None:
        raise LanewayError(HOSTILE)

    monkeypatch.setattr(get, "open_client", refused)
    assert main(["get", "a"]) != 0
    assert SHOWN in capsys.readouterr().err


def test_a_cell_with_control_characters_leaves_the_columns_in_line() -> None:
    assert table(("A", "B"), [["\x1b", "b"], ["1234", "c"]]) == "A      B\n\\x1b   b\n1234   c"


@pytest.mark.parametrize(
    "text",
    [
        "3e-4",
        "1E5",
        "-1e4",
        "1e+5",
        ".5e3",
        "+.5e3",
        "1e1_0",
        "12e03",
        "089",
        "0o17",
        "0X1F",
        "-_1",
        "y",
        "N",
    ],
)
def test_a_text_that_kubectl_would_take_for_something_else_is_quoted(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its YAML is that of Go, in which more is a number than in Python's, such as a learning rate among the arguments."""
    write_object({"args": [text]}, "yaml")
    assert capsys.readouterr().out == f"args:\n- '{text}'\n"


@pytest.mark.parametrize("text", ["train", "e4", "--lr=3e-4", "yes-or-no", "node-1", "/a", "../b"])
def test_other_texts_are_not_quoted(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_object({"args": [text]}, "yaml")
    assert capsys.readouterr().out == f"args:\n- {text}\n"
