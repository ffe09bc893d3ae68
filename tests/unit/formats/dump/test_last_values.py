"""Values that hold until they change are those of a plain loop."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.formats.dump.carried_values import LastValues
from msmemscope.recording import EVENT_SCHEMA
from tests.fakes.event_log_builder import ATEN_START, DEVICE_USAGE, FREE, HAL, MALLOC, PTA, RESERVED

EVENTS = st.lists(
    st.tuples(
        st.sampled_from([MALLOC, FREE, ATEN_START, RESERVED, RESERVED, DEVICE_USAGE]),
        st.sampled_from([-2, -1, 0, 1, 127]),
        st.sampled_from([0, HAL, PTA]),
        st.integers(-1, 2**50),
        st.integers(0, 2**50) | st.just(2**64 - 1),
    ),
    max_size=80,
)


@given(EVENTS, st.integers(1, 20))
def test_values_are_those_of_a_plain_loop(events: list[tuple[int, int, int, int, int]], batch_rows: int) -> None:
    """Whatever the batches, the last value of the pool on the device, and of the device, counts."""
    reserved: dict[tuple[int, int], int] = {}
    usage: dict[int, tuple[int, int]] = {}
    expected = []
    for kind, device, pool, size, extra in events:
        if kind == RESERVED:
            reserved[device, pool] = size
        if kind == DEVICE_USAGE:
            usage[device] = (-1 if extra == 2**64 - 1 else extra, size)
        values = (reserved.get((device, pool), -1), *usage.get(device, (-1, -1)))
        is_memory = kind in (MALLOC, FREE)
        expected.append(tuple(value if value >= 0 and is_memory else None for value in values))
    rows = [
        dict.fromkeys(EVENT_SCHEMA, 0) | {"kind": kind, "device": device, "pool": pool, "size": size, "extra": extra}
        for kind, device, pool, size, extra in events
    ]
    table = pl.DataFrame(rows, schema=EVENT_SCHEMA)
    last_values = LastValues()
    parts = [pl.DataFrame(last_values.at_each(batch)) for batch in table.iter_slices(batch_rows)]
    found = pl.concat(parts).rows() if parts and len(table) else []
    assert found == expected
    if len(table):
        assert parts[0].columns == ["reserved_bytes", "process_used_bytes", "device_used_bytes"]
