"""The parts of memory add up: trees at peaks, at steps and over time, and the ledger."""

from __future__ import annotations

import dataclasses

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.analysis.owners.decomposition import (
    NO_DRIVER,
    NO_OWNERS,
    Decomposition,
    DecompositionOptions,
    decompose,
    decompose_capture,
)
from msmemscope.analysis.owners.driver_ledger import PART_SCHEMA
from msmemscope.analysis.owners.ownership import NO_ACCESSES
from msmemscope.analysis.owners.tree import DEEPEST_NODE, NODE_SCHEMA, node_totals
from msmemscope.formats.event_log import Capture
from msmemscope.model.events import EventKind
from msmemscope.recording import (
    EVENT_SCHEMA,
    RECORDING_BLOCK_SCHEMA,
    STRING_SCHEMA,
    Recording,
    build_blocks,
    recording_without_stacks,
)
from tests.fakes.event_log_builder import (
    ATB,
    CPU,
    DEVICE_USAGE,
    HAL,
    HOST,
    PTA,
    RESERVED,
    STEP,
    EventLogBuilder,
)
from tests.fakes.traces import Trace
from tests.support.nightly import examples

MIB = 1 << 20
NPU = {"pool": PTA, "device": 0}
DRIVER = {"pool": HAL, "device": 0}


def decomposed(builder: EventLogBuilder) -> Decomposition:
    """The decomposition of the built log."""
    return decompose_capture(Capture(builder.write()))


def dataset_of(builder: EventLogBuilder, form: str = "event log", owners: list[str | None] | None = None) -> Recording:
    """The built log as a reader would give it."""
    tables = recording_without_stacks(Capture(builder.write()))
    named = pl.Series(owners or [None] * tables.blocks.height, dtype=pl.String)
    blocks = tables.blocks.with_columns(owner=named).select(RECORDING_BLOCK_SCHEMA.names())
    nothing = STRING_SCHEMA.to_frame()
    return Recording(
        "built",
        form,
        4242,
        tables.events,
        blocks,
        tables.strings,
        nothing,
        nothing,
        (),
        (),
        attributes=tables.attributes,
    )


def sizes(nodes: pl.DataFrame) -> dict[str, int]:
    """Node to bytes."""
    return dict(nodes.select("node", "size_bytes").rows())


def add_training_step(builder: EventLogBuilder) -> int:
    """A weight that stays, an activation and a temporary; returns the end of the step."""
    operator = builder.string("aten.mm")
    weight = builder.malloc(0x1000, 400, **NPU)
    builder.owner(weight, "3model@weight", **NPU)
    activation = builder.malloc(0x2000, 200, name_id=operator, **NPU)
    mine = builder.malloc(0x3000, 100, name_id=operator, extra=builder.labels("5mine"), **NPU)
    builder.access(activation, 0x2000, flags=8, **NPU)
    builder.free(mine, 0x3000, 100, **NPU)
    builder.free(activation, 0x2000, 200, **NPU)
    builder.malloc(0x4000, 50, **NPU)
    return builder.add(STEP, device=0, size=1)


def test_tree_at_the_peak(builder: EventLogBuilder) -> None:
    """Every beginning of an owner is a node; it holds what its parts hold and what goes no further."""
    add_training_step(builder)
    (pool,) = decomposed(builder).pools
    assert (pool.device, pool.pool, pool.peak_bytes, pool.sequence) == (0, PTA, 700, 4)
    assert dict(pool.nodes.schema) == dict(NODE_SCHEMA)
    assert pool.nodes.rows() == [
        ("PTA", 0, 700, 0, 3),
        ("PTA@model", 1, 600, 0, 2),
        ("PTA@model@activation", 2, 200, 200, 1),
        ("PTA@model@weight", 2, 400, 400, 1),
        ("PTA@ops", 1, 100, 0, 1),
        ("PTA@ops@aten", 2, 100, 0, 1),
        ("PTA@ops@aten@mine", 3, 100, 100, 1),
    ]


def test_tree_at_steps(builder: EventLogBuilder) -> None:
    """The tree at a step has the blocks that are alive right after it, with the step's number and time."""
    end = add_training_step(builder)
    builder.malloc(0x5000, 8, **NPU)
    second = builder.add(STEP, device=0, size=2)
    at_steps = decomposed(builder).at_steps
    first = at_steps.filter(pl.col("step") == 1)
    assert sizes(first) == {"PTA": 450, "PTA@model": 400, "PTA@model@weight": 400, "PTA@program": 50}
    assert first["sequence"].unique().to_list() == [end]
    assert first["timestamp_ns"].unique().to_list() == [1_700_000_000_000_000_000 + 1000 * end]
    assert sizes(at_steps.filter(pl.col("step") == 2))["PTA"] == 458
    assert at_steps["sequence"].unique().to_list() == [end, second]


def test_over_time(builder: EventLogBuilder) -> None:
    """At each allocation and free if there are few, at evenly spread ones and the peaks if there are many."""
    add_training_step(builder)
    recording = dataset_of(builder)
    every = decompose(recording).over_time.filter(pl.col("node") == "PTA")
    assert every["size_bytes"].to_list() == [400, 600, 700, 600, 400, 450]
    few = decompose(recording, DecompositionOptions(moments=2)).over_time.filter(pl.col("node") == "PTA")
    assert few["size_bytes"].to_list() == [700, 450]  # the peak is one of the two
    assert decompose(recording, DecompositionOptions(moments=0)).over_time.is_empty()
    with pytest.raises(ValueError, match="moments: not accepted"):
        DecompositionOptions(moments=-1)


def test_pools_stand_apart(builder: EventLogBuilder) -> None:
    """Devices, pools, and pinned memory beside CPU tensors."""
    builder.malloc(0x1000, 10, pool=HOST, device=CPU)
    builder.malloc(0x2000, 20, pool=HAL, device=CPU, attribute_id=builder.string("pinned:true"))
    builder.malloc(0x3000, 40, pool=HOST, device=CPU, attribute_id=builder.string("pinned:true"))
    builder.malloc(0x4000, 80, pool=PTA, device=0)
    builder.malloc(0x5000, 160, pool=PTA, device=1)
    pools = decomposed(builder).pools
    assert [(pool.device, pool.pool, sizes(pool.nodes)) for pool in pools] == [
        (CPU, HAL, {"HOST": 60, "HOST@pinned": 60}),
        (CPU, HOST, {"HOST": 10}),
        (0, PTA, {"PTA": 80}),
        (1, PTA, {"PTA": 160}),
    ]


def add_driver(builder: EventLogBuilder) -> int:
    """Segments of two pools with a little overhead, two modules, and what the program took itself."""
    for address, size, module in (
        (0x1000, 40, "APP"),
        (0x2000, 21, "APP"),
        (0x3000, 7, "HCCL"),
        (0x4000, 2, "RUNTIME"),
    ):
        builder.malloc(
            address << 20, size * MIB, attribute_id=builder.string(f"CANN@{module},page_type:huge"), **DRIVER
        )
    builder.add(DEVICE_USAGE, device=0, size=100 * MIB, extra=90 * MIB)
    builder.add(RESERVED, size=38 * MIB, **NPU)
    builder.malloc(0x1001 << 20, 5 * MIB, **NPU)
    builder.malloc(0x2001 << 20, 3 * MIB, pool=ATB, device=0)
    return builder.add(STEP, device=0, size=1)


def test_ledger(builder: EventLogBuilder) -> None:
    """Driver = pools + modules + unknown; a pool that does not say what it holds counts with what is in use of it."""
    end = add_driver(builder)
    result = decomposed(builder)
    assert result.coverage.limits == ()
    expected = [
        ("pool", "ATB", 3 * MIB),
        ("pool", "PTA", 38 * MIB),
        ("module", "HCCL", 7 * MIB),
        ("module", "RUNTIME", 2 * MIB),
        ("unknown", "", (61 - 41) * MIB),
    ]
    at_step = result.ledger.filter(pl.col("step") == 1)
    assert at_step.select("part", "name", "size_bytes").rows() == expected
    assert result.devices.filter(pl.col("step") == 1).rows() == [(1, end, 0, 70 * MIB, 90 * MIB, 100 * MIB)]
    assert result.ledger_at_peak(0).select("part", "name", "size_bytes").rows() == expected


def test_ledger_at_the_end_of_the_peak(builder: EventLogBuilder) -> None:
    """A pool says what it holds after it got it: before the driver's memory changes again, but not any later."""
    segment = builder.malloc(0x1000 << 20, 4 * MIB, attribute_id=builder.string("CANN@APP"), **DRIVER)
    builder.add(RESERVED, size=4 * MIB, **NPU)
    builder.malloc(0x1001 << 20, MIB, **NPU)
    last = builder.malloc(0x1002 << 20, MIB, **NPU)
    builder.free(segment, 0x1000 << 20, 4 * MIB, **DRIVER)
    builder.add(RESERVED, size=0, **NPU)
    result = decomposed(builder)
    assert result.ledger.select("sequence", "name", "size_bytes").rows() == [(last, "PTA", 4 * MIB), (last, "", 0)]


def test_ledger_where_pools_are_fullest(builder: EventLogBuilder) -> None:
    """The driver's memory stays at its peak when blocks of a pool are freed: they were what it was needed for."""
    builder.malloc(0x1000 << 20, 8 * MIB, attribute_id=builder.string("CANN@APP"), **DRIVER)
    builder.add(RESERVED, size=8 * MIB, **NPU)
    first = builder.malloc(0x1001 << 20, 3 * MIB, **NPU)
    second = builder.malloc(0x1002 << 20, 4 * MIB, **NPU)
    builder.free(first, 0x1001 << 20, 3 * MIB, **NPU)
    builder.malloc(0x1003 << 20, 2 * MIB, **NPU)
    result = decomposed(builder)
    assert result.devices["sequence"].to_list() == [second]
    assert result.ledger.select("name", "size_bytes").rows() == [("PTA", 8 * MIB), ("", 0)]


def test_usage_that_was_told_before(builder: EventLogBuilder) -> None:
    """The management interface is not asked each time; what the driver has handed out since then is added."""
    builder.add(DEVICE_USAGE, device=0, size=30 * MIB, extra=12 * MIB)
    builder.malloc(0x1000 << 20, 8 * MIB, attribute_id=builder.string("CANN@APP"), **DRIVER)
    builder.add(RESERVED, size=8 * MIB, **NPU)
    builder.malloc(0x1001 << 20, 3 * MIB, **NPU)
    builder.malloc(0x2000 << 20, 20 * MIB, attribute_id=builder.string("CANN@APP"), **DRIVER)
    end = builder.add(STEP, device=0, size=1)
    at_step = decomposed(builder).devices.filter(pl.col("step") == 1)
    assert at_step.rows() == [(1, end, 0, 28 * MIB, 32 * MIB, 50 * MIB)]


def test_ledger_without_pools(builder: EventLogBuilder) -> None:
    """Memory that the program asked the driver for is a part like any other, and nothing is unknown."""
    builder.malloc(0x1000, 512, attribute_id=builder.string("CANN@APP"), **DRIVER)
    builder.malloc(0x2000, 256, **DRIVER)
    result = decomposed(builder)
    assert result.ledger.select("part", "name", "size_bytes").rows() == [
        ("module", "APP", 512),
        ("module", "UNKNOWN", 256),
        ("unknown", "", 0),
    ]


def test_ledger_without_the_driver(builder: EventLogBuilder) -> None:
    """The totals are not known, and the coverage says why."""
    builder.add(RESERVED, size=2 * MIB, **NPU)
    builder.malloc(0x1000, 512, **NPU)
    result = decomposed(builder)
    assert result.ledger.select("part", "name", "size_bytes").rows() == [
        ("pool", "PTA", 2 * MIB),
        ("unknown", "", None),
    ]
    assert result.devices["driver_bytes"].to_list() == [None]
    assert result.coverage.limits == (NO_DRIVER,)


def test_values_that_are_taken_back(builder: EventLogBuilder) -> None:
    """All ones stand for "not known any more"."""
    builder.malloc(0x1000 << 20, 4 * MIB, attribute_id=builder.string("CANN@APP"), **DRIVER)
    builder.add(RESERVED, size=4 * MIB, **NPU)
    builder.add(RESERVED, size=-1, **NPU)
    builder.add(DEVICE_USAGE, device=0, size=-1, extra=2**64 - 1)
    builder.malloc(0x1001 << 20, MIB, **NPU)
    builder.add(STEP, device=0, size=1)
    result = decomposed(builder)
    at_step = result.ledger.filter(pl.col("step") == 1)
    assert at_step.select("name", "size_bytes").rows() == [("PTA", MIB), ("", 3 * MIB)]
    assert result.devices.filter(pl.col("step") == 1)["process_bytes"].to_list() == [None]
    assert result.devices.filter(pl.col("step") == 1)["device_bytes"].to_list() == [None]


def test_nothing_recorded(builder: EventLogBuilder) -> None:
    """No events and no blocks make no pools, and tables of the same schemas; there is no answer."""
    result = decomposed(builder)
    assert result.pools == ()
    assert result.coverage.missing == ("no allocations were recorded",)
    for table in (result.at_steps, result.over_time, result.ledger, result.devices):
        assert table.is_empty()
    assert dict(result.ledger.schema) == dict(PART_SCHEMA)


def test_owners_of_a_dump(builder: EventLogBuilder) -> None:
    """Those that it names are taken; without any, the coverage says that."""
    add_training_step(builder)
    named = dataset_of(builder, "csv", ["PTA@model@weight", "PTA@x", None, "PTA@x"])
    result = decompose(named)
    assert sizes(result.pools[0].nodes)["PTA@x"] == 200
    assert sizes(result.pools[0].nodes)["PTA@ops@aten@mine"] == 100  # derived where it names none
    assert result.coverage.limits[-1] == NO_DRIVER
    assert NO_OWNERS not in result.coverage.limits
    assert decompose(dataset_of(builder, "csv")).coverage.limits[-2:] == (NO_OWNERS, NO_DRIVER)


def test_what_could_not_be_told_of_an_event_log(builder: EventLogBuilder) -> None:
    """No accesses, no activations."""
    builder.malloc(0x1000, 10, name_id=builder.string("aten.mm"))
    assert decomposed(builder).coverage.limits == (NO_ACCESSES,)
    assert decompose(dataset_of(builder)).coverage.limits == (NO_ACCESSES,)


def test_a_capture_and_its_tables_agree(builder: EventLogBuilder) -> None:
    """One pass that keeps little gives what all tables give."""
    add_training_step(builder)
    add_driver(builder)
    one, other = decomposed(builder), decompose(dataset_of(builder))
    assert [pool.nodes.rows() for pool in one.pools] == [pool.nodes.rows() for pool in other.pools]
    for name in ("at_steps", "over_time", "ledger", "devices"):
        assert getattr(one, name).equals(getattr(other, name)), name


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[dict[str, int]], list[str]]:
    """Random blocks of random pools, freed or not, and their owners."""
    events: list[dict[str, int]] = []
    alive: list[dict[str, int]] = []
    owners = []
    for sequence in range(1, draw(st.integers(1, 50))):
        kind = draw(st.sampled_from(["malloc", "malloc", "free", "step"]))
        if kind == "malloc":
            place = draw(st.sampled_from([(HAL, 0), (PTA, 0), (PTA, 1), (HOST, CPU)]))
            block = {"sequence": sequence, "kind": EventKind.MALLOC, "size": draw(st.integers(0, 100))}
            block |= {"pool": place[0], "device": place[1]}
            events.append(block)
            alive.append(block)
            owners.append(draw(st.sampled_from(["A", "A@b", "A@b@c", "A@c", "Ab", "A@b@c@d@e"])))
        elif kind == "free" and alive:
            block = alive.pop(draw(st.integers(0, len(alive) - 1)))
            events.append({**block, "sequence": sequence, "kind": EventKind.FREE, "extra": block["sequence"]})
        elif kind == "step":
            events.append({"sequence": sequence, "kind": EventKind.STEP, "size": sequence, "device": 0})
    return events, owners


@examples(by_day=20)
@given(history=histories())
def test_everything_adds_up(history: tuple[list[dict[str, int]], list[str]]) -> None:
    """At every event: roots add up to the pool, a node to its own bytes and its parts, and all to a plain count."""
    rows, owners = history
    events = pl.DataFrame([dict.fromkeys(EVENT_SCHEMA, 0) | row for row in rows], schema=EVENT_SCHEMA)
    blocks = build_blocks(events, STRING_SCHEMA.to_frame()).with_columns(owner=pl.Series(owners, dtype=pl.String))
    totals = node_totals(blocks, events["sequence"])
    found = {(row["sequence"], row["device"], row["pool"], row["node"]): row for row in totals.iter_rows(named=True)}
    for sequence in events["sequence"]:
        expected: dict[tuple[int, int, int, str], list[int]] = {}
        for block in blocks.iter_rows(named=True):
            if block["malloc_sequence"] <= sequence and (block["free_sequence"] or sequence + 1) > sequence:
                parts = block["owner"].split("@")
                for depth in range(1, len(parts) + 1):
                    key = (sequence, block["device"], block["pool"], "@".join(parts[:depth]))
                    sums = expected.setdefault(key, [0, 0, 0, depth - 1])
                    sums[0] += block["size"]
                    sums[1] += block["size"] if depth == len(parts) else 0
                    sums[2] += 1
        at_moment = {key: row for key, row in found.items() if key[0] == sequence}
        assert {
            key: [row["size_bytes"], row["own_bytes"], row["block_count"], row["depth"]]
            for key, row in at_moment.items()
        } == expected
    nothing = STRING_SCHEMA.to_frame()
    named = blocks.select(RECORDING_BLOCK_SCHEMA.names())
    recording = Recording("", "csv", 0, events, named, nothing, nothing, nothing, (), ())
    result = decompose(recording)
    for pool in result.pools:
        assert pool.nodes.filter(pl.col("depth") == 0)["size_bytes"].sum() == pool.peak_bytes
    known = result.devices.drop_nulls("driver_bytes")
    moment = ["step", "sequence", "device"]
    sums_of_parts = result.ledger.group_by(moment).agg(pl.col("size_bytes").sum())
    both = known.join(sums_of_parts, on=moment, how="left", nulls_equal=True)
    assert (both["size_bytes"] == both["driver_bytes"]).all()


def test_an_owner_of_more_parts_than_any_has() -> None:
    """It counts for the node of its first parts: a text of a megabyte would be a table of terabytes."""
    trace = Trace()
    for place in range(3):
        trace.malloc(100 * (place + 1), attributes="")
    recording = trace.recording()
    deep = "@".join(["a"] * 100_000)
    owners = pl.Series("owner", [deep, f"{deep}@b", "a@a"])
    found = decompose(dataclasses.replace(recording, blocks=recording.blocks.with_columns(owners)))
    nodes = found.pools[0].nodes
    assert nodes["depth"].max() == DEEPEST_NODE
    assert nodes.filter(pl.col("depth") == DEEPEST_NODE).select("size_bytes", "own_bytes").rows() == [(300, 300)]
    assert nodes.filter(pl.col("depth") == 0)["size_bytes"].to_list() == [600]


def test_more_owners_and_steps_than_fit_into_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of some steps nothing is said then, and that is a line of the coverage; the last step is always there."""
    trace = Trace()
    for step in range(20):
        trace.malloc(100 * (step + 1))
        trace.step()
    recording = trace.recording()
    recording = dataclasses.replace(
        recording, blocks=recording.blocks.with_columns(owner=pl.Series([f"PTA@{place}" for place in range(20)]))
    )
    whole = decompose(recording)
    assert whole.at_steps["step"].n_unique() == 20
    monkeypatch.setattr("msmemscope.analysis.owners.decomposition._MOST_OWNERS_AT_MOMENTS", 100)
    found = decompose(recording)
    assert found.at_steps["step"].unique().sort().to_list() == [4, 8, 12, 16, 20]
    assert any(line.startswith("owners at the end of every 4th step only") for line in found.coverage.limits)
    last = pl.col("step") == 20
    assert found.at_steps.filter(last).equals(whole.at_steps.filter(last))
