"""The text of an event log shows every event, one line each."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from msmemscope.formats.event_log import Capture
from msmemscope.formats.event_log.text_dump import EVENT_COLUMNS, write_text
from msmemscope.model.events import EventKind
from tests.fakes.event_log_builder import ATEN_START, Event, EventLogBuilder


@pytest.fixture
def builder(tmp_path: Path) -> EventLogBuilder:
    """An event log with an operator, a block and a fact."""
    builder = EventLogBuilder(tmp_path)
    builder.fact("argument", "line\nfeed")
    builder.header_fields = {"session": 255}
    operator = builder.string("aten.add\tx")
    stack = builder.python_stack((builder.code("a.py", "f", 3), 0), (builder.code("b.py", "g", 5), 0))
    native = builder.native_stack(0x10, 0x20)
    builder.module("/lib/x.so", 0x1000, 0x2000, load_bias=0x1000, build_id=b"\xab\xcd")
    builder.add(ATEN_START, name_id=operator, timestamp_ns=5)
    block = builder.malloc(0xABC, 64, timestamp_ns=6, python_stack_id=stack, native_stack_id=native)
    builder.free(block, 0xABC, 64, timestamp_ns=7, flags=1, device=3, attribute_id=builder.string("x:1"))
    builder.events[0].append(Event(9, 200, device=-1, pool=77))
    return builder


def text_of(builder: EventLogBuilder, **options: object) -> list[str]:
    """The lines of the text."""
    out = io.StringIO()
    write_text(Capture(builder.write()), out, **options)  # type: ignore[arg-type]
    return out.getvalue().splitlines()


def test_events_are_one_line_each(builder: EventLogBuilder) -> None:
    """Fields are separated by tabs, in the order of the column line; unknown values show as numbers."""
    lines = text_of(builder)
    header = lines.index("# " + EVENT_COLUMNS.replace(" ", "\t"))
    assert lines[header + 1 :] == [
        "1\t5\t100\tcpu\tATEN_START\t-\t0x0\t0\t-\t0\t0\t0\taten.add\\tx\t-",
        "2\t6\t100\tcpu\tMALLOC\tHOST\t0xabc\t64\t-\t0\t1\t1\t-\t-",
        "3\t7\t100\t3\tFREE\tHOST\t0xabc\t64\tshadow\t2\t0\t0\t-\tx:1",
        "9\t0\t100\tN/A\t200\t77\t0x0\t0\t-\t0\t0\t0\t-\t-",
    ]
    assert "header process_id=4242" in lines
    assert "header state=closed" in lines
    assert "header session=00000000000000ff" in lines
    assert "fact argument=line\\nfeed" in lines


def test_definitions_are_shown_on_request(builder: EventLogBuilder) -> None:
    """Strings, code objects, stacks and modules are long, so they are asked for."""
    assert not any(line.startswith("string") for line in text_of(builder))
    lines = text_of(builder, definitions=True)
    assert "string 1 aten.add\\tx" in lines
    assert "code 2 b.py(5): g" in lines
    assert "python_stack 1 a.py(3): f < b.py(5): g" in lines
    assert "native_stack 1 0x10 0x20" in lines
    assert "module 0x1000-0x2000 bias=0x1000 seen=1 build_id=abcd /lib/x.so" in lines


@pytest.mark.parametrize(
    ("limit", "kinds", "expected"),
    [
        (0, None, []),
        (2, None, ["1", "2"]),
        (None, {EventKind.FREE, EventKind.MALLOC}, ["2", "3"]),
        (1, [EventKind.FREE], ["3"]),
        (5, [EventKind.STEP], []),
    ],
)
def test_events_can_be_chosen(
    builder: EventLogBuilder, limit: int | None, kinds: list[EventKind] | None, expected: list[str]
) -> None:
    """The limit counts the events that are shown."""
    lines = text_of(builder, limit=limit, kinds=kinds)
    assert [line.partition("\t")[0] for line in lines if line[0].isdigit()] == expected


def test_files_left_out_and_a_missing_header_are_named(builder: EventLogBuilder) -> None:
    """A reader of the text must know what it does not show."""
    directory = builder.write()
    (builder.log / "process.header").unlink()
    (builder.log / "events_9.segment").write_bytes(b"foreign" * 100)
    out = io.StringIO()
    write_text(Capture(directory), out)
    assert "# the process was killed before it wrote its header" in out.getvalue()
    assert "# left out: " in out.getvalue()
