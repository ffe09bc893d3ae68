"""Live bytes after each event are those of a plain loop."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.formats.dump.carried_values import RunningTotals
from msmemscope.recording import EVENT_SCHEMA
from tests.fakes.event_log_builder import ATEN_START, FREE, HOST, MALLOC, PTA, READ

EVENTS = st.lists(
    st.tuples(
        st.sampled_from([MALLOC, FREE, READ, ATEN_START]),
        st.sampled_from([-2, -1, 0, 1, 127]),
        st.sampled_from([0, HOST, PTA, 255]),
        st.integers(0, 2**50),
        st.integers(0, 3),
    ),
    max_size=80,
)


@given(EVENTS, st.integers(1, 20), st.none() | st.sets(st.integers(0, 3)))
def test_totals_are_those_of_a_plain_loop(
    events: list[tuple[int, int, int, int, int]], batch_rows: int, recorded: set[int] | None
) -> None:
    """Whatever the batches, a MALLOC adds to its pool and a FREE of a known block takes away."""
    live: dict[tuple[int, int], int] = {}
    expected = []
    for kind, device, pool, size, block in events:
        place = (device, pool)
        if kind == MALLOC:
            live[place] = live.get(place, 0) + size
        elif kind == FREE and block != 0 and (recorded is None or block in recorded):
            live[place] = live.get(place, 0) - size
        expected.append(live.get(place, 0) if kind in (MALLOC, FREE) else 0)
    rows = [
        dict.fromkeys(EVENT_SCHEMA, 0) | {"kind": kind, "device": device, "pool": pool, "size": size, "extra": block}
        for kind, device, pool, size, block in events
    ]
    table = pl.DataFrame(rows, schema=EVENT_SCHEMA)
    test = None if recorded is None else lambda blocks: pl.Series(blocks).is_in(sorted(recorded)).to_numpy()
    totals = RunningTotals(test)
    found = [value for batch in table.iter_slices(batch_rows) for value in totals.after_each(batch)]
    assert found == expected
