"""The containers' listeners and the processes that connect to them: sockets, packets, the shared page,
identities.

This package checks what a client sends. ``laneway.node_agent.turns`` decides what follows from it.
"""
