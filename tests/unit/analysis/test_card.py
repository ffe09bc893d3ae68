"""The parts of a device's memory add up, other memory is listed beside them, and growth is named."""

from __future__ import annotations

import io

import polars as pl

import msmemscope
from msmemscope.analysis.card.card import CardResult, Part, account_for_card
from msmemscope.questions import QUESTIONS
from tests.fakes.event_log_builder import CPU, DEVICE_USAGE, HAL, PTA, RESERVED, STEP, EventLogBuilder

MIB = 1 << 20
NPU = {"pool": PTA, "device": 0}
DRIVER = {"pool": HAL, "device": 0}


def asked(builder: EventLogBuilder) -> tuple[CardResult, str]:
    """The parts of the memory of the built log's device, and the report."""
    recording = msmemscope.load(builder.write())
    result = account_for_card(recording)
    text = io.StringIO()
    QUESTIONS["card"].report(result, recording, text)
    return result, text.getvalue()


def sizes(result: CardResult, column: str = "peak_bytes") -> dict[tuple[str, str], int]:
    """Bytes of each part and name of device 0."""
    rows = result.parts.filter(pl.col("device") == 0).select("part", "name", column)
    return {(part, name): size for part, name, size in rows.iter_rows()}


def test_the_parts_add_up(builder: EventLogBuilder) -> None:
    """Pools by what is in use of them, modules, the unknown; beside them what was not recorded, others and the host."""
    builder.malloc(0x100000, 20 * MIB, attribute_id=builder.string("CANN@APP"), **DRIVER)
    builder.malloc(0x9000000, 7 * MIB, attribute_id=builder.string("CANN@HCCL"), **DRIVER)
    builder.malloc(0x7000000, 3 * MIB, pool=HAL, device=CPU)
    builder.malloc(0x100000, 5 * MIB, **NPU)
    builder.add(RESERVED, size=18 * MIB, **NPU)
    builder.add(DEVICE_USAGE, device=0, size=50 * MIB, extra=30 * MIB)
    result, text = asked(builder)
    assert sizes(result) == {
        (Part.POOL.value, "PTA"): 5 * MIB,
        (Part.RESERVE.value, "PTA"): 13 * MIB,
        (Part.MODULE.value, "HCCL"): 7 * MIB,
        (Part.UNKNOWN.value, ""): 2 * MIB,
        (Part.UNRECORDED.value, ""): 3 * MIB,
        (Part.OTHERS.value, ""): 20 * MIB,
        (Part.HOST.value, ""): 3 * MIB,
    }
    assert result.total_bytes(0) == 27 * MIB
    assert result.unknown_bytes(0) == 2 * MIB
    assert "npu:0: 27.0 MiB at the peak, 13.0 MiB of it held by the pool PTA without use" in " ".join(text.split())
    assert "unknown 2.00 MiB (7.4 %)" in " ".join(text.split())
    assert result.sites.select("module", "size_bytes", "block_count").rows() == [("HCCL", 7 * MIB, 1)]


def test_what_grows_is_named(builder: EventLogBuilder) -> None:
    """From the end of the first step behind the warm-up to the end of the last: a module, and a pool as a whole."""
    hccl = builder.string("CANN@HCCL")
    builder.malloc(0x100000, 20 * MIB, attribute_id=builder.string("CANN@APP"), **DRIVER)
    builder.add(RESERVED, size=20 * MIB, **NPU)
    for step in range(1, 6):
        builder.malloc(0x9000000 + step * MIB, MIB, attribute_id=hccl, **DRIVER)
        block = builder.malloc(0x100000, step * MIB, **NPU)
        builder.add(STEP, size=step)
        builder.free(block, 0x100000, step * MIB, **NPU)
    result, text = asked(builder)
    grown = result.growing(0).select("part", "name", "first_step", "first_bytes", "last_step", "last_bytes").rows()
    assert grown == [(Part.MODULE.value, "HCCL", 2, 2 * MIB, 5, 5 * MIB)]
    sentence = (
        "HCCL, a module of CANN grew from 2.00 MiB to 5.00 MiB between the ends of steps 2 and 5: 1.00 MiB per step"
    )
    assert sentence in " ".join(text.split())


def test_a_pool_alone(builder: EventLogBuilder) -> None:
    """Without the driver it is said that what the pool holds cannot be compared with anything."""
    builder.malloc(0x100000, 5 * MIB, **NPU)
    result, text = asked(builder)
    assert sizes(result) == {(Part.POOL.value, "PTA"): 5 * MIB}
    assert "its memory was not observed" in " ".join(text.split())


def test_no_device(builder: EventLogBuilder) -> None:
    """Tensors of the host are no memory of a device."""
    builder.malloc(0x100000, 5 * MIB)
    result, text = asked(builder)
    assert result.parts.is_empty()
    assert text.startswith("No memory of a device was in use")
