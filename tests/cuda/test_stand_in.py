"""Blocks, driver memory and failures of CUDA devices, from a stand-in that calls what libc10_cuda.so calls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.cli.main import main
from msmemscope.formats.reading import load
from msmemscope.model.devices import DEVICE_CPU, DeviceKind, device_number
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.support.recordings import assert_sound, events_of

if TYPE_CHECKING:
    from msmemscope.formats.event_log import Capture
    from tests.cuda.conftest import ObserveCuda

FIRST = device_number(DeviceKind.CUDA, 0)
SECOND = device_number(DeviceKind.CUDA, 1)
TWO_DEVICES = {"EMULATED_CUDA_DEVICES": "2"}


MARKS = ["RANGE_START step start", "MARK loaded", "RANGE_START outer", "RANGE_START inner"] + ["RANGE_END"] * 3


def marks_of(capture: Capture) -> list[str]:
    """The kind and the message of each mark and range."""
    kinds = [int(kind) for kind in (EventKind.MARK, EventKind.RANGE_START, EventKind.RANGE_END)]
    found = events_of(capture).filter(pl.col("kind").is_in(kinds)).select("kind", "name_id")
    return [
        f"{EventKind(kind).name} {capture.strings[name] if name else ''}".strip() for kind, name in found.iter_rows()
    ]


def rows(events: pl.DataFrame, *kinds: EventKind, pool: Pool = Pool.CUDA) -> list[tuple[EventKind, int, int, int]]:
    """The events of some kinds of a pool: kind, device, address, size."""
    found = events.filter(pl.col("kind").is_in([int(kind) for kind in kinds]) & (pl.col("pool") == int(pool)))
    return [
        (EventKind(kind), device, address, size)
        for kind, device, address, size in found.select("kind", "device", "address", "size").iter_rows()
    ]


def test_blocks_and_what_is_reserved(observe_stand_in: ObserveCuda) -> None:
    """Each block with its device, address and size, in order; the pool's bytes before the block that needs them."""
    run = observe_stand_in("stand_in.py", observe_stand_in.runtime.allocator, "blocks", variables=TWO_DEVICES)
    first, again = int(run.report["first"]), int(run.report["again"])
    assert first == again
    events = events_of(run.capture)
    assert_sound(events)
    blocks = [row for row in rows(events, EventKind.MALLOC, EventKind.FREE) if row[1:] != (SECOND, 0, 0)]
    on_first = [row for row in blocks if row[1] == FIRST]
    assert on_first[:3] == [
        (EventKind.MALLOC, FIRST, first, 1024),
        (EventKind.FREE, FIRST, first, 1024),
        (EventKind.MALLOC, FIRST, again, 1024),
    ]
    assert [row[3] for row in blocks if row[1] == SECOND and row[0] == EventKind.MALLOC] == [3 << 20]
    reserved = rows(events, EventKind.RESERVED)
    assert [(device, size) for _, device, _, size in reserved] == [(FIRST, 1024), (SECOND, 3 << 20)]
    driver = rows(events, EventKind.MALLOC, pool=Pool.HAL)
    assert [(device, size) for _, device, _, size in driver] == [(FIRST, 1024), (SECOND, 3 << 20)]


def test_visible_devices(observe_stand_in: ObserveCuda) -> None:
    """A device has the number that the driver gives it; another that is not observed is said to be left out."""
    run = observe_stand_in(
        "stand_in.py",
        observe_stand_in.runtime.allocator,
        "blocks",
        options=("--device=cuda:5",),
        variables={**TWO_DEVICES, "CUDA_VISIBLE_DEVICES": "5,3"},
    )
    assert {device for _, device, _, _ in rows(events_of(run.capture), EventKind.MALLOC)} == {
        device_number(DeviceKind.CUDA, 5)
    }
    assert "cuda:3" in run.stderr
    assert "nothing found" not in run.stderr


def test_a_leak_is_named(observe_stand_in: ObserveCuda) -> None:
    """The first line says how much leaks, where, and by how much per step."""
    run = observe_stand_in("stand_in.py", observe_stand_in.runtime.allocator, "leak")
    first = " ".join(run.stderr.split("next:")[0].split())
    assert "10.0 MiB in 10 blocks on cuda:0 at" in first
    assert "stand_in.py(34): keep, 1.00 MiB per step" in first


def test_a_segment_that_grows(observe_stand_in: ObserveCuda) -> None:
    """Functions of the driver that a library has from their entry points are observed too."""
    run = observe_stand_in("stand_in.py", observe_stand_in.runtime.allocator, "mapped")
    handle, address = int(run.report["handle"]), int(run.report["address"])
    events = events_of(run.capture)
    assert rows(events, EventKind.MALLOC, EventKind.FREE, pool=Pool.HAL) == [
        (EventKind.MALLOC, FIRST, handle, 2 << 20),
        (EventKind.FREE, FIRST, handle, 2 << 20),
    ]
    mapped = events.filter(pl.col("kind").is_in([int(EventKind.MAPPED), int(EventKind.UNMAPPED)]))
    assert mapped["address"].to_list() == [address, address]
    assert mapped["size"].to_list()[0] == 2 << 20


def test_blocks_of_the_asynchronous_backend(observe_stand_in: ObserveCuda) -> None:
    """They are torch's blocks, and not the driver's besides."""
    run = observe_stand_in("stand_in.py", observe_stand_in.runtime.allocator, "asynchronous")
    events = events_of(run.capture)
    found = rows(events, EventKind.MALLOC, EventKind.FREE)
    assert [(kind, size) for kind, _, _, size in found][:3] == [
        (EventKind.MALLOC, 5000),
        (EventKind.FREE, 5000),
        (EventKind.MALLOC, 7000),
    ]
    assert rows(events, EventKind.MALLOC, pool=Pool.HAL) == []


@pytest.mark.parametrize(
    ("variables", "function"),
    [
        pytest.param({"EMULATED_CUDA_BYTES": str(100 << 20)}, "cudaMalloc", id="the device has no more"),
        pytest.param({"EMULATED_CUDA_LIMIT": str(20 << 20)}, "torch.cuda", id="a limit of torch"),
    ],
)
def test_each_failure_is_recorded_once(observe_stand_in: ObserveCuda, variables: dict[str, str], function: str) -> None:
    """By the driver's status, or by torch's report where no driver was asked, each time that it happens."""
    run = observe_stand_in("stand_in.py", observe_stand_in.runtime.allocator, "exhausted", variables=variables)
    events = events_of(run.capture)
    failures = events.filter(pl.col("kind") == int(EventKind.OOM))
    assert failures["device"].to_list() == [FIRST] * 3
    assert failures["size"].to_list() == [1 << 20] * 3
    assert [run.capture.strings[number] for number in failures["name_id"]] == [function] * 3
    assert run.stderr.lstrip().startswith("msmemscope: out of memory on cuda:0")


def test_a_failure_has_the_figures_of_its_moment(observe_stand_in: ObserveCuda) -> None:
    """Also where the management library is slow, and so is not asked at each allocation."""
    variables = {"EMULATED_CUDA_BYTES": str(100 << 20), "EMULATED_NVML_DELAY_US": "3000"}
    run = observe_stand_in("stand_in.py", observe_stand_in.runtime.allocator, "exhausted", variables=variables)
    events = events_of(run.capture)
    failure = events.filter(pl.col("kind") == int(EventKind.OOM))["sequence"][0]
    usage = events.filter((pl.col("kind") == int(EventKind.DEVICE_USAGE)) & (pl.col("sequence") < failure))
    driver = events.filter((pl.col("pool") == int(Pool.HAL)) & (pl.col("sequence") < failure))["size"].sum()
    assert usage.height < 36, "fewer than there are allocations"
    assert usage["extra"][-1] == driver + (64 << 20)
    first = " ".join(run.stderr.split("next:")[0].split())
    assert "out of memory on cuda:0" in first
    assert "other process" not in first


def test_memory_of_the_driver(observe_stand_in: ObserveCuda) -> None:
    """Whoever calls it, linked or by its name; pinned memory is the host's."""
    run = observe_stand_in("stand_in.py", observe_stand_in.runtime.allocator, "driver")
    found = rows(events_of(run.capture), EventKind.MALLOC, EventKind.FREE, pool=Pool.HAL)
    devices = [FIRST, FIRST, FIRST, DEVICE_CPU, FIRST]
    assert [(kind, device) for kind, device, _, _ in found] == [
        (kind, device) for device in devices for kind in (EventKind.MALLOC, EventKind.FREE)
    ]
    assert {size for _, _, _, size in found} == {4096}


def test_what_the_device_and_the_process_use(observe_stand_in: ObserveCuda, capsys: pytest.CaptureFixture[str]) -> None:
    """By the management library: the context of the process counts, which no allocation tells of."""
    run = observe_stand_in("stand_in.py", observe_stand_in.runtime.allocator, "leak_for_a_while")
    usage = events_of(run.capture).filter(pl.col("kind") == int(EventKind.DEVICE_USAGE))
    context = 64 << 20
    assert context + (13 << 20) <= max(usage["size"].to_list()) <= context + (16 << 20)
    assert (usage["extra"] == usage["size"]).all()
    assert run.capture.facts["device.name"] == ("cuda:0 Emulated GPU A",)
    assert run.capture.facts["software.cuda_driver"] == ("580.1",)
    assert main(["analyze", "card", str(run.capture.directory), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    parts = answer["processes"][0]["result"]["parts"]
    assert {part["part"]: part["peak_bytes"] for part in parts}["not recorded"] == context


def test_memory_that_other_libraries_ask_for(observe_stand_in: ObserveCuda, capsys: pytest.CaptureFixture[str]) -> None:
    """By the file of the library, with the line that led to it. The pool counts as it was in use before the blocks went."""
    runtime = observe_stand_in.runtime
    run = observe_stand_in("stand_in.py", runtime.allocator, "connect", runtime.communicator)
    assert main(["analyze", "card", str(run.capture.directory), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)["processes"][0]["result"]
    found = {(part["part"], part["name"]): part["peak_bytes"] for part in result["parts"]}
    assert found[("module", "libnccl.so.2")] == 8 << 20
    assert found[("pool in use", "CUDA")] == 65 << 20
    assert ("pool, not in use", "CUDA") not in found
    assert found[("unknown", "")] == 0
    (site,) = result["sites"]
    assert (site["module"], site["size_bytes"]) == ("libnccl.so.2", 8 << 20)
    assert site["site"].endswith("stand_in.py(97): connect")


def test_kernels_that_are_launched(observe_stand_in: ObserveCuda) -> None:
    """Each with its name, as people write it, and its stream; without `--level=kernel` none are recorded."""
    run = observe_stand_in("stand_in.py", observe_stand_in.runtime.allocator, "kernels", options=("--level=kernel",))
    launched = events_of(run.capture).filter(pl.col("kind") == int(EventKind.KERNEL_LAUNCH))
    assert {run.capture.strings[number] for number in launched["name_id"]} == {"add(float*, int)"}
    assert (launched["extra"] // (1 << 32)).to_list() == [2, 2, 2, 0]
    assert set(launched["device"]) == {FIRST}


def test_the_last_error_of_the_runtime_is_the_program_s(observe_stand_in: ObserveCuda) -> None:
    """A question of ours that the runtime cannot answer leaves none: PyTorch would raise it."""
    run = observe_stand_in("stand_in.py", observe_stand_in.runtime.allocator, "unnamed", options=("--level=kernel",))
    assert run.report == {"error": "0"}
    launched = events_of(run.capture).filter(pl.col("kind") == int(EventKind.KERNEL_LAUNCH))
    assert launched["name_id"].to_list() == [0]


def test_marks_and_ranges(observe_stand_in: ObserveCuda) -> None:
    """Those of the program are recorded, and ranges "step start" are its steps."""
    run = observe_stand_in("marks.py", observe_stand_in.runtime.marks)
    assert run.report == {"depths": "0,1,1,0", "empty": "-1"}
    assert marks_of(run.capture) == MARKS * 2
    assert load(run.capture.directory).steps.height == 2


def test_marks_that_another_tool_gets(observe_stand_in: ObserveCuda) -> None:
    """It was asked for, so it stays."""
    variables = {"NVTX_INJECTION64_PATH": "/opt/another_tool.so"}
    run = observe_stand_in("marks.py", observe_stand_in.runtime.marks, variables=variables)
    assert run.report == {"depths": "-2,-2,-2,-2", "empty": "-2"}
    assert "nothing was recorded" in run.stderr
