"""Jobs without Kubernetes: a command gets a share of a GPU for as long as it runs, from an agent that needs no root."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from laneway.node_agent.jobs.command import run

from tests.support.node_agent.node import Node, eventually
from tests.support.torch_runtime import CLIENT

SHOWS = "import json, os; print(json.dumps(dict(os.environ)), flush=True)"
LISTENS = """
import os, socket
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(os.environ["LANEWAY_DIR"] + "/agent.sock")
print(connection.recv(65536).decode(), flush=True)
"""
HELLO = {"type": "hello", "version": 1, "pid": 1, "framework": "", "device": "cpu", "gpu": None}
CONNECTS = f"""
import json, os, socket, time
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(os.environ["LANEWAY_DIR"] + "/agent.sock")
connection.send(json.dumps({HELLO!r}).encode())
print(connection.recv(65536).decode(), flush=True)
if os.fork() == 0:
    time.sleep(600)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with tempfile.TemporaryDirectory(prefix="lw-") as root:  # a short name: sockets have short paths
        (Path(root) / "var/lib/laneway/client").mkdir(parents=True)
        (Path(root) / "var/lib/laneway/client/sitecustomize.py").touch()
        made = Node(Path(root), sharing="off").start()
        yield made
        made.end()


@pytest.fixture
def run_job(node: Node) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "laneway.node_agent.main", "run-job", "--root", str(node.root)]
        started.append(
            subprocess.Popen(
                [*command, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    for left in folders(node):
        # Under another name first: the agent may put a socket back into a folder that is slow to go.
        shutil.rmtree(left.rename(left.with_name(f".dead-{left.name}")), ignore_errors=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


def line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    text = process.stdout.readline()
    assert text, process.communicate()[1]
    found: dict[str, Any] = json.loads(text)
    return found


def children(process: subprocess.Popen[str]) -> list[str]:
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


def folders(node: Node) -> list[Path]:
    """Return the container folders of jobs that still run or whose launchers were killed."""
    return [path for path in (node.root / "run/laneway/containers").iterdir() if path.name[0] != "."]


def test_a_command_has_its_share_while_it_runs(node: Node, run_job: Callable[..., Any]) -> None:
    status, output, errors = ended(run_job("--share", "30", "--", sys.executable, "-c", SHOWS))
    assert (status, errors) == (0, "")
    environment = json.loads(output)
    assert environment["LANEWAY_GPUS"] in node.gpus
    assert environment["LANEWAY_SHARE_PERCENT"] == "30"
    assert environment["PYTHONPATH"].split(":")[0] == f"{node.root}/var/lib/laneway/client"
    assert environment["PATH"] == os.environ["PATH"]
    assert folders(node) == []

    first = run_job("--share=60", "--gpu=0", "--name=first", "--", sys.executable, "-c", CONNECTS)
    assert line(first)["type"] == "welcome"
    session = node.session("first")
    assert (session["namespace"], session["gpu"]) == ("local", node.gpus[0])
    status, _, errors = ended(run_job("--share=50", "--gpu=0", "--", "true"))
    assert status == 125
    assert "no GPU has 50 % free: GPU 0 has 40 % free" in errors
    status, _, errors = ended(run_job("--name=first", "--share=1", "--", "true"))
    assert "job first already exists" in errors
    status, _, errors = ended(run_job("--share=1", "--", "no-such-program"))
    assert (status, "no-such-program: cannot be started: No such file" in errors) == (125, True)

    # A signal goes to the command; the share is held until what it has forked has ended, too.
    (command,) = children(first)
    first.send_signal(signal.SIGTERM)
    (child,) = eventually(
        "the command has ended and left a child",
        lambda: (left := children(first)) != [command] and len(left) == 1 and left,
    )
    assert len(folders(node)) == 1
    os.kill(int(child), signal.SIGKILL)
    assert ended(first)[0] == 128 + signal.SIGTERM
    assert folders(node) == []


def test_the_share_of_a_killed_launcher_goes_to_the_next_job(node: Node, run_job: Callable[..., Any]) -> None:
    job = run_job(
        "--share=100", "--gpu=0", "--", sys.executable, "-c", f"{SHOWS}; import time; time.sleep(600)"
    )
    line(job)
    job.kill()
    job.wait()
    assert len(folders(node)) == 1
    assert ended(run_job("--share=100", "--gpu=0", "--", "true"))[0] == 0
    assert job.stdout.read() == "", "its command has ended"
    assert folders(node) == []


def test_other_processes_cannot_connect_to_a_jobs_socket(node: Node, run_job: Callable[..., Any]) -> None:
    job = run_job("--share=10", "--", sys.executable, "-c", CONNECTS)
    assert line(job)["type"] == "welcome"
    (folder,) = folders(node)
    stranger = subprocess.run(
        [sys.executable, "-c", LISTENS],
        env={**os.environ, "LANEWAY_DIR": str(folder)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    answer = json.loads(stranger.stdout)
    assert answer["type"] == "error"
    assert "was not started by process" in answer["reason"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no command given"),
        (["--client=/nowhere", "--", "true"], "/nowhere holds no client"),
        (
            ["--root=/nowhere", f"--client={CLIENT}", "--", "true"],
            "start the agent: laneway-node-agent --standalone",
        ),
    ],
)
def test_a_job_that_cannot_start_says_why(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert run([*arguments]) == 125
    assert says in capsys.readouterr().err
