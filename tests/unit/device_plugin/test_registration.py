"""When the kubelet knows the plugin's devices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from laneway.device_plugin.folders import Folders
from laneway.device_plugin.plugin_service import PluginService
from laneway.device_plugin.registration import Registration


def test_a_kubelet_follows_the_devices_once_it_has_opened_their_stream() -> None:
    """It answers the registration first, and refuses containers until then."""
    service = SimpleNamespace(open_streams=0)
    registration = Registration(Folders(), cast("PluginService", service))
    registration.registered = True
    assert not registration.followed
    service.open_streams = 1
    assert registration.followed
    registration.registered = False
    assert not registration.followed
