"""Reads the racks, zones and other domains of a node from its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

DEFAULT_LEVELS = ("topology.kubernetes.io/zone",)
"""Labels of the levels, from the widest to the narrowest. Kubernetes knows regions and zones, and no label for racks."""


class Domain(NamedTuple):
    """A rack, a zone, or another set of nodes that are close to one another."""

    level: str
    """The label that names it."""

    name: str
    """The label's value; empty where the node has no such label. Equal names in different wider domains are different domains."""


def domains_of(labels: Mapping[str, str], levels: Sequence[str]) -> tuple[Domain, ...]:
    """Return the domain of a node at each level; empty where it has none of these labels.

    Args:
        labels: of the node.
        levels: labels, from the widest to the narrowest.
    """
    domains = tuple(Domain(level, labels.get(level, "")) for level in levels)
    return domains if any(domain.name for domain in domains) else ()
