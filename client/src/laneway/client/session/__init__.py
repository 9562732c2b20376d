"""The session with the node agent: connection, handshake, messages, shared page and turns."""
