"""A job's sensitivity to CPUs and memory, in one field of a line.

``3000:67108864000:0.5|12000:67108864000:1``: CPU millis and memory bytes per GPU, and the throughput measured with them in any unit.
Points are separated by ``|``; every combination of the CPUs and the sizes that occur needs a point.
"""

from __future__ import annotations

from laneway.scheduling.model.sensitivity import MeasuredSensitivity, Sensitivity


def read_sensitivity(text: str) -> Sensitivity:
    """Return the sensitivity of a field.

    Raises:
        ValueError: the field is not of that form, or a combination is missing.
    """
    throughputs: dict[tuple[int, int], float] = {}
    for point in text.split("|"):
        try:
            cpu_millis, memory_bytes, throughput = point.split(":")
            throughputs[int(cpu_millis), int(memory_bytes)] = float(throughput)
        except ValueError:
            raise ValueError(
                f"sensitivity has {point!r}: write <CPU millis>:<memory bytes>:<throughput>, with | between such points"
            ) from None
    try:
        return MeasuredSensitivity.from_throughputs(throughputs)
    except ValueError as error:
        raise ValueError(f"sensitivity is {text!r}: {error}") from None


def write_sensitivity(sensitivity: Sensitivity) -> str:
    """Return the field, with throughputs relative to the best."""
    return "|".join(
        f"{cpu_millis}:{memory_bytes}:{sensitivity.ratio(cpu_millis, memory_bytes)!r}"
        for cpu_millis in sensitivity.cpu_points_millis
        for memory_bytes in sensitivity.memory_points_bytes
    )
