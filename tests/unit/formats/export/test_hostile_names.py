"""Whatever a program calls things, names come out as data: files stay valid, and nothing of them is markup or structure."""

from __future__ import annotations

import functools
import gzip
import json
import pickle
from typing import TYPE_CHECKING

import pytest

from msmemscope.formats.export.export_choice import ExportChoice
from msmemscope.formats.export.export_formats import EXPORT_FORMATS
from msmemscope.formats.export.flamegraph import FLAMEGRAPH_MARK
from tests.fakes.traces import Trace
from tests.support.nightly import NIGHT
from tests.support.protobuf_messages import messages, read_message, text

if TYPE_CHECKING:
    from msmemscope.recording import Recording

NAMES = [
    'x","ph":"X"},{"name":"y',
    "a;b;c 100",
    "line\nbreak\r\n 7",
    "\x00\x1b[31mred\x7f\x85\u2028",
    "</script><img src=x onerror=alert(1)>",
    "=cmd|' /C calc'!A0",
    "\ufeff\u202egnp.exe",
    "cos\nsystem\n(S'true'\ntR.",
    "层" * 1000,
    "x" * (10_000_000 if NIGHT else 1_000_000),
]
ODD_TITLE = "run \udc80\x00"
"""As a path that is no text becomes one."""


def recording_named(name: str) -> Recording:
    """Operators, marks, ranges, stacks and labels of a name."""
    trace = Trace()
    trace.malloc(100, f"{name}(3): {name}", operator=name, native=f"/lib/{name}(f+0x1) [0xabc]")
    trace.mark(name)
    trace.end_range(trace.begin_range(name))
    return trace.recording()


def written(recording: Recording) -> dict[str, bytes]:
    """The file that each format of one file makes of a recording."""
    found = {}
    for word, one in EXPORT_FORMATS.items():
        if one.write is not None:
            content = bytearray()
            one.write(recording, content.extend, ExportChoice(ODD_TITLE))
            found[word] = bytes(content)
    return found


@functools.cache
def plainly_written() -> dict[str, bytes]:
    """The same with a plain name."""
    return written(recording_named("plain"))


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name[:8]))
def test_names_are_data(name: str) -> None:
    """Each format holds as many things as it would with a plain name, and its own reader takes it."""
    plain, odd = plainly_written(), written(recording_named(name))

    def chrome(content: bytes) -> list[str]:
        return [event["ph"] for event in json.loads(content.decode())["traceEvents"]]

    assert chrome(odd["chrome-trace"]) == chrome(plain["chrome-trace"])
    instant = [event for event in json.loads(odd["chrome-trace"])["traceEvents"] if event["ph"] == "i"]
    assert [event["name"] for event in instant] == [name]

    packets = [messages(read_message(one["perfetto"]), 1) for one in (plain, odd)]
    assert [sorted(packet) for packet in packets[0]] == [sorted(packet) for packet in packets[1]]
    names = [text(entry, 2) for packet in packets[1] for data in messages(packet, 12) for entry in messages(data, 2)]
    assert name in names

    (line,) = odd["flamegraph"].removesuffix(FLAMEGRAPH_MARK.end).decode().split("\n")[:-1]
    assert line.rpartition(" ")[2] == "100"
    assert line.count(";") <= plain["flamegraph"].count(b";") + name.count("\n") * 2
    assert not any(ord(letter) < 0x20 or 0x7F <= ord(letter) < 0xA0 for letter in line)

    profiles = json.loads(odd["speedscope"].decode())["profiles"]
    assert [profile["endValue"] for profile in profiles][:3] == [100, 100, 100]
    texts = read_message(gzip.decompress(odd["pprof"]))[6]
    assert name.encode() in texts

    snapshot = pickle.loads(odd["torch-snapshot"])  # noqa: S301 - written a moment ago
    (entry,) = snapshot["device_traces"][0]
    assert entry["user_metadata"].endswith(f", {name}")
    assert {one["name"] for one in snapshot["external_annotations"]} == {name}
