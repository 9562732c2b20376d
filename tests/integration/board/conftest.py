"""Chromium, boards as users start them, and a real API server with the objects that they show."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from hack.cluster.control_plane import LoopbackControlPlane
from tests.integration.board.cluster import Cluster

OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, which `make setup` installs on Debian, or Chrome. CI has one of them.

    It ends with its file: while it lives, its event loop counts as running, and asyncio tests of later files could not begin.
    """
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        assert "CI" not in os.environ, "neither chromium nor google-chrome is on the PATH: install one"
        pytest.skip("neither chromium nor google-chrome is on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def cluster(control_plane: LoopbackControlPlane) -> Cluster:
    return Cluster(control_plane)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own."""
    name = f"board-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@contextmanager
def started(command: list[str], address: str) -> Iterator[str]:
    """Run a board; give the address that its output names by a pattern."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
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
        process.communicate(timeout=30)


@pytest.fixture(scope="session")
def own_board(control_plane: LoopbackControlPlane) -> Iterator[str]:
    """The address of an administrator's `laneway board`."""
    with laneway_board(control_plane.kubeconfig) as address:
        yield address


@contextmanager
def laneway_board(kubeconfig: Path, *arguments: str) -> Iterator[str]:
    """Run `laneway board`; give the address that it prints."""
    command = ["-m", "laneway.cli.main", "board", "--kubeconfig", str(kubeconfig), "--port", "0", *arguments]
    with started(command, r"http://\S+") as address:
        yield address


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Returns a function that opens an address in a browser of its own; at the end no page may have had an error."""
    contexts = []
    problems: list[str] = []

    def make(address: str, **options: object) -> Page:
        contexts.append(browser.new_context(viewport={"width": 1280, "height": 900}, **options))
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
