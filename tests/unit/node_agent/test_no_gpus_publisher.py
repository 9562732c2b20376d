"""What a node says while it has no GPUs."""

from __future__ import annotations

from typing import Any

from laneway.node_agent.report.gpu_node_writer import WriteError
from laneway.node_agent.report.no_gpus_publisher import REPAIR_SECONDS, NoGPUsPublisher

from tests.unit.node_agent.manual_clock import ManualClock


class Server:
    """The GPUNode and the Lease, in memory."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.written: list[dict[str, Any]] = []
        self.renewals = 0
        self.refuses = False

    def apply_object(self) -> None:
        if self.refuses:
            raise WriteError("refused")

    def apply_status(self, status: dict[str, Any]) -> None:
        self.reasons.append(status["conditions"][0]["message"])
        self.written.append(status)

    def renew(self) -> None:
        self.renewals += 1


def test_a_reason_is_written_once_and_the_lease_is_renewed_each_time() -> None:
    server = Server()
    publisher = NoGPUsPublisher(server, server, ManualClock())
    server.refuses = True
    publisher.publish("no driver")
    assert (server.reasons, server.renewals) == ([], 0)
    server.refuses = False
    for reason in ("no driver", "no driver", "the driver lists no GPU"):
        publisher.publish(reason)
    assert (server.reasons, server.renewals) == (["no driver", "the driver lists no GPU"], 3)


def test_it_is_written_again_now_and_then_because_somebody_may_have_changed_or_deleted_it() -> None:
    """The same status as before, so that the API server has nothing to do where it is unchanged."""
    server, clock = Server(), ManualClock()
    publisher = NoGPUsPublisher(server, server, clock)
    publisher.publish("no driver")
    clock.now_seconds += REPAIR_SECONDS - 1
    publisher.publish("no driver")
    assert len(server.written) == 1
    clock.now_seconds += 1
    server.refuses = True
    publisher.publish("no driver")
    server.refuses = False
    publisher.publish("no driver")
    first, again = server.written
    assert again == first
