"""Conditions of --trigger about the memory of an NPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.nightly import nightly
from tests.support.targets import SOURCES

if TYPE_CHECKING:
    from tests.ascend.conftest import Observe

PROGRAM = str(SOURCES / "triggered.py")
MEMORY = {"VNPU_MEMORY": "1GiB", "VNPU_DEVICES": "1"}
GROWN = 256 << 20


@pytest.mark.parametrize("condition", ["npu:0>400MiB", pytest.param("npu>45%", marks=nightly)])
def test_memory_of_a_device(observe: Observe, condition: str) -> None:
    """256 MiB more are seen where step 20 ends. The next five steps have accesses, and no other."""
    options = ("--device=npu", f"--trigger={condition}", "--trigger-steps=5", "--events=alloc,free")
    rows = observe(options, PROGRAM, "grows", "npu", variables=MEMORY).of(0)
    (snapshot,) = [row["ID"] for row in rows if row["Event"] == "SNAPSHOT"]
    (grown,) = [
        row["ID"]
        for row in rows
        if row["Event"] == "MALLOC" and row["Event Type"] == "PTA" and int(row["attributes"]["size"]) >= GROWN
    ]
    accesses = [row["ID"] for row in rows if row["Event"] == "ACCESS"]
    assert grown < snapshot < min(accesses)
    assert max(accesses) < max(row["ID"] for row in rows if row["Event"] == "MALLOC")
