"""Pools, marks and steps as torch_npu and the module mstx tell them: under the launcher, by import, by a preload."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

import msmemscope
from msmemscope.formats.event_log import Capture
from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.pools import Pool
from tests.support.ascend import PROGRAMS
from tests.support.nightly import nightly
from tests.support.recordings import assert_sound, count, events_of, shadows
from tests.support.targets import environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.ascend.conftest import CompileC, Observe

PROGRAM = "marked_steps.py"
MODES = {
    "task queue 0": {"TASK_QUEUE_ENABLE": "0"},
    "task queue 1": {"TASK_QUEUE_ENABLE": "1"},
    "task queue 2": {"TASK_QUEUE_ENABLE": "2"},
    "expandable segments": {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"},
}
MODES_OF_THE_NIGHT = ("task queue 0", "task queue 1", "expandable segments")
"""`task queue 1` is the default, in which most other tests run. `task queue 0` makes the same calls on the thread of
the program. test_stack_totals.py runs `expandable segments` by day."""
HOOK_LIBRARY = Path(msmemscope.__file__).parent / "lib64" / "libascend_kernel_hook.so"


def messages(capture: Capture, kind: EventKind) -> list[str]:
    """The messages of marks or of beginnings of ranges."""
    chosen = events_of(capture).filter(pl.col("kind") == int(kind))
    return [capture.strings.get(name, "") for name in chosen["name_id"].to_list()]


def check_totals(capture: Capture) -> int:
    """Compare live and reserved bytes of the caching allocator with what each mark says; return how many there are."""
    live = reserved = marks = 0
    for event in events_of(capture).iter_rows(named=True):
        if event["kind"] == EventKind.MARK:
            message = capture.strings.get(event["name_id"], "")
            if message.startswith("totals "):
                assert [live, reserved] == [int(figure) for figure in message.split()[1:]], f"mark {marks}"
                marks += 1
        elif event["pool"] != Pool.PTA:
            continue
        elif event["kind"] == EventKind.RESERVED:
            reserved = event["size"]
        elif event["kind"] in {EventKind.MALLOC, EventKind.FREE}:
            live += event["size"] if event["kind"] == EventKind.MALLOC else -event["size"]
    return marks


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=[nightly] if mode in MODES_OF_THE_NIGHT else []) for mode in MODES]
)
def test_totals_are_those_of_torch(observe: Observe, mode: str) -> None:
    """At each mark, live and reserved bytes are what torch says; workspace is a pool of its own in mode 2 alone."""
    seen = observe(["--device=npu"], PROGRAM, "mstx", variables=MODES[mode])
    assert "tool 4099" in seen.run.stdout
    events = events_of(seen.run.capture)
    assert_sound(events)
    assert check_totals(seen.run.capture) == 11
    totals = events.filter((pl.col("pool") == int(Pool.PTA)) & (pl.col("kind") == int(EventKind.RESERVED)))
    assert (totals["size"].diff().drop_nulls() != 0).all(), "a total was written that had not changed"
    workspace = events.filter(pl.col("pool") == int(Pool.PTA_WORKSPACE))
    if mode != "task queue 2":
        assert workspace.is_empty()
        return
    assert count(workspace, EventKind.MALLOC) == count(workspace, EventKind.FREE) > 0
    assert count(workspace, EventKind.MALLOC, size=18874368) > 0
    held = workspace.filter(pl.col("kind") == int(EventKind.RESERVED))["size"].to_list()
    assert held == [18874368, 0]  # taken once, given back by empty_cache


def run_alone(folder: Path, variables: Mapping[str, str], *arguments: str) -> Capture:
    """Run the program without the launcher; it observes itself."""
    command = [sys.executable, str(PROGRAMS / PROGRAM), *arguments]
    ended = subprocess.run(
        command, cwd=folder, env=environment(**variables), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    (found,) = folder.glob("memscopeDumpResults/msmemscope_*_ascend*")
    return Capture(found)


def pool_sizes(capture: Capture) -> list[tuple[int, int]]:
    """Kinds and sizes of the caching allocator's events."""
    events = events_of(capture).filter(pl.col("pool") == int(Pool.PTA))
    return list(zip(events["kind"].to_list(), events["size"].to_list(), strict=True))


@nightly
@pytest.mark.slow
def test_every_way_in_sees_the_same(observe: Observe, vnpu_environment: dict[str, str], tmp_path: Path) -> None:
    """Under the launcher, by import alone, and with the library preloaded that torch_npu looks for."""
    launched = observe(["--device=npu"], PROGRAM, "torch_npu").run.capture
    for name, variables in {"import": {}, "preload": {"LD_PRELOAD": str(HOOK_LIBRARY)}}.items():
        folder = tmp_path / name
        folder.mkdir()
        capture = run_alone(folder, {**vnpu_environment, **variables}, "torch_npu", "import")
        assert check_totals(capture) == 11
        assert pool_sizes(capture) == pool_sizes(launched)
        for kind in (EventKind.MARK, EventKind.RANGE_START):
            assert messages(capture, kind) == messages(launched, kind)


@pytest.mark.parametrize("imports", ["torch-first", pytest.param("torch-npu-first", marks=nightly)])
def test_marks_of_torch_npu(observe: Observe, imports: str) -> None:
    """torch_npu turns its own marks off while its pools are observed; they are recorded all the same, once each."""
    # By day the process that programs are forked from has imported torch first.
    seen = observe(["--device=npu"], PROGRAM, "torch_npu", imports, anew=imports == "torch-npu-first")
    marks = [mark for mark in messages(seen.run.capture, EventKind.MARK) if not mark.startswith("totals ")]
    assert marks == ["on a stream", "=1+1"]
    ranges = messages(seen.run.capture, EventKind.RANGE_START)
    assert ranges[-4:] == ["outer", "pushed", "annotated", "decorated"]
    events = events_of(seen.run.capture)
    begun = events.filter(pl.col("kind") == int(EventKind.RANGE_START))["extra"].to_list()
    ended = events.filter(pl.col("kind") == int(EventKind.RANGE_END))["extra"].to_list()
    assert begun == list(range(1, len(begun) + 1))
    assert sorted(ended) == begun
    assert ended[-4:] == [begun[-3], begun[-4], begun[-2], begun[-1]]
    rows = {row["Name"].strip('"'): row for row in seen.of(0, event="MSTX")}
    assert rows["on a stream"]["attributes"].keys() == {"streamId"}
    assert rows["'=1+1"]["Event Type"] == "Mark"  # a name that begins like a formula
    assert rows["outer"]["Attr"] == ""


@pytest.mark.parametrize("marks", [pytest.param("mstx", marks=nightly), "torch_npu"])
def test_only_the_chosen_steps_are_collected(observe: Observe, marks: str) -> None:
    """Ranges named "step start" are the steps; what was alive before appears as existing."""
    seen = observe(["--device=npu", "--steps=2,4"], PROGRAM, marks)
    capture = seen.run.capture
    events = events_of(capture)
    assert_sound(events)
    assert messages(capture, EventKind.RANGE_START) == ["step start", "inner 2", "step start", "inner 4"]
    assert len(messages(capture, EventKind.MARK)) == 4
    assert check_totals(capture) == 4
    blocks = events.filter((pl.col("kind") == int(EventKind.MALLOC)) & (pl.col("pool") == int(Pool.PTA)))
    is_shadow = (blocks["flags"] & int(EventFlag.SHADOW)) != 0
    assert sorted(blocks.filter(is_shadow)["size"].to_list()) == [4096, 12288]
    assert {8192, 16384} <= set(blocks.filter(~is_shadow)["size"].to_list())
    assert not {20480, 4096} & set(blocks.filter(~is_shadow)["size"].to_list())


@pytest.mark.parametrize("marks", ["mstx", pytest.param("torch_npu", marks=nightly)])
def test_what_came_before_step_1_is_not_collected(observe: Observe, marks: str) -> None:
    """Step 1 begins with its range: what is alive then appears as existing, as with any other step."""
    capture = observe(["--device=npu", "--steps=1"], PROGRAM, marks).run.capture
    events = events_of(capture)
    assert_sound(events)
    assert messages(capture, EventKind.RANGE_START) == ["step start", "inner 1"]
    assert len(messages(capture, EventKind.MARK)) == 2
    assert check_totals(capture) == 2
    # Figures come when they come, and of host memory every so many bytes, by chance.
    beside = [kind for kind in EventKind if kind.name.startswith("HOST_")] + [
        EventKind.RESERVED,
        EventKind.DEVICE_USAGE,
    ]
    kinds = events.filter(~pl.col("kind").is_in(beside))["kind"].to_list()
    alive = shadows(events, EventKind.MALLOC)
    assert alive.filter(pl.col("pool") == int(Pool.HAL)).height > 0
    assert kinds[: alive.height] == [EventKind.MALLOC] * alive.height
    assert kinds[alive.height] == EventKind.RANGE_START


def test_pools_of_mindspore_and_atb(compile_c: CompileC, observe_c: Observe) -> None:
    """Each tells its heaps and regions in its own way; a C program has steps and marks like any other."""
    program = compile_c("pools.c", "ascendcl", "ascend_hal", "ms_tools_ext")
    seen = observe_c(["--device=npu", "--steps=2,4"], program)
    assert seen.run.stdout.splitlines()[-4:] == ["tool 4099", "heap is its address", "handles 1", "handles 1"]
    blocks = seen.of(1, event="MALLOC", event_type="MINDSPORE")
    assert [int(row["attributes"]["size"]) for row in blocks] == [1024, 2048, 3072, 4096]
    # The total comes after the block: each row has the one before.
    assert [row["attributes"].get("total") for row in blocks] == [None, *3 * [str(1 << 19)]]
    ends = seen.of(1, event="FREE", event_type="MINDSPORE")
    assert [row["attributes"]["total"] for row in ends] == [str(1 << 19), *2 * [str(1 << 18)]]
    assert seen.live_bytes(1, "MINDSPORE") == 4096
    regions = seen.of(1, event="MALLOC", event_type="ATB")
    assert [int(row["attributes"]["size"]) for row in regions] == [8192, 512, 1024] * 2
    assert [int(row["attributes"]["used"]) for row in regions] == [8192, 8704, 9728] * 2
    assert {row["attributes"]["total"] for row in regions} == {"65536"}
    assert seen.live_bytes(1, "ATB") == 0
    assert [row["Name"].strip('"') for row in seen.of(1, event="MSTX", event_type="Mark")] == ["step 2", "step 4"]


def test_no_frame_is_ours_and_every_end_has_its_row(compile_c: CompileC, observe_c: Observe) -> None:
    """Functions that the tool stands in front of call each other; regions end by their handle or by their address."""
    program = compile_c("pools.c", "ascendcl", "ascend_hal", "ms_tools_ext")
    seen = observe_c(["--device=npu", "--call-stack=c"], program, "references")
    stacks = [row["Call Stack(C)"] for row in seen.of(1) if row["Call Stack(C)"]]
    assert any("aclrtSetDevice" in stack and "main+" in stack for stack in stacks)
    assert not [stack for stack in stacks if "libmsmemscope_core" in stack]
    freed = [row["attributes"] for row in seen.of(1, event="FREE", event_type="ATB")]
    regions = [row["attributes"] for row in seen.of(1, event="MALLOC", event_type="ATB")]
    assert len(regions) == 6 + 1 + 5000
    assert sorted(int(block["allocation_id"]) for block in freed) == [int(block["allocation_id"]) for block in regions]
    assert not [block for block in freed if "shadow" in block]


def test_other_devices_are_left_out(compile_c: CompileC, observe_c: Observe) -> None:
    """Work of the program on a device that was not asked for leaves no row."""
    program = compile_c("pools.c", "ascendcl", "ascend_hal", "ms_tools_ext")
    assert "1" not in observe_c(["--device=npu:0"], program).rows


def test_devices_have_the_numbers_of_the_driver(compile_c: CompileC, observe_c: Observe) -> None:
    """Device 1 of the program is device 2 of the driver."""
    program = compile_c("pools.c", "ascendcl", "ascend_hal", "ms_tools_ext")
    variables = {"ASCEND_RT_VISIBLE_DEVICES": "3,2", "VNPU_DEVICES": "4"}
    moved = observe_c(["--device=npu:2"], program, variables=variables)
    assert moved.of(2, event="MALLOC", event_type="MINDSPORE")
    assert moved.of(2, event="MSTX", event_type="Mark")
    assert set(moved.rows) == {"2"}
