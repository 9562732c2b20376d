"""``laneway-node-agent run-job``: runs a command with a share of a GPU, on a machine without Kubernetes."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from laneway.api.config_file import ConfigError
from laneway.api.container_record import Launcher
from laneway.api.inventory import InventoryGPU
from laneway.api.jax_memory import jax_memory
from laneway.api.mps_limits import mps_limits
from laneway.api.names import CLIENT_FOLDER, MPS_CLIENTS_NAME
from laneway.node_agent.configuration import DEFAULT_PATH, read_node_config
from laneway.node_agent.host_folders import HostFolders
from laneway.node_agent.jobs.errors import JobError
from laneway.node_agent.jobs.job_folder import Share, ShareRequest, read_inventory, share
from laneway.node_agent.jobs.launch import launch
from laneway.node_agent.processes import start_ticks

_NOT_STARTED = 125
"""The exit status if the command was not started, as for env(1) and timeout(1)."""


def run(arguments: Sequence[str]) -> int:
    """Run a job to its end. Return its exit status, or 125 with a sentence on standard error if it was not
    started."""
    options = _parser().parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    folders = HostFolders(options.root.absolute())
    me = os.getpid()
    launcher = Launcher(pid=me, start_ticks=start_ticks(me) or 0)
    try:
        if not command:
            raise JobError("no command given: write `run-job --share 50 -- python3 train.py`")
        client = _client(options.client or folders.root / CLIENT_FOLDER.lstrip("/"))
        config = read_node_config(options.config, optional=True)
        request = ShareRequest(options.name or _name_of(command, me), options.share, options.gpu)
        with share(folders, request, launcher) as held:
            gpu = _gpu_of(held, read_inventory(folders).gpus)
            mps = mps_limits(
                [gpu], options.share, str(folders.mps / MPS_CLIENTS_NAME), config.enforcement.limit_threads
            )
            jax = jax_memory([gpu], options.share, config.lanes.framework_mebibytes << 20)
            return launch(command, jax | environment_of(held, gpu, client, os.environ) | mps)
    except (JobError, ConfigError) as error:
        print(f"laneway-node-agent run-job: {error}", file=sys.stderr)
        return _NOT_STARTED


def environment_of(held: Share, gpu: InventoryGPU, client: Path, around: Mapping[str, str]) -> dict[str, str]:
    """Return a job's environment: like that of `Allocate` for a container, with paths of the machine."""
    path = [str(client), around["PYTHONPATH"]] if around.get("PYTHONPATH") else [str(client)]
    environment = {
        **around,
        "LANEWAY_DIR": str(held.folder),
        "LANEWAY_GPUS": gpu.uuid,
        "LANEWAY_SHARE_PERCENT": str(held.record.shares[gpu.uuid]),
        "PYTHONPATH": os.pathsep.join(path),
    }
    if not gpu.simulated:
        environment["CUDA_VISIBLE_DEVICES"] = gpu.uuid
    return environment


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="laneway-node-agent run-job",
        description="Run a command with a share of a GPU. The share is the command's until the last process of it has ended.",
        epilog="The agent must be running: laneway-node-agent --standalone --root ROOT",
    )
    parser.add_argument(
        "--root", type=Path, default=Path("/"), help="root of the agent's folders (%(default)s)"
    )
    parser.add_argument(
        "--config", type=Path, default=DEFAULT_PATH, help="the agent's configuration file (%(default)s)"
    )
    parser.add_argument(
        "--share", type=_percent, default=100, metavar="PERCENT", help="of one GPU (%(default)s)"
    )
    parser.add_argument(
        "--gpu", default="", help="index or uuid; default: the fullest GPU that holds the share"
    )
    parser.add_argument(
        "--name", type=_name, help="name in orders and reports; default: derived from the command"
    )
    parser.add_argument("--client", type=Path, help=f"folder of the client (ROOT{CLIENT_FOLDER})")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="what to run")
    return parser


def _percent(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a share: write a whole number of percent, 1 or more"
        )
    return int(text)


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid name: write up to 63 small letters, digits, - and ., the first and last a letter or digit"
        )
    return text


def _name_of(command: Sequence[str], pid: int) -> str:
    scripts = [argument for argument in command if argument.endswith(".py")] or list(command)
    letters = re.sub(r"[^a-z0-9]+", "-", Path(scripts[0]).stem.lower()).strip("-")
    return f"{letters[:48] or 'job'}-{pid}".strip("-")


def _client(folder: Path) -> Path:
    if not (folder / "sitecustomize.py").is_file():
        raise JobError(
            f"{folder} holds no client: install it there (client/src of the sources), or name its folder with --client"
        )
    return folder.absolute()


def _gpu_of(held: Share, gpus: Sequence[InventoryGPU]) -> InventoryGPU:
    (uuid,) = held.record.shares
    for gpu in gpus:
        if gpu.uuid == uuid:
            return gpu
    raise JobError(f"GPU {uuid} just left the inventory: try again")
