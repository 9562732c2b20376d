"""What is written for people to read on a terminal."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from laneway.cli.main import main
from laneway.cli.output import table
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
