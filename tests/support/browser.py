"""Chromium for tests of pages, and programs that print the address at which they serve."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

OpenPage = Callable[..., Page]

_SHOWN_MILLISECONDS = 60_000
"""In which a page comes, and shows what a test expects. Other tests keep the machine busy: playwright's defaults, 30 and 5 s, may be too few."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, which `make setup` installs on Debian, or Chrome. CI has one of them.

    It ends with its file: while it lives, its event loop counts as running, and asyncio tests of later files could not begin.
    """
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        assert "CI" not in os.environ, "neither chromium nor google-chrome is on the PATH: install one"
        pytest.skip("neither chromium nor google-chrome is on the PATH")
    expect.set_options(timeout=_SHOWN_MILLISECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Returns a function that opens an address in a browser of its own; at the end no page may have had an error."""
    contexts = []
    problems: list[str] = []

    def make(address: str, **options: object) -> Page:
        contexts.append(browser.new_context(viewport={"width": 1280, "height": 900}, **options))
        contexts[-1].set_default_timeout(_SHOWN_MILLISECONDS)
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        page.on(
            "console",
            lambda message: (
                problems.append(message.text)
                if message.type == "error" and "Failed to load resource" not in message.text
                else None
            ),
        )
        page.goto(address)
        return page

    yield make
    for context in contexts:
        context.close()
    assert problems == []


@contextmanager
def served(command: Sequence[str | Path], address: str) -> Iterator[str]:
    """Run a program that serves; give the address that its output names by a pattern."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(address, line):
                yield found[0]
                break
        else:
            raise AssertionError(f"{command} has printed no address")
    finally:
        process.terminate()
        process.communicate(timeout=60)
