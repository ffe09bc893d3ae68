"""The page of a long run is small, and its peak exact; so is that of very many processes."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest

from msmemscope.formats.attributes import table_of_texts
from msmemscope.launch.html_report import report_parts, report_text
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording import EVENT_SCHEMA, RECORDING_BLOCK_SCHEMA, STRING_SCHEMA, Recording, build_blocks
from tests.support.nightly import NIGHT, nightly

pytestmark = pytest.mark.slow

MOST_BYTES = 15_000_000
STACKS = 3000
OWNERS = 23
PROCESSES = 34 if NIGHT else 18


def long_run(event_count: int, pools: int = 1) -> Recording:
    """A process whose blocks come and go at random, of many stacks, operators and owners."""
    random = np.random.default_rng(7)
    blocks = event_count // 2
    begins = np.arange(blocks) * 2.0
    ends = begins + 1 + 2 * random.geometric(1 / 2000, blocks)
    order = np.argsort(np.concatenate([begins, ends]), kind="stable")
    block, is_malloc = order % blocks, order < blocks
    sequence = np.arange(1, 2 * blocks + 1)
    malloc_of = np.zeros(blocks, dtype=np.int64)
    malloc_of[block[is_malloc]] = sequence[is_malloc]
    place = random.integers(0, pools, blocks)
    columns = {name: np.zeros(2 * blocks, dtype=np.int64) for name in EVENT_SCHEMA.names()}
    columns |= {
        "sequence": sequence,
        "timestamp_ns": 1_700_000_000_000_000_000 + sequence * 1000,
        "kind": np.where(is_malloc, int(EventKind.MALLOC), int(EventKind.FREE)),
        "pool": np.full(2 * blocks, int(Pool.PTA)),
        "device": place[block],
        "address": (block + 1) << 24,
        "size": (random.integers(1, 1 << 14, blocks) * 512)[block],
        "name_id": np.where(is_malloc, block % 200 + 1, 0),
        "python_stack_id": np.where(is_malloc, random.integers(1, STACKS + 1, blocks)[block], 0),
        "extra": np.where(is_malloc, 0, malloc_of[block]),
    }
    events = pl.DataFrame(columns).cast(EVENT_SCHEMA)
    names = {"id": range(1, 201), "text": [f"aten.operator_{number}" for number in range(200)]}
    strings = pl.DataFrame(names, schema=STRING_SCHEMA)
    texts = [
        "".join(f"/home/me/model/layer_{depth}.py({number % 7 * depth + number}): forward\n" for depth in range(12))
        for number in range(STACKS)
    ]
    made = build_blocks(events, strings).with_columns(
        owner=pl.concat_str(pl.lit("PTA@model@part"), (pl.col("malloc_sequence") % OWNERS).cast(pl.String))
    )
    return Recording(
        source="long",
        form="event log",
        process_id=1,
        events=events,
        blocks=made.select(RECORDING_BLOCK_SCHEMA.names()),
        strings=strings,
        python_stacks=pl.DataFrame({"id": range(1, STACKS + 1), "text": texts}, schema=STRING_SCHEMA),
        native_stacks=STRING_SCHEMA.to_frame(),
        coverage=(),
        problems=(),
        attributes=table_of_texts(strings),
    )


def test_a_million_events_make_a_small_page_with_the_exact_peak() -> None:
    """As the sum of all changes has it."""
    recording = long_run(1_000_000)
    changes = recording.events["size"].to_numpy() * np.where(
        recording.events["kind"].to_numpy() == EventKind.MALLOC, 1, -1
    )
    (part,) = report_parts([recording])
    chart = part.memory[0]["chart"]
    assert max(chart["most"]) == chart["peak"]["bytes"] == int(np.cumsum(changes).max())
    assert len(chart["most"]) == 2000
    assert len(report_text([part], source="long")) < MOST_BYTES


@pytest.mark.parametrize("count", [1, pytest.param(34, marks=nightly)])
def test_very_many_processes_with_very_many_pools_make_a_page_of_bounded_size(count: int) -> None:
    """Columns and rows are shared out among them, also where it is not known beforehand how many there are."""
    recording = long_run(4_000 if NIGHT else 1_000, pools=4)
    # More than would fit into the page if each had the room of one.
    many = (dataclasses.replace(recording, process_id=number) for number in range(PROCESSES))
    parts = report_parts(many, process_count=count)
    assert len(report_text(parts, source="long")) < MOST_BYTES
