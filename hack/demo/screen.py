"""Shows the jobs' progress: on a terminal a table that updates in place, otherwise one line per change."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import TextIO

from hack.demo.evidence import Evidence
from hack.demo.jobs import JobView

_UP = "\x1b[{}F\x1b[J"


class Screen:
    """Writes to a stream."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._drawn_lines = 0
        self._shown: dict[str, str] = {}
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """Print a permanent line."""
        self._erase()
        print(f"[{time.monotonic() - self._began:5.0f} s] {text}", file=self._stream, flush=True)

    def show(self, views: Mapping[str, JobView]) -> None:
        """Show the current jobs."""
        if self._live:
            self._erase()
            width = shutil.get_terminal_size().columns - 1
            header, *rows = table(PROGRESS_HEADER, [_progress(view) for view in views.values()])
            lines = [header[:width]]
            for row, view in zip(rows, views.values(), strict=True):
                lines += [row[:width], *_under(_note(view), width)]
            lines = lines[: shutil.get_terminal_size().lines - 1]  # what has scrolled away cannot be erased
            print("\n".join(lines), file=self._stream, flush=True)
            self._drawn_lines = len(lines)
            return
        for name, view in views.items():
            state = f"{view.state} {_note(view)}".rstrip()
            if self._shown.get(name) != state:
                self._shown[name] = state
                self.say(f"{name}: {state}")

    def _erase(self) -> None:
        if self._drawn_lines:
            self._stream.write(_UP.format(self._drawn_lines))
            self._drawn_lines = 0


PROGRESS_HEADER = ("JOB", "WORKERS", "STATE", "NODES", "SERVICE", "TURNS", "PREEMPTED")


def _progress(view: JobView) -> tuple[str, ...]:
    nodes = ",".join(sorted({worker.node for worker in view.status.placement}))
    return (
        view.name,
        str(view.workers),
        view.state,
        nodes or "-",
        f"{view.attained_gpu_seconds:.0f} s",
        str(view.status.turns),
        str(view.status.preemptions),
    )


def _under(note: str, width: int) -> list[str]:
    """Return a note as the lines under its job's."""
    indent = "    "
    return textwrap.wrap(note, width, initial_indent=indent, subsequent_indent=indent)


def _note(view: JobView) -> str:
    if view.has("Failed"):
        return view.message("Failed").splitlines()[-1] if view.message("Failed") else ""
    waiting = view.status.waiting
    return "" if waiting is None or view.ended else waiting.message


RESULT_HEADER = ("JOB", "WORKERS", "GPUS", "RESULT", "JCT", "SERVICE", "TURNS", "PREEMPTIONS", "ACCURACY")


def results(evidence: Evidence) -> list[str]:
    """Return the lines of the final table."""
    rows = []
    for name, view in sorted(evidence.jobs.items(), key=lambda item: item[1].created_seconds):
        jct, accuracy = view.jct_seconds, evidence.accuracies.get(name)
        rows.append(
            (
                name,
                str(view.workers),
                _gpus(evidence, name),
                view.state,
                "-" if jct is None else f"{jct:.1f} s",
                f"{view.attained_gpu_seconds:.1f} GPU s",
                str(view.status.turns),
                str(view.status.preemptions),
                "-" if accuracy is None else f"{accuracy:.1%}",
            )
        )
    return table(RESULT_HEADER, rows)


def _gpus(evidence: Evidence, name: str) -> str:
    placement = evidence.placements.get(name, ())
    if not placement:
        return "-"
    count = sum(len(worker.gpus) for worker in placement)
    return f"{count} × {min(100, placement[0].share_percent)} %"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as aligned lines under a header."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]
