"""A real control plane for the tests of this folder."""

from __future__ import annotations

from tests.support.control_planes import control_plane

__all__ = ["control_plane"]
