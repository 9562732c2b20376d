"""The doors of the containers and the processes that come through them: sockets, packets, the shared page, identities.

What a client sends is checked here; what is decided about it is decided in ``laneway.node_agent.turns``.
"""
