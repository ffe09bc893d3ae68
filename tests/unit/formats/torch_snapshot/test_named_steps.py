"""Steps that the program of a snapshot names: they are found, and no event loses its partner by them."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.formats.reading import load
from msmemscope.formats.torch_snapshot.named_steps import StepEnd, named_steps, with_steps
from msmemscope.model.events import EventKind
from msmemscope.recording import EVENT_SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


def entry(action: str, place: int, time_us: int, metadata: str = "") -> dict[str, Any]:
    """One entry of a history."""
    return {
        "action": action, "addr": 0x7000000000 + place * MIB, "size": MIB, "stream": 0, "time_us": time_us, "frames": [],
        "user_metadata": metadata,
    }  # fmt: skip


def history(describe: str = "") -> list[dict[str, Any]]:
    """Steps 7 to 12, 100 us each: a block is kept, and another one freed."""
    entries = []
    for number in range(7, 13):
        start, text = number * 100, describe.format(number)
        entries += [
            entry("alloc", 2 * number, start + 10, text),
            entry("alloc", 2 * number + 1, start + 20, text),
            entry("free_requested", 2 * number + 1, start + 30, text),
            entry("free_completed", 2 * number + 1, start + 40, text),
        ]
    return entries


def ranges(text: str) -> list[dict[str, Any]]:
    """The ranges of the same steps on two devices, and others inside."""
    return [
        {"stage": stage, "name": name, "device": device, "time_us": number * 100 + time}
        for number in range(7, 13)
        for device in (0, 1)
        for stage, name, time in (
            ("START", text.format(number), 5), ("START", "## forward ##", 15), ("END", "## forward ##", 25),
            ("END", text.format(number), 50),
        )
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["ProfilerStep#{}", "## step {} ##", "Iteration: {}", "train/iter={}"])
def test_annotations(tmp_path: Path, text: str) -> None:
    """Each step has its blocks; the program's own numbers are told."""
    file = tmp_path / "snapshot.pickle"
    content = {"segments": [], "device_traces": [history()], "external_annotations": ranges(text)}
    file.write_bytes(pickle.dumps(content))
    recording = load(file)
    assert recording.steps["number"].to_list() == [*range(1, 7)]
    assert "steps as the program names them: step 1 here is its step 7" in recording.coverage
    counts = [
        recording.events.filter(
            (pl.col("kind") == int(EventKind.MALLOC))
            & pl.col("sequence").is_between(step["begin_sequence"], step["end_sequence"])
        ).height
        for step in recording.steps.iter_rows(named=True)
    ]
    assert counts == [2] * 6
    assert recording.blocks.filter(pl.col("free_sequence").is_not_null()).height == 6


def test_metadata(tmp_path: Path) -> None:
    """The last step has not ended: nothing says so."""
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps({"segments": [], "device_traces": [history("epoch 3, step {}")]}))
    assert load(file).steps.height == 5


@pytest.mark.parametrize("text", ["layer {}", "footstep{}", "step", "step {}x", "stepwise 1"])
def test_other_texts(text: str) -> None:
    """No step is made of what is none."""
    content = {"external_annotations": ranges(text)}
    assert named_steps(content, [history(text)]) == []


@pytest.mark.parametrize(
    "odd",
    [
        None, "text", [1, None, {}], [{"stage": "END"}], [{"stage": "END", "name": 3, "device": 0, "time_us": 1}],
        [{"stage": "END", "name": f"step {n}", "device": 0, "time_us": -n} for n in range(3)],
        [{"stage": "END", "name": f"step {n}", "device": 0, "time_us": 2**70} for n in range(3)],
        [{"stage": "END", "name": f"step {3 - n}", "device": 0, "time_us": n} for n in range(3)],
        [{"stage": "END", "name": f"step {n}", "device": [], "time_us": n} for n in range(3)],
    ],
)  # fmt: skip
def test_odd_annotations(odd: object) -> None:
    """Anything can stand in a pickle: such a thing is no step."""
    assert named_steps({"external_annotations": odd}, [[None, 3, {"user_metadata": []}]]) == []


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=20).map(sorted),
    st.lists(st.integers(0, 60), max_size=8).map(sorted),
)
def test_partners_stay_partners(times: list[int], ends: list[int]) -> None:
    """Against the definition: each event stands behind the steps that ended before it, and refers to the same event."""
    partners = [(number * 7) % (number + 1) for number in range(len(times))]
    events = pl.DataFrame(
        {"sequence": range(1, len(times) + 1), "timestamp_ns": times, "address": range(len(times)), "extra": partners}
    )
    absent = [pl.lit(0).alias(name) for name in EVENT_SCHEMA if name not in events.columns]
    events = events.with_columns(absent).select(EVENT_SCHEMA.names()).cast(EVENT_SCHEMA)
    found = with_steps(events, [StepEnd(number, time) for number, time in enumerate(ends)])
    if not max(times):
        assert found.equals(events)
        return
    assert found["sequence"].to_list() == [*range(1, len(times) + len(ends) + 1)]
    is_step = pl.col("kind") == int(EventKind.STEP)
    expected = sorted([(time, 0, place) for place, time in enumerate(times)] + [(time, 1, -1) for time in ends])
    assert found["timestamp_ns"].to_list() == [time for time, _, _ in expected]
    addresses = dict(found.filter(~is_step).select("sequence", "address").iter_rows())
    for row in found.filter(~is_step).iter_rows(named=True):
        partner = partners[row["address"]]
        assert addresses[row["extra"]] == partner - 1 if partner else row["extra"] == 0
