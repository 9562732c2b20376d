"""Decide who runs on a GPU and when. This package uses no socket, file or clock of its own.

A :class:`~laneway.node_agent.turns.lease.Lease` is one container's share of one GPU. A
:class:`~laneway.node_agent.turns.session.Session` is one connected process of that container. A
:class:`~laneway.node_agent.turns.turn.Turn` is the permission to run iterations in a lane.
:class:`~laneway.node_agent.turns.gpu_turns.GPUTurns` holds all three for one GPU. Its
:class:`~laneway.node_agent.turns.memory.LaneMemory` assigns lanes with ``laneway.lanes``, and its
:class:`~laneway.node_agent.turns.turn_scheduler.TurnScheduler` decides whose turn it is.
"""
