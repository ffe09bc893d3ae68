"""Reading a log that is still being written: each committed event once, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from msmemscope.formats.event_log.new_events import NewEvents
from tests.fakes import event_log_builder as fakes
from tests.fakes.event_log_builder import EventLogBuilder
from tests.support.nightly import examples

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

KINDS = (fakes.MALLOC, fakes.FREE)


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    """Of several threads, in the order of events; other kinds are left out."""
    log = EventLogBuilder(tmp_path, tail_records=2)
    first = log.malloc(64, 10)
    log.add(fakes.MARK, segment=1)
    log.malloc(128, 20, segment=1)
    reader = NewEvents(log.write())
    assert reader.read(KINDS)["size"].to_list() == [10, 20]
    assert reader.read(KINDS).height == 0
    log.free(first, 64, 10, segment=1)
    log.malloc(192, 30)
    log.malloc(256, 40, segment=2)
    log.write()
    assert reader.read(KINDS)["size"].to_list() == [10, 30, 40]


def test_what_is_not_committed_yet_is_read_later(tmp_path: Path) -> None:
    """A thread is in the middle of a record."""
    log = EventLogBuilder(tmp_path, tail_records=8)
    log.malloc(64, 10)
    log.torn()
    reader = NewEvents(log.write())
    assert reader.read(KINDS)["size"].to_list() == [10]
    log.events[0].pop()
    log.malloc(192, 30)
    log.write()
    assert reader.read(KINDS)["size"].to_list() == [30]


@examples(by_day=40)
@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["malloc", "other"])), max_size=60), max_size=5
    ),
    tail_records=st.integers(1, 20),
    is_cut_off_between=st.booleans(),
)
def test_all_parts_together_are_the_log(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[tuple[int, str]]],
    *,
    tail_records: int,
    is_cut_off_between: bool,
) -> None:
    """However the writing and the reading take turns, and wherever tails become blocks."""
    folder = tmp_path_factory.mktemp("log")
    log = EventLogBuilder(folder, tail_records=tail_records, is_cut_off_between=is_cut_off_between)
    directory = log.write()
    reader = NewEvents(directory)
    expected: list[int] = []
    found: list[int] = []
    for batch in batches:
        for segment, action in batch:
            if action == "malloc":
                expected.append(log.malloc(64 * (len(expected) + 1), 8, segment=segment))
            else:
                log.add(fakes.MARK, segment=segment)
        log.write()
        found.extend(reader.read(KINDS)["sequence"].to_list())
    assert found == expected
