"""The PYTHONPATH of images, asked of a container runtime over a real socket and written into containers' folders."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from laneway.device_plugin.container_folders import ContainerFolders
from laneway.device_plugin.image_paths import ImagePaths
from laneway.device_plugin.pod_info import PodInfo
from laneway.device_plugin.pod_resources import Holder
from laneway.device_plugin.proto import cri_pb2 as cri
from laneway.device_plugin.runtime_images import RuntimeImages

from tests.integration.device_plugin.plugin_process import PluginNode
from tests.support.device_plugin.builders import ids, pod

TAKEN = ids(0, range(50))
HOLDER = Holder("default", "a", "trainer", frozenset(TAKEN))
IMAGE = "image-of-trainer"


@dataclass
class Runtime:
    """A container runtime's image service: the environment by image; it answers while `answers` is set."""

    images: dict[str, list[str]] = field(default_factory=dict)
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    info: dict[str, str] | None = None

    async def image_status(self, request: cri.ImageStatusRequest, context: Any) -> cri.ImageStatusResponse:
        await self.answers.wait()
        assert request.verbose
        if request.image.image not in self.images:
            return cri.ImageStatusResponse()
        config = {"imageSpec": {"config": {"Env": self.images[request.image.image]}}}
        info = {"info": json.dumps(config)} if self.info is None else self.info
        return cri.ImageStatusResponse(image=cri.Image(id="sha256:0"), info=info)

    @contextlib.asynccontextmanager
    async def serve(self, socket: Path) -> AsyncIterator[None]:
        server = grpc.aio.server()
        handler = grpc.unary_unary_rpc_method_handler(
            self.image_status,
            cri.ImageStatusRequest.FromString,
            cri.ImageStatusResponse.SerializeToString,
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("runtime.v1.ImageService", {"ImageStatus": handler}),)
        )
        server.add_insecure_port(f"unix://{socket}")
        await server.start()
        try:
            yield
        finally:
            await server.stop(None)


@dataclass
class Side:
    """The plugin's side of it, and the folder of one container."""

    folders: ContainerFolders
    paths: ImagePaths
    socket: Path

    async def start(self, known: PodInfo | None, generation: int | None = None) -> str | None:
        """Write the record of the starting container; return the file that its client will find."""
        key = (
            self.folders.create(TAKEN, interposer=False)
            if not self.folders.keys()
            else self.folders.keys()[0]
        )
        await self.paths.record(
            TAKEN, HOLDER, known, self.folders.generation(key) if generation is None else generation
        )
        file = self.folders.path(key) / "image-pythonpath"
        return file.read_text() if file.exists() else None


@contextlib.asynccontextmanager
async def admitting(node: PluginNode, connect_seconds: float, answer_seconds: float) -> AsyncIterator[Side]:
    path, folders = node.root / "runtime.sock", ContainerFolders(node.containers)
    images = RuntimeImages(path, connect_seconds, answer_seconds)
    try:
        yield Side(folders, ImagePaths(folders, images), path)
    finally:
        await images.close()


@pytest.fixture
async def side(node: PluginNode) -> AsyncIterator[Side]:
    """A plugin side with timeouts longer than any answer takes."""
    async with admitting(node, connect_seconds=30, answer_seconds=30) as patient:
        yield patient


@pytest.fixture
def runtime() -> Runtime:
    made = Runtime({IMAGE: ["PATH=/bin", "PYTHONPATH=/opt/own"]})
    made.answers.set()
    return made


async def test_each_start_of_a_container_finds_its_images_current_value(side: Side, runtime: Runtime) -> None:
    """A pod's image may be changed in place: its containers start again, with the same ids."""
    async with runtime.serve(side.socket):
        assert await side.start(pod("a")) == "/opt/own"
        runtime.images[IMAGE] = ["PYTHONPATH=/opt/other"]
        assert await side.start(pod("a")) == "/opt/other"
        runtime.images[IMAGE] = ["PATH=/bin"]
        assert await side.start(pod("a")) is None


async def test_an_unknown_pythonpath_refuses_nothing_and_is_logged_once(
    node: PluginNode, side: Side, runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        assert await side.start(pod("a")) is None
    assert [record.message for record in caplog.records] == [
        f"image PYTHONPATH unknown, containers start without it error='there is no container runtime at {side.socket}'"
    ]

    with socket.socket(socket.AF_UNIX) as nobodys:
        nobodys.bind(str(side.socket))
        async with admitting(node, connect_seconds=0, answer_seconds=30) as hurried:
            assert await hurried.start(pod("a")) is None
        assert "UNAVAILABLE" in caplog.messages[-1]
    side.socket.unlink()

    async with runtime.serve(side.socket):
        runtime.info = {"Docker": "{}"}
        assert await side.start(pod("a")) is None
        assert "does not report images' environments" in caplog.messages[-1]
        runtime.answers.clear()
        async with admitting(node, connect_seconds=30, answer_seconds=0.1) as hurried:
            assert await hurried.start(pod("a")) is None
        assert "DEADLINE_EXCEEDED" in caplog.messages[-1]
        runtime.answers.set()
        runtime.info = None
        assert await side.start(None) is None
        assert "pod default/a is unknown" in caplog.messages[-1]
        runtime.images["image-of-other"] = runtime.images.pop(IMAGE)
        assert await side.start(pod("a")) is None
        assert f"has no image '{IMAGE}'" in caplog.messages[-1]
        runtime.images[IMAGE] = ["PYTHONPATH=/opt/own"]
        assert await side.start(pod("a")) == "/opt/own", "the connection has outlived all of that"

    side.socket.unlink(missing_ok=True)
    assert await side.start(pod("a")) == "/opt/own", "the earlier value stays while the runtime is away"
    async with runtime.serve(side.socket):
        runtime.images[IMAGE] = ["PYTHONPATH=/opt/next"]
        assert await side.start(pod("a")) == "/opt/next", "a restarted runtime is found"


async def test_a_late_answer_is_not_written_for_the_next_container(side: Side, runtime: Runtime) -> None:
    async with runtime.serve(side.socket):
        assert await side.start(pod("a"), generation=17) is None
