"""The memory that stays in use during a sleep agrees with the definition, counted event by event."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import msmemscope
from msmemscope.analysis.sleep.sleep import KEPT_SCHEMA, LEAST_CYCLES, examine_sleep, growth_of
from msmemscope.model.attributes import AttributeKey
from msmemscope.questions import QUESTIONS
from tests.fakes.event_log_builder import CPU, HAL, MARK, NO_DEVICE, PTA, RESERVED, EventLogBuilder
from tests.support.nightly import examples

if TYPE_CHECKING:
    from msmemscope.analysis.sleep.sleep import SleepResult

MIB = 1 << 20
NPU = {"pool": PTA, "device": 0}
DRIVER = {"pool": HAL, "device": 0}
RANGE_START, RANGE_END, MAPPED, UNMAPPED = 31, 32, 61, 62
SEGMENT = 100
"""Bytes of the driver's blocks of random histories."""


def mark(builder: EventLogBuilder, name: str) -> int:
    """The program says that it sleeps, or wakes, now."""
    return builder.add(MARK, name_id=builder.string(name))


def asked(builder: EventLogBuilder) -> tuple[SleepResult, str]:
    """The answer, and its report on one line."""
    recording = msmemscope.load(builder.write())
    result = examine_sleep(recording)
    text = io.StringIO()
    QUESTIONS["sleep"].report(result, recording, text)
    return result, " ".join(text.getvalue().split())


@dataclasses.dataclass
class Asleep:
    """The memory that was there when a program slept."""

    driver: dict[int, tuple[int, str]]
    """Places to the MALLOC and the name of the driver's block there."""
    resident: dict[tuple[int, int], str]
    """Places and offsets of the pool's blocks that have memory, to their names."""

    def kept(self, ever_pools: set[int]) -> Counter[tuple[int, bool, str | None]]:
        """Bytes by pool, whether they are not in use, and name.

        Args:
            ever_pools: MALLOCs of blocks of the driver that held a block of the pool at any time.
        """
        kept: Counter[tuple[int, bool, str | None]] = Counter()
        for (_, offset), name in self.resident.items():
            kept[PTA, False, name] += 1 + offset
        mapped_pools = {place for place, _ in self.resident if place % 2 == 1}
        of_pools = {place for place, (made, _) in self.driver.items() if made in ever_pools or place in mapped_pools}
        for place, (_, name) in self.driver.items():
            if place not in of_pools:
                kept[HAL, False, name] += SEGMENT
        reserve = SEGMENT * len(of_pools) - sum(1 + offset for _, offset in self.resident)
        if reserve:
            kept[PTA if self.resident else HAL, True, None] += reserve
        return kept


class History:
    """A device with places for blocks of the driver, and places in these for a pool's. Memory of odd places is mapped."""

    def __init__(self, builder: EventLogBuilder) -> None:
        self.builder = builder
        self.driver: dict[int, tuple[int, str]] = {}
        self.is_there: dict[int, bool] = {}
        """Odd places that were ever mapped: whether memory is there."""
        self.pool: dict[tuple[int, int], tuple[int, str]] = {}
        """Place and offset to the MALLOC and the name of a pool's block."""
        self.ever_pools: set[int] = set()
        self.sleeps: list[Asleep] = []

    @staticmethod
    def address(place: int) -> int:
        """Where blocks of a place lie."""
        return 0x10000 * (place + 1)

    def handle(self, place: int) -> int:
        """The driver's handle for its block there."""
        return 0xF0000000 + place if place % 2 else self.address(place)

    def do(self, place: int, offset: int, name: str) -> None:
        """Something happens at a place: what is there goes, else something comes."""
        builder = self.builder
        block = self.pool.pop((place, offset), None)
        name_id = builder.string(name)
        if block is not None:
            builder.free(block[0], self.address(place) + offset, 1 + offset, **NPU)
        elif place not in self.driver:
            self.driver[place] = builder.malloc(self.handle(place), SEGMENT, name_id=name_id, **DRIVER), name
            if place % 2:
                self.is_there[place] = True
                mapped = {"address": self.address(place), "size": SEGMENT, "extra": self.driver[place][0]}
                builder.add(MAPPED, **mapped, **DRIVER)
        elif offset:
            made = builder.malloc(self.address(place) + offset, 1 + offset, name_id=name_id, **NPU)
            self.pool[place, offset] = made, name
            if place % 2 == 0:
                self.ever_pools.add(self.driver[place][0])
        elif place % 2 or all(at != place for at, _ in self.pool):
            if place % 2:
                builder.add(UNMAPPED, address=self.address(place), pool=HAL, device=NO_DEVICE)
                self.is_there[place] = False
            builder.free(self.driver.pop(place)[0], self.handle(place), SEGMENT, **DRIVER)

    def sleep(self) -> None:
        """The program says that it sleeps now, and wakes."""
        mark(self.builder, "sleep")
        resident = {key: name for key, (_, name) in self.pool.items() if self.is_there.get(key[0], True)}
        self.sleeps.append(Asleep(dict(self.driver), resident))
        mark(self.builder, "wake")


actions = st.one_of(
    st.none(), st.tuples(st.integers(0, 3), st.sampled_from([0, 5, 20]), st.sampled_from(["first", "second"]))
)


@examples(by_day=20)
@given(st.lists(actions, max_size=40))
def test_what_stays_is_what_the_definition_says(done: list[tuple[int, int, str] | None]) -> None:
    """Blocks in memory that is there, by name; what pools hold without use; the rest of the driver; and their sum."""
    with TemporaryDirectory() as folder:
        history = History(EventLogBuilder(Path(folder)))
        history.do(0, 0, "first")
        for action in (*done, None):
            if action is None:
                history.sleep()
            else:
                history.do(*action)
        result = examine_sleep(msmemscope.load(history.builder.write()))
    for cycle, asleep in enumerate(history.sleeps, start=1):
        kept, total = asleep.kept(history.ever_pools), SEGMENT * len(asleep.driver)
        rows = result.kept.filter(cycle=cycle).select("pool", "is_reserve", "site", "size_bytes").rows()
        assert {(pool, is_reserve, site): size for pool, is_reserve, site, size in rows} == dict(kept)
        assert result.cycles.filter(cycle=cycle)["asleep_bytes"].to_list() == [total] == [sum(kept.values())]


@given(
    st.dictionaries(
        st.tuples(st.integers(1, 7), st.sampled_from(["a.py(1)", "b.py(2)"])), st.integers(1, 4), max_size=14
    ),
    st.integers(1, 7),
)
def test_growth_is_what_the_definition_says(sizes: dict[tuple[int, str], int], cycles: int) -> None:
    """From the second sleep on: never falls, rises at half of the sleeps at least."""
    rows = [(cycle, 0, PTA, False, "PTA", site, size, 1) for (cycle, site), size in sizes.items() if cycle <= cycles]
    found = growth_of(pl.DataFrame(rows, KEPT_SCHEMA, orient="row"), cycles)
    for site in ("a.py(1)", "b.py(2)"):
        first = 2 if cycles >= LEAST_CYCLES else 1
        series = [sizes.get((cycle, site), 0) for cycle in range(first, cycles + 1)]
        changes = [after - before for before, after in itertools.pairwise(series)]
        rises = sum(change > 0 for change in changes)
        grows = cycles >= LEAST_CYCLES and rises > 0 and 2 * rises >= len(changes) and min(changes) >= 0
        row = found.filter(site=site).rows(named=True)
        if not series[0] and not series[-1]:
            assert row == []
            continue
        assert row[0]["is_growing"] == grows
        assert (row[0]["first_bytes"], row[0]["last_bytes"]) == (series[0], series[-1])
        growth = row[0]["growth_bytes_per_cycle"]
        if cycles < LEAST_CYCLES:
            assert growth is None
        else:
            assert abs(growth - (series[-1] - series[0]) / len(changes)) <= 0.5


def test_growth_is_the_first_thing_that_is_reported(builder: EventLogBuilder) -> None:
    """With the line, or operator, that is to blame; each sleep has its row, and what stays is listed."""
    builder.malloc(0x100000, 64 * MIB, name_id=builder.string("Load"), **DRIVER)
    builder.malloc(0x100000, 10 * MIB, name_id=builder.string("Buffer"), **NPU)
    for cycle in range(4):
        weights = builder.malloc(0x8000000, 20 * MIB, **DRIVER)
        builder.malloc(0x1000000 + cycle * MIB, MIB, name_id=builder.string("Leak"), **NPU)
        builder.free(weights, 0x8000000, 20 * MIB, **DRIVER)
        mark(builder, "sleep")
        mark(builder, "wake")
    result, text = asked(builder)
    assert text.startswith("npu:0: 1.00 MiB more stays in use with each sleep at Leak; 64.0 MiB in sleep 4")
    assert "Leak keeps 1.00 MiB more with each sleep: 2.00 MiB in sleep 2, 4.00 MiB in sleep 4" in text
    assert result.growing["site"].to_list() == ["Leak"]
    assert "50.0 MiB -1.00 MiB the pool PTA, not in use" in text
    find = QUESTIONS["sleep"].findings
    assert find is not None
    (finding,) = find(result).rows(named=True)
    assert (finding["kind"], finding["site"], finding["bytes"]) == ("growth from sleep to sleep", "Leak", 2 * MIB)


def test_a_sleep_that_gives_nothing_back(builder: EventLogBuilder) -> None:
    """It is said, and that growth is not judged from a sleep alone."""
    builder.malloc(0x100000, 5 * MIB, **DRIVER)
    mark(builder, "sleep")
    result, text = asked(builder)
    assert text.startswith(
        "npu:0: sleep gives nothing back, 5.00 MiB stays in use; growth is judged from 3 sleeps on, there was 1"
    )
    assert result.judged is None
    assert result.growth_bytes_per_cycle(0) is None
    assert result.sites["growth_bytes_per_cycle"].to_list() == [None]


def test_nothing_stays(builder: EventLogBuilder) -> None:
    """Where all is freed before the sleep is complete."""
    number = builder.add(RANGE_START, name_id=builder.string("sleep"), extra=1)
    block = builder.malloc(0x100000, 5 * MIB, **DRIVER)
    builder.free(block, 0x100000, 5 * MIB, **DRIVER)
    builder.add(RANGE_END, extra=1)
    result, text = asked(builder)
    assert result.cycles.select("begin_sequence", "asleep_bytes").rows() == [(number, 0)]
    assert text.startswith("npu:0: nothing stays in use while asleep; growth is judged from 3 sleeps on")


def test_without_the_driver_the_pools_count(builder: EventLogBuilder) -> None:
    """Without the driver, the bytes that pools report count. The answer says that memory may be asleep."""
    builder.malloc(0x100000, 5 * MIB, **NPU)
    builder.add(RESERVED, size=8 * MIB, **NPU)
    mark(builder, "sleep")
    result, text = asked(builder)
    assert result.kept.select("is_reserve", "size_bytes").rows() == [(False, 5 * MIB), (True, 3 * MIB)]
    assert "npu:0: its driver was not observed" in text


def test_a_log_that_does_not_say_what_is_mapped(builder: EventLogBuilder) -> None:
    """The device's total is the driver's all the same, and that blocks without memory are counted is said."""
    created = builder.attributes((int(AttributeKey.ALLOCATION_KIND), "create"))
    physical = builder.malloc(0xF000000, 8 * MIB, attribute_id=created, **DRIVER)
    builder.malloc(0x100000, 5 * MIB, **NPU)
    builder.free(physical, 0xF000000, 8 * MIB, **DRIVER)
    mark(builder, "sleep")
    result, text = asked(builder)
    assert result.cycles["asleep_bytes"].to_list() == [0]
    assert "this input does not say where memory of the driver is mapped" in text
    builder.add(MAPPED, address=0x100000, size=8 * MIB, extra=physical, **DRIVER)
    assert examine_sleep(msmemscope.load(builder.write())).coverage.limits == ()


def test_a_program_without_an_accelerator(builder: EventLogBuilder) -> None:
    """Its tensors are looked at; beside an accelerator they are not."""
    builder.malloc(0x1000, 3 * MIB, device=CPU)
    mark(builder, "sleep")
    result, text = asked(builder)
    assert result.devices == (CPU,)
    assert text.startswith("cpu: sleep gives nothing back, 3.00 MiB stays in use")
    builder.malloc(0x100000, MIB, **DRIVER)
    assert examine_sleep(msmemscope.load(builder.write())).devices == (0,)


def test_a_program_that_never_sleeps(builder: EventLogBuilder) -> None:
    """There is no answer, and what would give one is said; JSON has the tables all the same."""
    builder.malloc(0x100000, 5 * MIB, **DRIVER)
    result, text = asked(builder)
    assert not result.coverage.is_answered
    assert 'is named "sleep"' in text
    content = QUESTIONS["sleep"].json_content(result, msmemscope.load(builder.write()))
    assert json.loads(json.dumps(content))["cycles"] == []


def test_sleeps_of_a_process_without_memory(builder: EventLogBuilder) -> None:
    """There is no answer either."""
    mark(builder, "sleep")
    result, _ = asked(builder)
    assert not result.coverage.is_answered
    assert result.cycles.is_empty()


def test_many_sleeps_are_cut(builder: EventLogBuilder) -> None:
    """The first and the last ones are listed."""
    builder.malloc(0x100000, 5 * MIB, **DRIVER)
    for _ in range(14):
        mark(builder, "sleep")
        mark(builder, "wake")
    _, text = asked(builder)
    assert "and 4 sleeps between these" in text
