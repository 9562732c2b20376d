"""A log that is read in several streams, each cut anywhere, is shown once."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.sdk.shown_log import ShownLog

Line = tuple[str, bytes]
"""Its timestamp and its text."""


def kubelet_stream(lines: list[Line], since: str | None) -> bytes:
    """What a kubelet sends with timestamps: each line from a second on, for itself."""
    first = datetime.fromisoformat(since) if since else None
    return b"".join(
        time.encode() + b" " + text + b"\n"
        for time, text in lines
        if first is None or datetime.fromisoformat(time) >= first
    )


def read(log: ShownLog, stream: bytes, piece_bytes: int) -> bytes:
    log.begin()
    return b"".join(
        log.new(stream[start : start + piece_bytes]) for start in range(0, len(stream), piece_bytes)
    )


_START = datetime.fromisoformat("2026-01-31T12:00:00+01:00")


@st.composite
def _logs(draw: st.DrawFn) -> list[Line]:
    """Lines whose times are a few microseconds or seconds apart, or the same."""
    time, lines = _START, []
    for _ in range(draw(st.integers(0, 12))):
        time += timedelta(microseconds=draw(st.sampled_from([0, 1, 300_000, 2_500_000])))
        text = draw(st.sampled_from([b"", b"x", b"loss 0.5", b"10%\r20%\r", "ü ".encode()]))
        lines.append((time.isoformat(timespec="microseconds"), text))
    return lines


@given(_logs(), st.lists(st.tuples(st.floats(0, 1), st.integers(1, 40)), max_size=5), st.integers(1, 40))
def test_a_log_whose_streams_are_cut_anywhere_is_shown_once(
    lines: list[Line], cuts: list[tuple[float, int]], piece_bytes: int
) -> None:
    log, shown = ShownLog(), b""
    for share, pieces in cuts:
        stream = kubelet_stream(lines, log.since_time)
        shown += read(log, stream[: int(share * len(stream))], pieces)
    shown += read(log, kubelet_stream(lines, log.since_time), piece_bytes)
    assert shown == b"".join(text + b"\n" for _, text in lines)


def test_a_progress_bar_moves_within_its_line() -> None:
    log = ShownLog()
    log.begin()
    pieces = [b"2026-01-31T12:00:00.5Z 10%\r", b"20%\r", b"30%\n2026-01-31T12:0", b"0:01Z done"]
    assert [log.new(piece) for piece in pieces] == [b"10%\r", b"20%\r", b"30%\n", b"done"]


@pytest.mark.parametrize(
    ("story", "first", "second", "want"),
    [
        (
            "the cut line was rotated away",
            b"2026-01-31T12:00:00.5Z half of a",
            b"2026-01-31T12:00:00.7Z next\n",
            b"half of a\nnext\n",
        ),
        (
            "new lines of the second were written to a new file",
            b"2026-01-31T12:00:00.5Z a\n",
            b"2026-01-31T12:00:00.7Z b\n",
            b"a\nb\n",
        ),
        (
            "a line is the kubelet's own",
            b"2026-01-31T12:00:00.5Z a\nunable to retrieve the log\n",
            b"2026-01-31T12:00:00.5Z a\n2026-01-31T12:00:00.7Z b\n",
            b"a\nunable to retrieve the log\nb\n",
        ),
    ],
)
def test_what_a_second_stream_adds(story: str, first: bytes, second: bytes, want: bytes) -> None:
    log = ShownLog()
    assert read(log, first, 100) + read(log, second, 100) == want, story
