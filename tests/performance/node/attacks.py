"""How long others wait for a turn while hostile processes attack the agent, compared with their usual wait.

    python -m tests.performance.node.attacks -o attacks.json

Two processes with the real client pass the turn of a lane back and forth, as in `hand_off.py`. Beside them,
each in a container of its own, hostile processes compute for some seconds, and attack for as long, several
times: hand-offs with and without an attack are separated by the clock, so that other load on the machine
affects both. The hostile processes are equally busy in both, with the scheduling policy "idle": the figures
show their effect on the agent, not that of any busy process on its neighbours. The first line is the control:
there they compute in both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.performance.node.crowd import Crowd, Trained, admit, node_with
from tests.performance.node.hand_off import ITERATION_SECONDS, hand_offs_of_lane_us
from tests.performance.node.latencies import summary
from tests.performance.result_file import write_measured
from tests.support.node_agent.footprint import Footprint
from tests.support.node_agent.node import Node, PeerProcess

PROGRAMS = Path(__file__).parents[2] / "integration/node_agent"
CONTAINERS = 4
ROUNDS = 3
SECONDS = 3.0

IN_PACKETS = (
    "compute",
    "flood",
    "garbage",
    "stray_releases",
    "requests_in_turn",
    "turns_for_nothing",
    "deaf",
    "scribble",
    "connect_and_close",
    "reconnect_as_holder",
)
ON_THE_SAME_GPU = ("profiles_up_and_down",)


@dataclass(frozen=True, slots=True)
class Found:
    """The effect of one attack."""

    attack: str
    usual: dict[str, float]
    under_attack: dict[str, float]
    attempts: int
    """Packets, connections or requests of all attackers."""

    core_percent: tuple[float, float]
    """The agent's share of a core, usually and under attack."""

    descriptors: int
    """The most descriptors that the agent had open meanwhile."""

    struck_ns: tuple[tuple[int, int, int], ...]
    """When each round began, when its attack began, and when that ended (CLOCK_MONOTONIC)."""

    def shown(self) -> dict[str, Any]:
        """Return it for the result file."""
        ratios = {
            of: round(self.under_attack[f"{of}_us"] / self.usual[f"{of}_us"], 2) for of in ("p50", "p99")
        }
        return {
            "attack": self.attack,
            "attempts": self.attempts,
            "agent_core_percent": [round(percent, 1) for percent in self.core_percent],
            "agent_descriptors": self.descriptors,
            "usual": self.usual,
            "under_attack": self.under_attack,
            "times_usual": ratios,
        }


def measure() -> dict[str, Any]:
    """Return for each attack the hand-offs of others, and how they compare."""
    with node_with(gpus=2, lanes=1, quantumMilliseconds=1) as node:
        crowd = admit(node, 2, 0, "victim")
        crowd.open_sessions()
        found = [_packets(crowd, attack, gpu=1) for attack in IN_PACKETS]
        found += [_packets(crowd, attack, gpu=0) for attack in ON_THE_SAME_GPU]
        found.append(_hoarding(crowd))
    return {
        "attackers": CONTAINERS,
        "seconds_under_attack": ROUNDS * SECONDS,
        "attacks": [each.shown() for each in found],
    }


def _packets(crowd: Crowd, attack: str, gpu: int) -> Found:
    def strike(attackers: Sequence[PeerProcess]) -> int:
        for attacker in attackers:
            attacker.start(attack, seconds=SECONDS)
        return sum(_attempts(attacker.finish()) for attacker in attackers)

    return interleaved(crowd, attack, lambda: in_containers(crowd.node, attack, gpu), strike)


def _hoarding(crowd: Crowd) -> Found:
    def strike(attackers: Sequence[PeerProcess]) -> int:
        until = time.monotonic() + SECONDS
        for attacker in attackers:
            attacker.start("hoard", count=10_000)
        answers = [attacker.finish() for attacker in attackers]
        tried: int = sum(answer["opened"] + answer["refused"] for answer in answers)
        time.sleep(max(0.0, until - time.monotonic()))
        return tried

    return interleaved(crowd, "hoard", lambda: in_containers(crowd.node, "hoard", 1), strike)


def interleaved(
    crowd: Crowd,
    attack: str,
    start: Callable[[], AbstractContextManager[list[PeerProcess]]],
    strike: Callable[[Sequence[PeerProcess]], int],
) -> Found:
    """Train for all rounds, and attack in every second part of the time."""
    attempts = descriptors = 0
    cpu_seconds = [0.0, 0.0]
    struck_ns: list[tuple[int, int, int]] = []
    trained: list[tuple[Trained, ...]] = []
    for _ in range(ROUNDS):
        with start() as attackers:
            crowd.start_training(iteration_seconds=ITERATION_SECONDS, seconds=2 * SECONDS)
            came_ns, at_first = time.monotonic_ns(), crowd.cost()
            for attacker in attackers:
                attacker.start("compute", seconds=SECONDS)
            for attacker in attackers:
                attacker.finish()
            began_ns, halfway = time.monotonic_ns(), crowd.cost()
            attempts += strike(attackers)
            struck_ns.append((came_ns, began_ns, time.monotonic_ns()))
            cpu_seconds[0] += (halfway - at_first).cpu_seconds
            cpu_seconds[1] += (crowd.cost() - halfway).cpu_seconds
            descriptors = max(descriptors, Footprint.of(crowd.node).descriptors)
            trained.append(crowd.await_training())
    usual: list[float] = []
    under: list[float] = []
    for (came_ns, began_ns, ended_ns), processes in zip(struck_ns, trained, strict=True):
        usual += _hand_offs_us(processes, came_ns, began_ns)
        under += _hand_offs_us(processes, began_ns, ended_ns)
    usual_seconds, under_seconds = (
        sum(times[part + 1] - times[part] for times in struck_ns) / 1e9 for part in (0, 1)
    )
    core_percent = 100 * cpu_seconds[0] / usual_seconds, 100 * cpu_seconds[1] / under_seconds
    return Found(
        attack, summary(usual), summary(under), attempts, core_percent, descriptors, tuple(struck_ns)
    )


def _hand_offs_us(processes: Sequence[Trained], from_ns: int, until_ns: int) -> list[float]:
    return hand_offs_of_lane_us(
        [[turn for turn in each.turns if from_ns <= turn.ended_ns < until_ns] for each in processes]
    )


@contextmanager
def in_containers(
    node: Node, attack: str, gpu: int, containers: int = CONTAINERS
) -> Iterator[list[PeerProcess]]:
    """Start hostile processes, each in a container, that run only on otherwise idle CPUs."""
    made = [node.container(f"{attack}-{number}", 1, gpu=gpu) for number in range(containers)]
    attackers = [container.await_socket().process(PROGRAMS / "hostile_process.py") for container in made]
    for attacker in attackers:
        attacker.do("give_way")
    try:
        yield attackers
    finally:
        for attacker, container in zip(attackers, made, strict=True):
            attacker.end()
            container.remove()


def _attempts(answer: dict[str, Any]) -> int:
    return int(answer["done"]) + int(answer["cut_off"])


if __name__ == "__main__":
    write_measured(measure)
