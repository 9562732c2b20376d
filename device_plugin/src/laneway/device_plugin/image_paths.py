"""Gives a container back the PYTHONPATH of its image, which `Allocate`'s own replaces: written into the container's folder
before it starts, for the client to put in its place.

Nothing here refuses a container, and nothing holds it up beyond the runtime's time limit: what cannot be learnt is not there.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from laneway.api.device_ids import container_key
from laneway.device_plugin.container_folders import ContainerFolders
from laneway.device_plugin.kubelet_records import Holder
from laneway.device_plugin.pod_facts import PodFacts
from laneway.device_plugin.runtime_images import RuntimeImages, RuntimeSilentError

_log = logging.getLogger(__name__)


class ImagePaths:
    """Writes down what images say."""

    def __init__(self, folders: ContainerFolders, images: RuntimeImages | None) -> None:
        """Without a runtime to ask, nothing is written."""
        self._folders = folders
        self._images = images
        self._problem = ""

    async def write_down(self, ids: Collection[str], holder: Holder, pod: PodFacts | None, life: int) -> None:
        """Write down the PYTHONPATH of the image of a container that is just about to start.

        Where it cannot be learnt, what is there stays: it is of an earlier start of the same container.

        Args:
            ids: the container's.
            holder: who holds them, by the kubelet's records.
            pod: what is known of the holder's pod.
            life: the folder's `life()` from before the kubelet was asked.
        """
        if self._images is None:
            return
        key = container_key(ids)
        try:
            value = await self._images.pythonpath(image_of(ids, holder, pod))
            if self._folders.life(key) == life and self._folders.write_image_path(key, value):
                _log.info("container %s: its image's PYTHONPATH is %r", key, value)
        except (RuntimeSilentError, ValueError, OSError) as error:
            # Once, not with each container: it is the same for all of them.
            if str(error) != self._problem:
                _log.warning("containers start without their images' own PYTHONPATH: %s", error)
            self._problem = str(error)
        else:
            self._problem = ""


def image_of(ids: Collection[str], holder: Holder, pod: PodFacts | None) -> str:
    """Return the image of the container that starts with these ids, as the pod spells it.

    The kubelet does not say which container that is. Who holds just these ids by its records is it; an init container is never in the
    records, only the one after it that it lends them from, so it is known by how many it asked for.

    Raises:
        ValueError: it cannot be told; says why.
    """
    if pod is None:
        raise ValueError(f"pod {holder.namespace}/{holder.pod} is not known")
    if holder.ids == frozenset(ids):
        candidates = {holder.container}
    else:
        candidates = {name for name in pod.init_containers if pod.requests.get(name) == len(ids)}
    images = {pod.images[name] for name in candidates if name in pod.images}
    if len(images) != 1:
        raise ValueError(
            f"which container of {holder.namespace}/{holder.pod} starts with {len(ids)} percent cannot be told"
        )
    return images.pop()
