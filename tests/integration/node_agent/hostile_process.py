"""A process in a container that attacks the agent, driven line by line: JSON commands on standard input, answers on standard output.

Each attack is a method. It continues for some seconds, as fast as it can, and reconnects whenever it is disconnected. The
program uses nothing of Laneway; its attacks are in the folder `hostile` beside it. To run it by hand, set `PYTHONPATH` to the
repository's root.
"""

from __future__ import annotations

from hostile.every_attack import Hostile

from tests.support.node_agent.command_loop import answer_commands

if __name__ == "__main__":
    answer_commands(Hostile())
