"""Call stacks for speedscope, flame graphs and pprof: the sums of their weights are those of the blocks."""

from __future__ import annotations

import gzip
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import polars as pl
from hypothesis import given

from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.analysis.weights.measures import Measure
from msmemscope.analysis.weights.weighted_stacks import NO_STACK
from msmemscope.formats.export.export_choice import ExportChoice
from msmemscope.formats.export.flamegraph import FLAMEGRAPH_MARK, write_flamegraph
from msmemscope.formats.export.pprof import SAMPLE_TYPES, write_pprof
from msmemscope.formats.export.speedscope import SCHEMA, write_speedscope
from msmemscope.formats.export.tracks import pool_name
from msmemscope.recording.timeline import blocks_in_use, peak_moments
from tests.fakes.traces import EVENT_NS, Trace
from tests.support.nightly import examples
from tests.support.protobuf_messages import messages, numbers, read_message, text
from tests.support.random_traces import recordings

if TYPE_CHECKING:
    from collections.abc import Callable

    from msmemscope.recording import Recording

SITE = "/home/me/model.py(9): forward\n/home/me/train.py(5): <module>"


def content_of(write: Callable[..., tuple[str, ...]], recording: Recording, measure: Measure = Measure.PEAK) -> bytes:
    """The bytes that a writer writes."""
    content = bytearray()
    assert write(recording, content.extend, ExportChoice("a run", measure)) == ()
    return bytes(content)


def expected_sums(recording: Recording) -> dict[str, dict[Measure, int | Fraction]]:
    """The sum of all stacks of each pool, block by block."""
    found = {}
    last_ns = recording.events["timestamp_ns"].max()
    for device, pool, peak_bytes, sequence in peak_moments(recording.blocks).rows():
        blocks = recording.blocks.filter((pl.col("device") == device) & (pl.col("pool") == pool))
        assert blocks_in_use(blocks, sequence)["size"].sum() == peak_bytes
        rows = blocks.select("size", "allocated_ns", pl.col("freed_ns").fill_null(last_ns)).rows()
        steps = recording.leaks().step_leaks
        lost = steps.leaked["malloc_sequence"].to_list()
        is_lost = pl.col("free_sequence").is_null() if steps.remarks else pl.col("malloc_sequence").is_in(lost)
        found[pool_name(device, pool)] = {
            Measure.PEAK: peak_bytes,
            Measure.LEAKED: blocks.filter(is_lost)["size"].sum(),
            Measure.ALLOCATED: blocks["size"].sum(),
            Measure.BYTE_SECONDS: sum(
                (Fraction(size * max(end - begin, 0), 1_000_000_000) for size, begin, end in rows), Fraction()
            ),
        }
    return found


def assert_sums(found: dict[str, dict[Measure, tuple[int, int]]], recording: Recording) -> None:
    """Bytes are equal; byte-seconds are rounded down once per stack: `found` has the sum and the number of stacks."""
    for pool, expected in expected_sums(recording).items():
        for measure, value in expected.items():
            total, stacks = found.get(pool, {}).get(measure, (0, 0))
            if measure == Measure.BYTE_SECONDS:
                assert total <= value
                assert stacks >= 1
                assert value < total + stacks
            else:
                assert total == value


@examples(by_day=15)
@given(recordings)
def test_sums_of_speedscope(recording: Recording) -> None:
    """Of each pool and measure; frames are places in the list of frames."""
    content = json.loads(content_of(write_speedscope, recording))
    assert content["$schema"] == SCHEMA
    titles = {
        "in use at the peak": Measure.PEAK, "leaked": Measure.LEAKED, "allocated": Measure.ALLOCATED,
        "byte-seconds": Measure.BYTE_SECONDS,
    }  # fmt: skip
    stacks = recording.blocks.height
    found: dict[str, dict[Measure, tuple[int, int]]] = {}
    for profile in content["profiles"]:
        assert profile["type"] == "sampled"
        assert profile["endValue"] == sum(profile["weights"])
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= frame < len(content["shared"]["frames"]) for sample in profile["samples"] for frame in sample)
        pool, _, words = profile["name"].rpartition(": ")
        if pool:
            found.setdefault(pool, {})[titles[words]] = (profile["endValue"], stacks)
    assert_sums(found, recording)


@examples(by_day=15)
@given(recordings)
def test_sums_of_flame_graphs(recording: Recording) -> None:
    """Every line is frames, a space and a number; the outermost frame is the pool."""
    found: dict[str, dict[Measure, tuple[int, int]]] = {}
    for measure in Measure:
        for line in content_of(write_flamegraph, recording, measure).decode().split("\n")[:-1]:
            frames, _, weight = line.rpartition(" ")
            pool = frames.partition(";")[0]
            total, _ = found.setdefault(pool, {}).get(measure, (0, 0))
            found[pool][measure] = (total + int(weight), recording.blocks.height)
    for expected_pool in expected_sums(recording):
        found.setdefault(expected_pool, {}).setdefault(Measure.BYTE_SECONDS, (0, recording.blocks.height))
    assert_sums(found, recording)


def pprof_samples(recording: Recording) -> tuple[list[str], list[tuple[list[str], list[int], dict[str, str]]]]:
    """The names of values; and samples: frames from the innermost on, values, labels."""
    profile = read_message(gzip.decompress(content_of(write_pprof, recording)))
    texts = [content.decode() for content in profile[6] if isinstance(content, bytes)]
    assert texts[0] == ""
    functions = {numbers(one, 1)[0]: texts[numbers(one, 2)[0]] for one in messages(profile, 5)}
    locations = {numbers(one, 1)[0]: functions[numbers(messages(one, 4)[0], 1)[0]] for one in messages(profile, 4)}
    samples = []
    for sample in messages(profile, 2):
        labels = {texts[numbers(label, 1)[0]]: texts[numbers(label, 2)[0]] for label in messages(sample, 3)}
        samples.append(([locations[place] for place in numbers(sample, 1)], numbers(sample, 2), labels))
    types = [(texts[numbers(one, 1)[0]], texts[numbers(one, 2)[0]]) for one in messages(profile, 1)]
    assert types == list(SAMPLE_TYPES.values())
    assert texts[numbers(profile, 14)[0]] == "peak_space"
    return [name for name, _ in types], samples


@examples(by_day=15)
@given(recordings)
def test_sums_of_pprof(recording: Recording) -> None:
    """Bytes and blocks, and by owner as well."""
    names, samples = pprof_samples(recording)
    columns = {Measure.PEAK: "peak_space", Measure.LEAKED: "leaked_space", Measure.ALLOCATED: "alloc_space"}
    places = {measure: names.index(name) for measure, name in columns.items()} | {Measure.BYTE_SECONDS: len(names) - 1}
    found: dict[str, dict[Measure, tuple[int, int]]] = {}
    owners: dict[str, int] = {}
    for frames, values, labels in samples:
        assert frames[-1] == f"{labels['device']} {labels['pool']}"
        for measure, place in places.items():
            total, count = found.setdefault(frames[-1], {}).get(measure, (0, 0))
            found[frames[-1]][measure] = (total + values[place], count + 1)
        owner = f"{labels['device']} {labels['owner']}"
        owners[owner] = owners.get(owner, 0) + values[names.index("alloc_space")]
    assert_sums(found, recording)
    blocks, _ = owned_blocks(recording)
    by_owner = blocks.group_by("device", "owner").agg(pl.col("size").sum()).rows()
    expected: dict[str, int] = {}
    for device, owner, size in by_owner:
        key = f"{pool_name(device, 0).split()[0]} {owner}"
        expected[key] = expected.get(key, 0) + size
    assert owners == expected
    assert sum(values[names.index("alloc_objects")] for _, values, _ in samples) == blocks.height


def small_run() -> Recording:
    """A leak under an operator, a block that is freed before the peak, and one without a stack."""
    trace = Trace()
    early = trace.malloc(700, "/home/me/train.py(2): load")
    trace.free(early)
    trace.malloc(1000, SITE, operator="aten.mm")
    last = trace.malloc(24)
    trace.free(last)
    return trace.recording()


def test_frames_of_a_stack() -> None:
    """From the outermost one to the operator; what is not in use at the peak is left out."""
    *lines, last = content_of(write_flamegraph, small_run()).decode().splitlines()
    assert last == "msmemscope 0", "by which it is known to be ours"
    assert lines == [
        "npu:0 PTA;<module> (/home/me/train.py:5);forward (/home/me/model.py:9);aten.mm 1000",
        f"npu:0 PTA;{NO_STACK} 24",
    ]
    *leaked, _ = content_of(write_flamegraph, small_run(), Measure.LEAKED).decode().splitlines()
    assert leaked == lines[:1]
    content = json.loads(content_of(write_speedscope, small_run()))
    frames = content["shared"]["frames"]
    (sample, _) = content["profiles"][0]["samples"]
    assert [frames[place] for place in sample] == [
        {"name": "<module>", "file": "/home/me/train.py", "line": 5},
        {"name": "forward", "file": "/home/me/model.py", "line": 9},
        {"name": "aten.mm"},
    ]
    _, samples = pprof_samples(small_run())
    assert ["aten.mm", "forward", "<module>", "npu:0 PTA"] in [frames for frames, _, _ in samples]


def test_byte_seconds_of_a_whole_day_of_a_full_device() -> None:
    """More byte-nanoseconds than 64 bits hold: counted exactly."""
    trace = Trace()
    block = trace.malloc(80 << 30)
    trace.free(block)
    trace.rows[-1]["timestamp_ns"] += 86_400 * 1_000_000_000 - EVENT_NS
    line, _ = content_of(write_flamegraph, trace.recording(), Measure.BYTE_SECONDS).decode().splitlines()
    assert line == f"npu:0 PTA;{NO_STACK} {(80 << 30) * 86_400}"


def test_an_empty_recording_is_a_profile() -> None:
    """Nothing was recorded: the files are valid."""
    recording = Trace().recording()
    content: dict[str, Any] = json.loads(content_of(write_speedscope, recording))
    assert [profile["samples"] for profile in content["profiles"]] == [[]]
    assert content_of(write_flamegraph, recording) == FLAMEGRAPH_MARK.end
    assert pprof_samples(recording)[1] == []


def test_the_same_recording_gives_the_same_profile() -> None:
    """No moment of writing is in it, so that profiles can be compared by their bytes."""
    assert content_of(write_pprof, small_run()) == content_of(write_pprof, small_run())
    assert text(read_message(gzip.decompress(content_of(write_pprof, small_run()))), 6) != ""
