"""What a job trains with: a function, a script, or what an image holds. The fields have the names of Kubeflow's trainers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEFAULT_IMAGE = "pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime"
"""Kubeflow's, too."""

Resources = Mapping[str, str | int | float]


@dataclass(frozen=True, kw_only=True)
class _Trainer:
    image: str = DEFAULT_IMAGE
    """Image of the workers; for a function or script it needs Python."""

    num_nodes: int = 1
    """Number of workers. They form a gang: all of them run, or none."""

    resources_per_node: Resources = field(default_factory=lambda: {"gpu": 1})
    """What each worker gets, one whole GPU by default. ``gpu``: ``0.5`` is half of a GPU, ``2`` are two whole ones, ``"8Gi"`` is that
    much memory of one. ``cpu`` and ``memory`` are quantities of Kubernetes, such as ``4`` and ``"16Gi"``."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the workers."""


@dataclass(frozen=True, kw_only=True)
class _PythonTrainer(_Trainer):
    packages_to_install: Sequence[str] = ()
    """What pip installs before, as on its command line."""

    pip_index_urls: Sequence[str] = ()
    """Package indexes for that, the first one instead of pip's own."""


@dataclass(frozen=True, kw_only=True)
class CustomTrainer(_PythonTrainer):
    """A function. Its source is sent, so it imports what it uses in its own body, and uses no name from outside of it.

    Such a name is refused before a job is created. A module of this machine that the function imports is not sent, and has to
    be in the image: a warning names it. Functions and scripts have at most 200 KiB; larger programs belong into the image.
    """

    func: Callable[..., Any]
    """The function."""

    func_args: Mapping[str, Any] | None = None
    """Its keyword arguments; each must have a literal as its ``repr``."""


@dataclass(frozen=True, kw_only=True)
class CustomTrainerScript(_PythonTrainer):
    """A script on this machine. It is sent with the modules of its folder that it imports; a warning names packages, which are not sent."""

    script: str | Path
    """Its file."""

    args: Sequence[str] = ()
    """Its arguments."""

    launcher: Sequence[str] = ()
    """What starts it, such as ``torchrun`` with options; empty: Python, or torchrun where a worker has several GPUs."""


@dataclass(frozen=True, kw_only=True)
class CustomTrainerContainer(_Trainer):
    """What the image holds."""

    command: Sequence[str] = ()
    """Replaces the image's entrypoint; empty: the image's own."""

    args: Sequence[str] = ()
    """Arguments of the command; empty: the image's own."""


Trainer = CustomTrainer | CustomTrainerScript | CustomTrainerContainer
