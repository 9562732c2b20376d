"""What a pod requests of its node beside GPUs, and what a node has for such requests.

Amounts are integers, as kube-scheduler counts them: CPUs in thousandths, memory in bytes, everything else in whole units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from laneway.api.quantity import format_bytes

CPU = "cpu"
MEMORY = "memory"
_BYTES = (MEMORY, "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class HostResources:
    """Amounts by name of the resource; a resource that is not named counts as 0."""

    amounts: tuple[tuple[str, int], ...] = ()
    """Rising by name, none of them 0."""

    _hash: int = field(init=False, repr=False, compare=False)
    """Computed once, because demands with the same requests are looked up often."""

    def __post_init__(self) -> None:
        if list(self.amounts) != sorted(dict(self.amounts).items()) or not all(n for _, n in self.amounts):
            raise ValueError(
                f"amounts is {self.amounts}: name each resource once, in order, with no amount of 0"
            )
        object.__setattr__(self, "_hash", hash(self.amounts))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(cls, amounts: Mapping[str, int]) -> HostResources:
        """Return these amounts."""
        return cls(tuple(sorted((name, amount) for name, amount in amounts.items() if amount)))

    def __bool__(self) -> bool:
        return bool(self.amounts)

    def of_resource(self, name: str) -> int:
        """Return the amount of one resource."""
        return next((amount for each, amount in self.amounts if each == name), 0)


NOTHING = HostResources()


def add(total: dict[str, int], more: HostResources, times: int = 1) -> None:
    """Add a multiple of some amounts to a total."""
    for name, amount in more.amounts:
        total[name] = total.get(name, 0) + times * amount


def workers_within(requests: HostResources, left: Mapping[str, int]) -> int:
    """Return how many workers with these requests, which name at least one resource, fit into what is left."""
    return max(0, min(left.get(name, 0) // amount for name, amount in requests.amounts))


def scarcest(requests: HostResources, left: Mapping[str, int]) -> str:
    """Return the resource that the fewest workers find enough of."""
    return min(requests.amounts, key=lambda each: left.get(each[0], 0) // each[1])[0]


def format_amount(name: str, amount: int) -> str:
    """Return an amount for people: ``1.5 CPUs``, ``4.0 GiB of memory``, ``2 of example.com/nic``."""
    if name == CPU:
        return f"{amount / 1000:g} {'CPU' if amount == 1000 else 'CPUs'}"
    if name in _BYTES:
        return f"{format_bytes(max(0, amount))} of {name}"
    if name == "pods":
        return f"{amount} {'pod' if amount == 1 else 'pods'}"
    return f"{amount} of {name}"


def format_requests(requests: HostResources) -> str:
    """Return requests for people, without the pod itself."""
    named: Iterable[str] = (format_amount(*each) for each in requests.amounts if each[0] != "pods")
    return " and ".join(named) or "a pod"


def quantity_of(name: str, amount: int) -> str:
    """Return an amount as one writes it in a spec, rounded down: ``1500m`` CPUs, ``512Mi`` of memory."""
    if name == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name in _BYTES and amount >= 2**20:
        return f"{amount // 2**20}Mi"
    return str(amount)


def less_requested(requests: HostResources, offered: Mapping[str, int]) -> str:
    """Return what to write in a job's template so that a worker fits into what a node offers; empty where only pods are short."""
    short = [name for name, amount in requests.amounts if offered.get(name, 0) < amount and name != "pods"]
    fields = {
        name: f"resources.requests[{name}]" if "/" in name else f"resources.requests.{name}" for name in short
    }
    lower = [
        f"{fields[name]} to at most {quantity_of(name, offered[name])}"
        for name in short
        if offered.get(name, 0) > 0
    ]
    leave_out = [fields[name] for name in short if offered.get(name, 0) <= 0]
    parts = [
        f"{verb} {' and '.join(named)}"
        for verb, named in (("lower", lower), ("leave out", leave_out))
        if named
    ]
    return (
        f"In spec.template.spec.containers, {' and '.join(parts)}, all containers together" if parts else ""
    )
