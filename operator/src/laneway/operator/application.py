"""One replica of the operator: its parts, put together, and its end.

These run side by side: kopf's watches, the raw streams, the lists of the agents' Leases, the campaign for the lease, the engine,
and the writing of events. When one ends, all do, and the process with them: Kubernetes starts it again, and the cluster holds all
that it has to know.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
import uuid
from collections.abc import Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any

from laneway.operator.cycle.job_figures import no_gauges
from laneway.operator.engine import Engine
from laneway.operator.execute.leader import Leadership
from laneway.operator.execute.writer import Writer
from laneway.operator.http_server import serve
from laneway.operator.metrics import Metrics
from laneway.operator.pacing import LAST_EVENTS_SECONDS
from laneway.operator.state.cache import ClusterCache
from laneway.operator.state.resources import (
    GPU_NODES,
    LEASES,
    STREAMED,
    TRAINING_JOBS,
    TRAINING_PROFILES,
    Resource,
)
from laneway.operator.watch.apiserver import ApiServer, Raw, connect
from laneway.operator.watch.discovery import until_discovered
from laneway.operator.watch.handlers import watch
from laneway.operator.watch.heartbeats import hear
from laneway.operator.watch.streams import stream
from laneway.scheduling.config.operator_config import OperatorConfig

logger = logging.getLogger(__name__)

_SILENCE_SECONDS = 120.0
"""An engine that shows no sign of life for so long is not healthy."""


async def run(
    config: OperatorConfig,
    namespace: str,
    kubeconfig: Path | None,
    streamed: Collection[Resource] = STREAMED,
) -> None:
    """Run one replica until SIGTERM or SIGINT.

    Args:
        config: the operator's configuration.
        namespace: where the lease is kept.
        kubeconfig: how to reach the API server; None: by $KUBECONFIG, else by the pod's service account.
        streamed: kinds of objects that are watched without kopf; a benchmark compares the two.

    Raises:
        CredentialsError: there is no way to reach an API server.
        ExceptionGroup: a part of the operator failed.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with await connect(kubeconfig, config.namespaces) as api:
        await _Replica(config, namespace, api, streamed).run(stop)


class _Replica:
    def __init__(
        self, config: OperatorConfig, namespace: str, api: ApiServer, streamed: Collection[Resource]
    ) -> None:
        self._config = config
        self._namespace = namespace
        self._streamed = streamed
        self._api = api
        self._metrics = Metrics()
        self._metrics.show(no_gauges)
        api.answered = lambda method, code: self._metrics.api_requests.labels(method, code).inc()
        self._cache = ClusterCache(time.time)
        lease_path = LEASES.path(namespace, config.lease.name)

        async def read_lease() -> Raw:
            return await api.request("GET", lease_path, timeout_seconds=config.lease.retry_seconds)

        async def put_lease(lease: Raw, new: bool) -> Raw:
            return await self._writer.put_lease(lease, new=new)

        identity = f"{os.environ.get('HOSTNAME', 'operator')}-{uuid.uuid4().hex[:8]}"
        self._leadership = Leadership(
            config.lease,
            namespace,
            identity,
            monotonic=time.monotonic,
            wall=time.time,
            read=read_lease,
            put=put_lease,
        )
        self._writer = Writer(api, self._cache, self._metrics, self._leadership.seconds_left)
        self._engine = Engine(
            config, api, self._cache, self._writer, self._metrics, self._leadership, wall=time.time
        )

    async def run(self, stop: asyncio.Event) -> None:
        address, port = self._config.metrics_address, self._config.metrics_port
        async with serve(address, port, self._metrics, self._health, self._readiness):
            kinds = (TRAINING_JOBS, TRAINING_PROFILES, GPU_NODES)
            if not await self._unless_stopped(until_discovered(self._api, kinds), stop):
                return
            await self._run_parts(stop)

    async def _run_parts(self, stop: asyncio.Event) -> None:
        parts = {
            "streams": stream(self._cache, self._api, self._engine.heard_of, self._streamed),
            "watches": watch(
                self._cache, self._api, self._engine.heard_of, self._engine.list_soon, self._streamed
            ),
            "heartbeats": hear(
                self._cache,
                self._api,
                self._namespace,
                self._config.timeouts.silent_node_seconds,
                self._engine.heard_of,
            ),
            "campaign": self._leadership.campaign(self._leadership_changed),
            "engine": self._engine.run(),
            "events": self._writer.write_events(lambda: self._engine.writes_under_way),
            "stop": stop.wait(),
        }
        tasks = {name: asyncio.create_task(part, name=name) for name, part in parts.items()}
        done, _ = await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        logger.info("ending")
        await self._end(tasks)
        for task in done:
            if task.get_name() != "stop":
                logger.error("a part of the operator ended", extra={"part": task.get_name()})
                task.result()
                raise RuntimeError(f"{task.get_name()} ended unexpectedly")

    async def _end(self, tasks: Mapping[str, asyncio.Task[Any]]) -> None:
        """End the parts, write what is left, and give the lease back.

        The lease is renewed until the last event is written: the writes in flight may take longer than it lasts. The watches may
        take long as well, and nobody waits for them: kopf gives a request that hangs 5 s.
        """
        campaign = tasks["campaign"]
        for task in tasks.values():
            if task is not campaign or not self._leadership.leads:
                task.cancel()
        await asyncio.wait([tasks["engine"], tasks["events"]])
        await self._writer.write_last_events(LAST_EVENTS_SECONDS)
        campaign.cancel()
        await asyncio.wait([campaign])
        await self._leadership.release()
        await asyncio.wait(tasks.values())

    def _leadership_changed(self) -> None:
        self._metrics.leader.set(1 if self._leadership.leads else 0)
        self._engine.wake()

    @staticmethod
    async def _unless_stopped(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> bool:
        """Do some work; return False where it was given up because the operator is to stop."""
        task = asyncio.create_task(work)
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not task.done():
            task.cancel()
            return False
        task.result()
        return True

    def _health(self) -> str:
        silent_seconds = time.time() - self._engine.last_sign_seconds
        if self._leadership.contacted and silent_seconds > _SILENCE_SECONDS:
            return f"the engine has shown no sign of life for {silent_seconds:.0f} s"
        return ""

    def _readiness(self) -> str:
        if not self._leadership.contacted:
            return "the API server has not answered yet"
        if self._leadership.leads and not self._engine.synced:
            return "this replica leads and has not read the cluster yet"
        return ""
