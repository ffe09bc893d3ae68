"""The parts of memory at a failure are one sum that adds up, and it names the limit that was hit."""

from __future__ import annotations

import dataclasses
import re

import pytest

from msmemscope.analysis.peak.figures import MemoryFigures
from msmemscope.analysis.peak.memory_sum import memory_sum, sum_sentence
from msmemscope.model.devices import DEVICE_CPU

MIB = 1 << 20
KIB = 1 << 10
CARD = MemoryFigures(
    0, "halMemAlloc", 18 * MIB, 736 * MIB, capacity_bytes=1024 * MIB, device_used_bytes=1016 * MIB, process_bytes=1000 * MIB,
    reserved_bytes=792 * MIB, outside_bytes=208 * MIB,
)  # fmt: skip


def written(sentence: str) -> tuple[list[float], float]:
    """Read the parts of a sum and its whole back from its words."""
    parts, whole = sentence.partition(" asked for; ")[2].split(" = ")
    numbers = [float(one.split()[0]) for one in parts.split(" + ")]
    assert len({one.split()[1] for one in (*parts.split(" + "), whole)}) == 1, "one unit"
    return numbers, float(whole.split()[0])


def test_a_full_card() -> None:
    """In use, idle in the pool, outside of it, of others, and free."""
    assert sum_sentence(CARD) == (
        "18.0 MiB asked for; 736.0 MiB in use + 56.0 MiB reserved and idle + 208.0 MiB outside of the pools + 16.0 MiB of other "
        "processes + 8.0 MiB free = 1024.0 MiB of npu:0"
    )


def test_the_limit_of_the_process() -> None:
    """Of the host, the limit is the whole, and not the machine."""
    figures = MemoryFigures(
        DEVICE_CPU, "posix_memalign", 24 * MIB, 744 * MIB, capacity_bytes=1525 * MIB, device_used_bytes=1517 * MIB,
        process_bytes=1517 * MIB, limit="RLIMIT_AS", machine_free_bytes=2048 * MIB,
    )  # fmt: skip
    assert sum_sentence(figures) == (
        "24.0 MiB asked for; 744.0 MiB in use + 773.0 MiB of the rest of the process + 8.0 MiB free = 1525.0 MiB of RLIMIT_AS; "
        "2.00 GiB of the machine were free"
    )


def test_a_limit_of_torch() -> None:
    """Much of the device is free: the sum alone would not say why it was refused."""
    figures = dataclasses.replace(CARD, function="torch.npu", request_bytes=302 * MIB, device_used_bytes=600 * MIB)
    assert sum_sentence(dataclasses.replace(figures, in_use_bytes=100 * MIB, reserved_bytes=102 * MIB)).endswith(
        "424.0 MiB free = 1024.0 MiB of npu:0; a limit of torch refused it (set_per_process_memory_fraction), which is less than "
        "404 MiB"
    )


@pytest.mark.parametrize(("free", "end"), [(138 << 30, ", so a limit refused it (of torch, or a quota)"), (MIB, "")])
def test_a_snapshot_without_the_size_of_the_device(free: int, end: str) -> None:
    """The parts of the pool add up. The free bytes say whether a limit refused."""
    figures = MemoryFigures(64, "", 8 * MIB, 1249 * MIB, reserved_bytes=1526 * MIB, reported_free_bytes=free)
    text = sum_sentence(figures)
    assert written(text) == ([1249, 277], 1526)
    assert text.endswith(f"of the device were free{end}")


def test_a_pool_that_is_empty() -> None:
    """It has one part, of no bytes."""
    figures = MemoryFigures(64, "", 8 * MIB, 0, reserved_bytes=0, reported_free_bytes=9 * MIB)
    assert sum_sentence(figures).startswith("8.00 MiB asked for; 0 bytes in use = 0 bytes of the pool; 9.00 MiB")


def test_figures_that_contradict_each_other() -> None:
    """Blocks that nobody has touched take nothing of the machine: then there is no sum, rather than a wrong one."""
    figures = MemoryFigures(
        DEVICE_CPU, "posix_memalign", MIB, 900 * MIB, capacity_bytes=1024 * MIB, device_used_bytes=300 * MIB
    )
    assert memory_sum(figures) is None
    assert sum_sentence(figures) == ""


@pytest.mark.parametrize("scale", [1, 7, KIB, 3 * KIB + 5, MIB + 12345, 97 * MIB + 1])
def test_what_is_written_adds_up(scale: int) -> None:
    """Whatever is rounded."""
    figures = MemoryFigures(
        0, "halMemAlloc", 3 * scale, 333 * scale, capacity_bytes=1000 * scale, device_used_bytes=989 * scale,
        process_bytes=901 * scale, reserved_bytes=371 * scale,
    )  # fmt: skip
    parts, whole = written(sum_sentence(figures))
    assert len(parts) == 5
    assert round(sum(parts), 2) == whole


def test_the_whole_stands_behind_the_parts() -> None:
    """So that a person reads it as a sum."""
    assert re.fullmatch(r".*; .* in use( \+ .*)* \+ .* free = .* of npu:0", sum_sentence(CARD))
