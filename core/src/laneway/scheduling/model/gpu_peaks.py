"""Peak figures of GPU models, from the data sheets of their vendors.

They are the two roofs of the roofline model (Williams et al., CACM 52, 2009): arithmetic and memory traffic.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Peaks(NamedTuple):
    """What one GPU can do at most."""

    single_teraflops: float
    """Single precision, without tensor cores: what PyTorch computes in unless a script says otherwise."""

    memory_gigabytes_per_second: float


_PEAKS = {
    "K80": Peaks(4.37, 240),  # one of the two GPUs of a board
    "M40": Peaks(7.0, 288),
    "P4": Peaks(5.5, 192),
    "P40": Peaks(12.0, 346),
    "P100": Peaks(9.3, 732),
    "P100 SXM2": Peaks(10.6, 732),
    "V100": Peaks(14.0, 900),
    "V100 SXM2": Peaks(15.7, 900),
    "V100 SXM3": Peaks(15.7, 900),
    "V100S": Peaks(16.4, 1134),
    "T4": Peaks(8.1, 320),
    "A2": Peaks(4.5, 200),
    "A10": Peaks(31.2, 600),
    "A10G": Peaks(31.2, 600),
    "A30": Peaks(10.3, 933),
    "A40": Peaks(37.4, 696),
    "A100": Peaks(19.5, 1555),
    "A100 80GB": Peaks(19.5, 2039),
    "A100 80GB PCIe": Peaks(19.5, 1935),
    "A800": Peaks(19.5, 2039),
    "L4": Peaks(30.3, 300),
    "L40": Peaks(90.5, 864),
    "L40S": Peaks(91.6, 864),
    "H100": Peaks(67, 3350),
    "H100 PCIe": Peaks(51, 2000),
    "H100 NVL": Peaks(60, 3900),
    "H800": Peaks(67, 3350),
    "H20": Peaks(44, 4000),
    "GH200": Peaks(67, 4000),
    "H200": Peaks(67, 4800),
    "H200 NVL": Peaks(60, 4800),
    "B200": Peaks(75, 8000),
    "RTX 2080 Ti": Peaks(13.4, 616),
    "RTX 3090": Peaks(35.6, 936),
    "RTX 4090": Peaks(82.6, 1008),
    "RTX A4000": Peaks(19.2, 448),
    "RTX A5000": Peaks(27.8, 768),
    "RTX A6000": Peaks(38.7, 768),
    "RTX 6000 Ada": Peaks(91.1, 960),
}
"""NVIDIA's data sheets. An entry holds for every name that has its words; the entry with the most words counts."""


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", name.casefold()))


_BY_WORDS = sorted(((_words(name), peaks) for name, peaks in _PEAKS.items()), key=lambda each: -len(each[0]))
_A_PART = "mig"
"""The word of a name that stands for a part of a GPU."""


def peaks_of(model: str) -> Peaks | None:
    """Return the peak figures of a GPU model by the name that its driver reports; None: they are not known."""
    words = _words(model)
    if _A_PART in words:
        return None
    return next((peaks for known, peaks in _BY_WORDS if known <= words), None)
