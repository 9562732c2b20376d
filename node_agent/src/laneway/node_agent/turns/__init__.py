"""Who runs on a GPU, and when: the part of the agent that decides, without a socket, a file or a clock of its own.

A container's claim on a GPU is a :class:`~laneway.node_agent.turns.hold.Hold`, a process of it that is connected a
:class:`~laneway.node_agent.turns.session.Session`, and the permission to run iterations in a lane a
:class:`~laneway.node_agent.turns.turn.Turn`. :class:`~laneway.node_agent.turns.gpu_turns.GPUTurns` has them all for one
GPU: its :class:`~laneway.node_agent.turns.memory.LaneMemory` asks ``laneway.lanes`` for lanes, and its
:class:`~laneway.node_agent.turns.giver.TurnGiver` for whose turn it is.
"""
