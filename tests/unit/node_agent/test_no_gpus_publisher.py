"""What a node says while it has no GPUs."""

from __future__ import annotations

from typing import Any

from laneway.node_agent.clock import SystemClock
from laneway.node_agent.report.gpu_node_writer import WriteError
from laneway.node_agent.report.no_gpus_publisher import NoGPUsPublisher


class Server:
    """The GPUNode and the Lease, in memory."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.renewals = 0
        self.refuses = False

    def apply_object(self) -> None:
        if self.refuses:
            raise WriteError("refused")

    def apply_status(self, status: dict[str, Any]) -> None:
        self.reasons.append(status["conditions"][0]["message"])

    def renew(self) -> None:
        self.renewals += 1


def test_a_reason_is_written_once_and_the_lease_is_renewed_each_time() -> None:
    server = Server()
    publisher = NoGPUsPublisher(server, server, SystemClock())
    server.refuses = True
    publisher.publish("no driver")
    assert (server.reasons, server.renewals) == ([], 0)
    server.refuses = False
    for reason in ("no driver", "no driver", "the driver lists no GPU"):
        publisher.publish(reason)
    assert (server.reasons, server.renewals) == (["no driver", "the driver lists no GPU"], 3)
