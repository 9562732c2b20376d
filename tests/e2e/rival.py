"""What a worker of a rival gang runs (`python3 -c`): it ends when it has met the other worker, and waits
forever if it is alone."""

import os
import socket
import time

PORT = int(os.environ["MASTER_PORT"])

if os.environ["RANK"] == "0":
    with socket.create_server(("", PORT)) as server:
        server.accept()[0].close()
else:
    while True:
        try:
            socket.create_connection((os.environ["MASTER_ADDR"], PORT), 5).close()
            break
        except OSError:  # the name is not known yet, or the other one does not listen yet
            time.sleep(0.2)
