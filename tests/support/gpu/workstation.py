"""A machine without Kubernetes: the agent in a folder of its own, and jobs that `run-job` starts, each a worker of `scripts/worker.py`."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from laneway.node_agent.memory_accounts.packets import uuid_bytes

from tests.support.gpu.interposer import NAME, place, unplaced_interposer
from tests.support.isolation.building import fake_driver_variables
from tests.support.isolation.fake_devices import make_device
from tests.support.node_agent.node import Node
from tests.support.torch_runtime import CLIENT, ENTER, torch_runtime

SCRIPTS = Path(__file__).with_name("scripts")
START_SECONDS = 240.0
ANSWER_SECONDS = 300.0

_ENTER_WITH_SOCKET = """
enter=$1 root=$2 scripts=$3 work=$4 client=$5
shift 5
agent_folder=${LANEWAY_DIR:-$work}
if [ -n "${LANEWAY_DIR:-}" ]; then export LANEWAY_DIR=/run/laneway PYTHONPATH=/opt/laneway; else unset PYTHONPATH; fi
exec unshare --mount --propagation private sh -e -c "$enter" sh "$root" "$scripts" "$work" "$client" "$agent_folder" "$@"
"""


def worker_command(work: Path, *options: str) -> list[str]:
    """Return the command line of a worker: in this interpreter where it has PyTorch, else in the tests' root file system with PyTorch."""
    runtime = torch_runtime()
    if runtime.root is None:
        return [sys.executable, "-u", str(SCRIPTS / "worker.py"), *options]
    inside = [ENTER, str(runtime.root), str(SCRIPTS), str(work), str(CLIENT)]
    return [
        "sh",
        "-e",
        "-c",
        _ENTER_WITH_SOCKET,
        "sh",
        *inside,
        "python3",
        "-u",
        "/srv/scripts/worker.py",
        *options,
    ]


class Worker:
    """A process that trains on command."""

    def __init__(self, command: Sequence[str], work: Path, environment: Mapping[str, str]) -> None:
        self.work = work
        self._errors = (work / "errors").open("w+")
        variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", **environment}
        self._process = subprocess.Popen(
            command,
            env=variables,
            cwd=work,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        self._first: dict[str, Any] | None = None

    @property
    def ready(self) -> dict[str, Any]:
        """Its first message; waits for it."""
        if self._first is None:
            self._first = self.answer(START_SECONDS)
        return self._first

    @property
    def pid(self) -> int:
        """Of the process that trains."""
        return int(self.ready["pid"])

    def start(self, verb: str, **fields: Any) -> None:
        """Tell it what to do."""
        assert self.ready
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": verb, **fields}) + "\n")
        self._process.stdin.flush()

    def answer(self, seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        """Wait until it has done so."""
        assert self._process.stdout is not None
        poller = select.poll()
        poller.register(self._process.stdout, select.POLLIN)
        assert poller.poll(1000 * seconds), f"no answer within {seconds:g} s:\n{self.errors}"
        line = self._process.stdout.readline()
        assert line, f"it has ended:\n{self.errors}"
        found: dict[str, Any] = json.loads(line)
        return found

    def do(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Have it do something."""
        self.start(verb, **fields)
        return self.answer()

    def train_until_told(self, **fields: Any) -> None:
        """Let it train until :meth:`enough`."""
        (self.work / "enough").unlink(missing_ok=True)
        self.start("train", until="enough", **fields)

    def enough(self) -> dict[str, Any]:
        """End the training; returns what came of it."""
        (self.work / "enough").touch()
        return self.answer()

    def status(self, seconds: float = 120.0) -> int:
        """Wait for its end; returns the exit status."""
        return self._process.wait(seconds)

    @property
    def errors(self) -> str:
        """Its standard error."""
        return (self.work / "errors").read_text()

    def end(self) -> None:
        """End it and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


class Workstation:
    """The agent and its jobs. A context: all ends with it."""

    def __init__(self, device: str, **config: Any) -> None:
        """Start the agent.

        Args:
            device: `cuda`: with the machine's GPUs; `cpu`: with one simulated GPU.
            config: fields of node.yaml.
        """
        self.device = device
        self._folder = tempfile.TemporaryDirectory(prefix="lw-")  # a short name: sockets have short paths
        self.root = Path(self._folder.name)
        source = "nvml" if device == "cuda" else "simulated"
        base = {
            "gpuSource": source,
            "reserveMebibytes": 300,
            "sharing": "off",
            "health": {"probeSeconds": 1},
        }
        self.node = Node(self.root, name="workstation", **{**base, **config})
        self.node.profile = {"gpus": [{"model": "Simulated", "memory": "2Gi"}]}
        self._workers: list[Worker] = []
        self.reproducible = ("--deterministic", "--batch", "512" if device == "cuda" else "32")
        """Of workers whose results are compared to the bit; large enough for CUDA's allocator to cache something."""
        self.node.start("--standalone")

    def __enter__(self) -> Workstation:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()
        self.node.end()
        self._folder.cleanup()

    def job(
        self,
        name: str,
        share: int,
        *options: str,
        without_client: bool = False,
        interposed: bool = False,
        **environment: str,
    ) -> Worker:
        """Start a worker with a share of the first GPU; waits for nothing."""
        work = self._work_folder(name)
        command = self._run_job(name, share)
        if without_client:
            command += ["env", "-u", "LANEWAY_DIR"]
        if interposed:
            command += self._interposed(work, "with-client")
        return self._start(
            [*command, *worker_command(work, "--device", self.device, *options)], work, environment
        )

    def launching(self, name: str, share: int, interposed: bool = True) -> Worker:
        """Start a job without PyTorch and without a client, `scripts/launching.py`; waits for nothing.

        Args:
            name: of the job.
            share: of the first GPU, in percent.
            interposed: with the interposer. Else neither its memory nor its launches are held.
        """
        work = self._work_folder(name)
        program = [sys.executable, "-u", str(SCRIPTS / "launching.py"), "--device", self.device]
        if interposed:
            inside = self._interposed(work, "without-client")
        else:
            inside = ["env", "-u", "LANEWAY_DIR"]
            if self.device == "cpu":
                program += ["--simulated-kernels", str(self.root / "run/laneway/simulated-kernels/0")]
        return self._start([*self._run_job(name, share), *inside, *program], work, self.driver_variables)

    def launching_plainly(self, name: str) -> Worker:
        """Start such a program without Laneway."""
        program = [sys.executable, "-u", str(SCRIPTS / "launching.py"), "--device", self.device]
        return self._start(program, self._work_folder(name), {**self.visible, **self.driver_variables})

    @cached_property
    def interposer(self) -> Path:
        """The library, to be placed in a job's folder."""
        return unplaced_interposer(self.root / "interposer")

    def placed_interposer(self, directory: Path) -> Path:
        """Return the library that finds the agent's sockets in a folder, as a file of that folder."""
        return place(self.interposer, directory, directory / NAME)

    @cached_property
    def driver_variables(self) -> dict[str, str]:
        """The environment in which a program without PyTorch finds the driver: for a simulated GPU the fake one, whose device has 1 GiB
        and the uuid of the simulated GPU."""
        if self.device == "cuda":
            return {}
        devices = self.root / "devices"
        devices.mkdir()
        make_device(devices, 0, 1 << 30, uuid_bytes(self.gpu["uuid"]) or b"")
        (devices / "kernels").touch()
        return fake_driver_variables(devices)

    def _interposed(self, work: Path, client: str) -> list[str]:
        script = str(SCRIPTS / "interposed.py")
        return [sys.executable, script, client, str(self.interposer), str(work / NAME)]

    def _run_job(self, name: str, share: int) -> list[str]:
        command = [sys.executable, "-m", "laneway.node_agent.main", "run-job", "--root", str(self.root)]
        command += ["--name", name, "--share", str(share), "--gpu", "0", "--client", str(CLIENT)]
        return [*command, "--config", str(self.root / "node.yaml"), "--"]

    def plain(self, name: str, *options: str, **environment: str) -> Worker:
        """Start a worker without Laneway."""
        work = self._work_folder(name)
        variables = {**self.visible, **environment}
        return self._start(worker_command(work, "--device", self.device, *options), work, variables)

    @property
    def visible(self) -> dict[str, str]:
        """The environment in which a process sees the first GPU alone."""
        return {"CUDA_VISIBLE_DEVICES": self.gpu["uuid"]} if self.device == "cuda" else {}

    @property
    def gpu(self) -> dict[str, Any]:
        """What the agent says of the first GPU."""
        inventory = json.loads((self.root / "run/laneway/inventory.json").read_text())
        found: dict[str, Any] = inventory["gpus"][0]
        return found

    def _work_folder(self, name: str) -> Path:
        work = self.root / f"work-{name}-{len(self._workers)}"
        work.mkdir()
        return work

    def _start(self, command: Sequence[str], work: Path, environment: Mapping[str, str]) -> Worker:
        self._workers.append(Worker(command, work, environment))
        return self._workers[-1]
