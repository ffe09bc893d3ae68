"""Notes about modules that did not fit while they were being moved; logs of others can say anything."""

from __future__ import annotations

import pytest

from msmemscope.model.moved_module import TO_COME_FACT, bytes_to_come


def test_notes_of_a_device() -> None:
    """In their order."""
    facts = {TO_COME_FACT: ("12 0 4096", "90 1 8", "95 0 512")}
    assert list(bytes_to_come(facts, 0)) == [(12, 4096), (95, 512)]
    assert list(bytes_to_come({}, 0)) == []


@pytest.mark.parametrize(
    "text", ["", "12", "12 0", "12 0 x", "12 0 -8", "9" * 5000 + " 0 8", "12 0 " + "9" * 40, "١٢ 0 8"]
)
def test_damaged_notes_are_skipped(text: str) -> None:
    """None of them is a number that an event or a size can have."""
    assert list(bytes_to_come({TO_COME_FACT: (text, "12 0 8")}, 0)) == [(12, 8)]
