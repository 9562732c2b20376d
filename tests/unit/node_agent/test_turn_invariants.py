"""Invariants under random sequences: a lane has one turn, memory covers the running turns, and no lease is
lost."""

from __future__ import annotations

from hypothesis import settings

from tests.support.node_agent.turn_machine import Machine
from tests.support.property_examples import examples

TestTurns = Machine.TestCase
TestTurns.settings = settings(max_examples=examples(60), stateful_step_count=60)
