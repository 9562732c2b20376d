"""Restores the PYTHONPATH of a container's image, which `Allocate`'s own value replaces.

The value is written into the container's folder before it starts, and the client applies it. A failure here
never refuses a container, and delays it at most by the runtime's time limit.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from laneway.api.device_ids import container_key
from laneway.device_plugin.container_folders import ContainerFolders
from laneway.device_plugin.pod_info import PodInfo
from laneway.device_plugin.pod_resources import Holder
from laneway.device_plugin.runtime_images import RuntimeImages, RuntimeQueryError

_log = logging.getLogger(__name__)


class ImagePaths:
    """Records the PYTHONPATH of images."""

    def __init__(self, folders: ContainerFolders, images: RuntimeImages | None) -> None:
        """Without a runtime, nothing is written."""
        self._folders = folders
        self._images = images
        self._problem = ""

    async def record(
        self, ids: Collection[str], holder: Holder, pod: PodInfo | None, generation: int
    ) -> None:
        """Record the PYTHONPATH of the image of a container that is about to start.

        If it cannot be determined, an existing record stays: it is from an earlier start of the same
        container.

        Args:
            ids: the container's ids.
            holder: the holder of the ids, by the kubelet's records.
            pod: what is known of the holder's pod.
            generation: the folder's `generation()` from before the kubelet was asked.
        """
        if self._images is None:
            return
        key = container_key(ids)
        try:
            value = await self._images.pythonpath(image_of(ids, holder, pod))
            if self._folders.generation(key) == generation and self._folders.write_image_path(key, value):
                _log.info("image PYTHONPATH recorded key=%s value=%r", key, value)
        except (RuntimeQueryError, ValueError, OSError) as error:
            # Logged once: the cause is the same for all containers.
            if str(error) != self._problem:
                _log.warning("image PYTHONPATH unknown, containers start without it error=%r", str(error))
            self._problem = str(error)
        else:
            self._problem = ""


def image_of(ids: Collection[str], holder: Holder, pod: PodInfo | None) -> str:
    """Return the image of the container that starts with these ids, as the pod spells it.

    The kubelet does not name the container. If a container holds exactly these ids, it is that one. The
    records never list an init container, only the later container whose ids it uses, so it is found by its
    request.

    Raises:
        ValueError: it cannot be determined; the text says why.
    """
    if pod is None:
        raise ValueError(f"pod {holder.namespace}/{holder.pod} is unknown")
    if holder.ids == frozenset(ids):
        candidates = {holder.container}
    else:
        candidates = {name for name in pod.init_containers if pod.requests.get(name) == len(ids)}
    images = {pod.images[name] for name in candidates if name in pod.images}
    if len(images) != 1:
        raise ValueError(
            f"cannot determine which container of {holder.namespace}/{holder.pod} starts with {len(ids)} percent"
        )
    return images.pop()
