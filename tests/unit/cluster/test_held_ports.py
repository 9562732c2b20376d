"""Ports for programs that listen later, and again after they were killed."""

from __future__ import annotations

import errno
import socket

import pytest

from hack.cluster.held_ports import held_ports

HERE = "127.0.0.1"


def test_held_ports_are_different() -> None:
    with held_ports(HERE, 4) as ports:
        assert len(set(ports)) == 4


def test_a_held_port_is_for_the_program_that_listens_and_for_nobody_else() -> None:
    with held_ports(HERE, 1) as (port,):
        for _ in range(2):  # the program may be killed and started again
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((HERE, port))
            with socket.socket() as other, pytest.raises(OSError, match="in use") as refused:
                other.bind((HERE, port))
            assert refused.value.errno == errno.EADDRINUSE
            with socket.create_server((HERE, port)), socket.create_connection((HERE, port)):
                pass
