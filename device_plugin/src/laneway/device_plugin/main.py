"""`laneway-device-plugin`: reads the configuration, assembles the parts, and runs them until it is
stopped."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from laneway.api.config_file import ConfigError, parse_config
from laneway.api.node_config import NodeConfig
from laneway.device_plugin.admission import Admission
from laneway.device_plugin.advertisement import Advertisement
from laneway.device_plugin.allocation import AllocationSettings
from laneway.device_plugin.container_folders import ContainerFolders
from laneway.device_plugin.folders import Folders
from laneway.device_plugin.http_endpoint import Answer, HttpEndpoint, json_answer
from laneway.device_plugin.image_paths import ImagePaths
from laneway.device_plugin.inventory_file import InventoryWatcher
from laneway.device_plugin.metrics import Metrics
from laneway.device_plugin.node_pods import APIUnavailableError, NodePods
from laneway.device_plugin.other_pods_file import OtherPodsFile
from laneway.device_plugin.plugin_service import PluginService
from laneway.device_plugin.pod_api import NodeAPI, configuration
from laneway.device_plugin.pod_info import PodInfo
from laneway.device_plugin.pod_resources import PodResourcesClient
from laneway.device_plugin.registration import Registration
from laneway.device_plugin.runtime_images import RuntimeImages
from laneway.device_plugin.share_manager import ShareManager
from prometheus_client import disable_created_metrics

_log = logging.getLogger("laneway.device_plugin")

_WRONG_CONFIGURATION = 2


def main(arguments: list[str] | None = None) -> int:
    """Run the plugin. Return 0 after SIGTERM, 2 if the configuration is wrong."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        config = _config(options.config)
        if not options.node_name:
            raise ConfigError(
                "NODE_NAME: not set: set it from spec.nodeName (downward API), or write --node-name"
            )
        asyncio.run(_run(options, config))
    except (ConfigError, APIUnavailableError) as error:
        print(error, file=sys.stderr)
        return _WRONG_CONFIGURATION
    return 0


def _parser() -> argparse.ArgumentParser:
    defaults = Folders()
    parser = argparse.ArgumentParser(
        prog="laneway-device-plugin", description="Allocate shares of this node's GPUs to pods."
    )
    parser.add_argument("--config", type=Path, required=True, help="node.yaml")
    parser.add_argument("--node-name", default=os.environ.get("NODE_NAME", ""), help="default: $NODE_NAME")
    parser.add_argument(
        "--kubeconfig", help="default: the pod's service account; without either, no pod is looked up"
    )
    parser.add_argument("--inventory", type=Path, default=defaults.inventory)
    parser.add_argument("--containers-folder", type=Path, default=defaults.containers)
    parser.add_argument("--client-folder", type=Path, default=defaults.client)
    parser.add_argument("--device-plugins-folder", type=Path, default=defaults.device_plugins)
    parser.add_argument("--pod-resources-socket", type=Path, default=defaults.pod_resources_socket)
    parser.add_argument(
        "--runtime-socket",
        default=str(defaults.runtime_socket),
        help="the container runtime's CRI socket, queried for the PYTHONPATH of images; empty: not queried",
    )
    parser.add_argument(
        "--http-address",
        default="",
        help="HTTP address of metrics and health (default: all, of IPv4 and IPv6)",
    )
    parser.add_argument(
        "--http-port", type=int, default=9465, help="HTTP port; 0: any free one, which is logged"
    )
    return parser


def _config(path: Path) -> NodeConfig:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: cannot be read: {error}; write the path of node.yaml after --config"
        ) from error
    return parse_config(text, NodeConfig, str(path))


async def _run(options: argparse.Namespace, config: NodeConfig) -> None:
    folders = Folders(
        inventory=options.inventory,
        containers=options.containers_folder,
        client=options.client_folder,
        device_plugins=options.device_plugins_folder,
        pod_resources_socket=options.pod_resources_socket,
        runtime_socket=Path(options.runtime_socket) if options.runtime_socket else None,
    )
    client_configuration = await configuration(options.kubeconfig)
    api = None if client_configuration is None else NodeAPI(options.node_name, client_configuration)
    if api is None:
        _log.warning("no API server configured: GPUs are chosen by best fit, and pods stay unknown")
    records = PodResourcesClient(folders.pod_resources_socket)
    inventory_watcher = InventoryWatcher(folders.inventory, options.node_name)

    def changed(pod: PodInfo) -> None:
        if pod.requests:
            shares.trigger()
        if not pod.is_worker:
            other_pods.trigger()

    pods = NodePods(api, changed=changed)
    other_pods = OtherPodsFile(folders.pod_requests, pods)
    containers = ContainerFolders(folders.containers)
    shares = ShareManager(containers, records, pods, inventory_watcher.inventory)
    images = None if folders.runtime_socket is None else RuntimeImages(folders.runtime_socket)
    # A second series for each counter, which Prometheus does not need.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    metrics = Metrics(options.node_name)
    admission = Admission(records, pods)
    settings = AllocationSettings(
        config.driver_root, config.enforcement.limit_threads, config.lanes.framework_mebibytes << 20
    )
    service = PluginService(
        folders,
        containers,
        settings,
        inventory_watcher.inventory,
        admission,
        records,
        shares,
        ImagePaths(containers, images),
        metrics,
    )
    registration = Registration(folders, service)
    advertisement = Advertisement(api, inventory_watcher.inventory, registration)
    endpoint = _endpoint(options, metrics, registration, advertisement, inventory_watcher, shares)
    endpoint.start()
    _log.info("serving metrics and health port=%d", endpoint.port)
    try:
        await _until_told_to_stop(inventory_watcher, pods, other_pods, shares, registration, advertisement)
    finally:
        endpoint.stop()
        await records.close()
        if images is not None:
            await images.close()
        if api is not None:
            await api.close()


async def _until_told_to_stop(
    inventory_watcher: InventoryWatcher,
    pods: NodePods,
    other_pods: OtherPodsFile,
    shares: ShareManager,
    registration: Registration,
    advertisement: Advertisement,
) -> None:
    """Run the parts. If one fails, all end, so that the kubelet restarts the plugin."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)

    async def register_when_gpus_are_known() -> None:
        version, inventory = await inventory_watcher.inventory.wait_newer(0)
        while not inventory.gpus:
            version, inventory = await inventory_watcher.inventory.wait_newer(version)
        await registration.run()

    async with asyncio.TaskGroup() as group:
        parts = (
            inventory_watcher.run(),
            pods.run(),
            other_pods.run(),
            shares.run(),
            register_when_gpus_are_known(),
            advertisement.run(),
        )
        tasks = [group.create_task(part) for part in parts]
        await stopped.wait()
        for task in tasks:
            task.cancel()


def _endpoint(
    options: argparse.Namespace,
    metrics: Metrics,
    registration: Registration,
    advertisement: Advertisement,
    inventory_watcher: InventoryWatcher,
    shares: ShareManager,
) -> HttpEndpoint:
    def state() -> dict[str, object]:
        return {
            "registered": registration.registered,
            "registrations": registration.count,
            "followed": registration.followed,
            "advertised": advertisement.no_gpus_reason or advertisement.problem or advertisement.ready,
            "inventory": inventory_watcher.problem or "ok",
            "folders": shares.problem or "ok",
        }

    def metrics_page() -> Answer:
        text = metrics.text(registration.registered, has_gpus=not advertisement.no_gpus_reason)
        return 200, "text/plain; version=0.0.4; charset=utf-8", text

    return HttpEndpoint(
        options.http_address,
        options.http_port,
        {
            "/metrics": metrics_page,
            # Alive means that it answers: restarting the plugin mends neither a missing agent nor a missing
            # kubelet.
            "/healthz": lambda: json_answer(True, state()),
            "/readyz": lambda: json_answer(advertisement.ready, state()),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
