"""Messages to the script and the agent when an allocation would exceed the quota."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from laneway.client.session.session import Session

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


def report_overrun(session: Session, held_bytes: int, wanted_bytes: int, what: str) -> str:
    """Reports the refusal to the agent; returns the message of the OutOfMemoryError.

    Args:
        held_bytes: held before the allocation.
        wanted_bytes: its size.
        what: the operation that allocates.
    """
    quota_bytes = session.settings.tensor_bytes
    message = overrun_message(session.settings.gpu, quota_bytes, held_bytes, wanted_bytes, what)
    session.send_message(
        "overrun", used_bytes=held_bytes + wanted_bytes, quota_bytes=quota_bytes, message=message
    )
    return message


def report_device_full(
    session: Session, capacity_bytes: int, held_bytes: int, wanted_bytes: int, what: str
) -> str:
    """Reports to the agent that others have filled the device; returns the message of the OutOfMemoryError.

    Args:
        capacity_bytes: what this process could hold.
        held_bytes: held before the allocation.
        wanted_bytes: its size.
        what: the operation that allocates.
    """
    settings = session.settings
    message = device_full_message(settings.gpu, capacity_bytes, held_bytes, wanted_bytes, what)
    session.send_message(
        "overrun",
        used_bytes=held_bytes + wanted_bytes,
        quota_bytes=settings.tensor_bytes,
        message=message,
        device_full=True,
    )
    return message


def device_full_message(gpu: str, capacity_bytes: int, held_bytes: int, wanted_bytes: int, what: str) -> str:
    """Returns the message for a device that others have filled, without anyone exceeding a quota."""
    return (
        f"Laneway: out of GPU memory: {gpu} is full. {what} asked for {in_units(wanted_bytes)}; this process holds "
        f"{in_units(held_bytes)}, and {in_units(max(0, capacity_bytes - held_bytes))} are free. Other processes hold the rest."
    )


def overrun_message(gpu: str, quota_bytes: int, held_bytes: int, wanted_bytes: int, what: str) -> str:
    """Returns the message for an exceeded quota: the limit, the use, the request, and what would have fitted."""
    needed_bytes = held_bytes + wanted_bytes
    return (
        f"Laneway: out of GPU memory: this process may hold {in_units(quota_bytes)} of {gpu}, the quota of its share. "
        f"It holds {in_units(held_bytes)}, and {what} asked for {in_units(wanted_bytes)} more; "
        f"at most {in_units(max(0, quota_bytes - held_bytes))} would have fitted. "
        f"Ask for a larger share (spec.gpus; {in_units(needed_bytes)} are needed at this point), or use a smaller batch."
    )


def out_of_memory_error(torch: Any) -> Any:
    """Returns PyTorch's class of the error, whose name depends on the version."""
    return getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError


def in_units(size_bytes: int) -> str:
    """Returns a human-readable size; exact below 1 KiB."""
    size = float(size_bytes)
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size_bytes} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
