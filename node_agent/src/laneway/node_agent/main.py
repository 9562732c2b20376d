"""``laneway-node-agent``: reads the configuration, finds the GPUs, and runs the agent.

NVML and the Kubernetes client are imported only if needed: each takes longer than everything else.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from laneway.api.config_file import ConfigError, parse_config
from laneway.api.node_config import NodeConfig
from laneway.api.simulated_gpus import SimulatedGPUs
from laneway.node_agent.agent import Agent, AgentOptions
from laneway.node_agent.agent_lock import AgentLock
from laneway.node_agent.clock import Clock, SystemClock
from laneway.node_agent.configuration import DEFAULT_PATH, read_node_config, read_text
from laneway.node_agent.devices.monitor import DeviceAccessMonitor
from laneway.node_agent.discovery import DRIVER_VERSION_FILE, StaleContainerError, discover
from laneway.node_agent.enforcement import mps_command
from laneway.node_agent.gpus import command as gpu_command
from laneway.node_agent.gpus.deadline import DeadlineCaller
from laneway.node_agent.gpus.missing_gpus import with_missing_gpus
from laneway.node_agent.gpus.protocol import GPUInfo, GPUSource
from laneway.node_agent.gpus.simulated import SimulatedGPUSource
from laneway.node_agent.gpus.simulated_faults import FaultsFile
from laneway.node_agent.gpus.simulated_kernels import SimulatedKernels
from laneway.node_agent.host_folders import HostFolders
from laneway.node_agent.jobs import command as job_command
from laneway.node_agent.no_gpus import NoGPUs
from laneway.node_agent.orders import command as order_command
from laneway.node_agent.orders.cluster_watch import SpecSource
from laneway.node_agent.report.gpu_node_writer import NoAPIServerError
from laneway.node_agent.report.no_gpus_publisher import NoGPUsPublisher
from laneway.node_agent.report.publisher import GPUNodePublisher

if TYPE_CHECKING:
    from laneway.node_agent.report.gpu_node_api import KubernetesWriter
    from laneway.node_agent.report.node_lease import NodeLease

_log = logging.getLogger("laneway.node_agent")
_DISCOVERY_SECONDS = 30.0
_OBJECTS_PER_COLLECTION = 10_000
"""New objects between two garbage collections. A few hundred turns create this many, and hardly any form
cycles."""
_SWITCH_SECONDS = 0.000_2
"""How long another thread may keep the loop's thread waiting. Python's default of 5 ms would delay
hand-offs during a scrape."""

_VERBS: Mapping[str, Callable[[Sequence[str]], int]] = {
    "gpu": gpu_command.run,
    "mps-daemon": mps_command.run,
    "order": order_command.run,
    "run-job": job_command.run,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent. Return 0 after SIGTERM or SIGINT, 2 for a wrong configuration, 1 otherwise.

    With a command as first argument, run that command instead.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in _VERBS:
        return _VERBS[arguments[0]](arguments[1:])
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        level=options.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    try:
        node = _node_name(options)
        config = read_node_config(options.config, optional=options.standalone)
        clock = SystemClock()
        source = _source(config, options, node, clock)
        server = None if options.standalone else _connect(node, options.namespace, clock)
    except (ConfigError, NoAPIServerError) as error:
        print(error, file=sys.stderr)
        return 2
    if server is None:
        _log.info("standalone mode: no API server is used and no GPUNode is written")
    return _run(options, node, config, source, clock, server)


def _run(
    options: argparse.Namespace,
    node: str,
    config: NodeConfig,
    source: GPUSource,
    clock: Clock,
    server: tuple[KubernetesWriter, NodeLease] | None,
) -> int:
    sys.setswitchinterval(_SWITCH_SECONDS)
    _raise_descriptor_limit()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    folders = HostFolders(options.root)
    agent_options = AgentOptions(node, folders, options.address, options.port, options.standalone)
    no_gpus = NoGPUs(agent_options, None if server is None else NoGPUsPublisher(*server, clock))
    try:
        caller: DeadlineCaller[tuple[GPUInfo, ...]] = DeadlineCaller("GPU discovery", _DISCOVERY_SECONDS)
        version_file = None if options.standalone else DRIVER_VERSION_FILE
        gpus = discover(lambda: caller.call(source.discover), no_gpus, stopped.wait, version_file)
        if gpus is None:
            return 0
        folders.make()
        lock = AgentLock(folders.agent_state)
        if not lock.acquire(stopped):
            return 0
        gpus = with_missing_gpus(gpus, folders.inventory)
        agent = Agent(agent_options, config, source, gpus, clock)
        publisher = specs = devices = None
        if server is not None:
            devices = DeviceAccessMonitor(gpus, config, folders, server[0].read_node)
            publisher = GPUNodePublisher(*server, agent.status, clock, config.status_interval_seconds)
            specs = _specs(node, server[0], publisher)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: agent.stop())
        if stopped.is_set():
            return 0
        # Freeze what exists now: later collections look at sessions only and take microseconds.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_OBJECTS_PER_COLLECTION)
        agent.run(publisher, specs, devices)
    except OSError as error:
        _log.error("%s", error)
        return 1
    except StaleContainerError as error:
        _log.error("ending, so that the kubelet creates the container again reason=%r", str(error))
        return 1
    _log.info("ended")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="laneway-node-agent",
        description="Run sessions, lanes and turns on the GPUs of one node.",
        epilog=f"Commands for the node's shell: laneway-node-agent {{{','.join(_VERBS)}}} --help",
    )
    parser.add_argument(
        "--config",
        type=Path,
        default=DEFAULT_PATH,
        help="NodeConfig file (%(default)s; optional with --standalone)",
    )
    parser.add_argument(
        "--gpus",
        type=Path,
        default=Path("/etc/laneway/gpus.yaml"),
        help="SimulatedGPUs file for gpuSource: simulated (%(default)s)",
    )
    parser.add_argument(
        "--root", type=Path, default=Path("/"), help="root of the host's folders (%(default)s)"
    )
    parser.add_argument("--node-name", default=os.environ.get("NODE_NAME", ""), help="default: $NODE_NAME")
    parser.add_argument(
        "--namespace",
        default=os.environ.get("POD_NAMESPACE") or "laneway-system",
        help="namespace of the node's Lease; default: $POD_NAMESPACE, else laneway-system",
    )
    parser.add_argument("--address", default="", help="HTTP address (default: all, of IPv4 and IPv6)")
    parser.add_argument("--port", type=int, default=9464, help="HTTP port; 0: any (%(default)s)")
    parser.add_argument(
        "--standalone", action="store_true", help="run without a cluster; start jobs with `run-job`"
    )
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    return parser


def _node_name(options: argparse.Namespace) -> str:
    if not options.node_name and options.standalone:
        return os.uname().nodename
    if not options.node_name:
        raise ConfigError("the node's name is unknown: set NODE_NAME (spec.nodeName), or pass --node-name")
    return str(options.node_name)


def _source(config: NodeConfig, options: argparse.Namespace, node: str, clock: Clock) -> GPUSource:
    if config.gpu_source == "nvml":
        from laneway.node_agent.gpus.nvml import NVML

        return NVML()
    profile = parse_config(read_text(options.gpus), SimulatedGPUs, str(options.gpus))
    folders = HostFolders(options.root)
    faults, kernels = FaultsFile(folders.simulated_faults), SimulatedKernels(folders.simulated_kernels)
    return SimulatedGPUSource(profile, node, clock, faults, kernels)


def _connect(node: str, namespace: str, clock: Clock) -> tuple[KubernetesWriter, NodeLease]:
    from laneway.node_agent.report.gpu_node_api import KubernetesWriter
    from laneway.node_agent.report.node_lease import NodeLease

    writer = KubernetesWriter.connect(node)
    return writer, NodeLease(node, namespace, writer, clock)


def _specs(node: str, writer: KubernetesWriter, publisher: GPUNodePublisher) -> SpecSource:
    from laneway.node_agent.report.gpu_node_reader import GPUNodeReader

    return GPUNodeReader(node, writer.api, publisher.seen)


def _raise_descriptor_limit() -> None:
    """Raise the limit on open files to its maximum: a session takes three descriptors."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    sys.exit(main())
