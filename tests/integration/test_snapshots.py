"""Snapshots of the cpu and of GPUs, and a CPU tensor for which there is no memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from msmemscope.cli.main import main
from msmemscope.model.devices import DEVICE_CPU, DeviceKind, device_number
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.support.ascend import attributes
from tests.support.recordings import assert_sound, events_of
from tests.support.targets import SOURCES
from tests.support.tool import run
from tests.support.warm import run_observed, run_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from msmemscope.formats.event_log import Capture
    from tests.conftest import RunUnderTool

KEYS = ["reserved", "max_reserved", "allocated", "total", "free", "device_rate", "reserved_rate"]


def snapshots(capture: Capture) -> list[dict[str, Any]]:
    """The snapshots of a capture: name, device, sequence, and the figures by name."""
    found = events_of(capture).filter(pl.col("kind") == int(EventKind.SNAPSHOT))
    texts = dict(capture.string_frame(found["attribute_id"]).iter_rows())
    return [
        {
            "name": capture.strings[row["name_id"]],
            "device": row["device"],
            "sequence": row["sequence"],
            "figures": attributes("{" + texts[row["attribute_id"]] + "}"),
        }
        for row in found.iter_rows(named=True)
    ]


def line_of(program: str, text: str) -> str:
    """A place in a target program as stacks show it: `name.py(12)`."""
    lines = (SOURCES / f"{program}.py").read_text().splitlines()
    (number,) = [index for index, line in enumerate(lines, start=1) if text in line]
    return f"{program}.py({number})"


def live_bytes_at(events: pl.DataFrame, sequence: int) -> int:
    """Bytes of CPU tensors that are alive right before an event."""
    before = events.filter((pl.col("sequence") < sequence) & (pl.col("pool") == int(Pool.HOST)))
    sizes = before.group_by("kind").agg(pl.col("size").sum())
    by_kind: dict[int, int] = dict(sizes.iter_rows())
    return by_kind.get(int(EventKind.MALLOC), 0) - by_kind.get(int(EventKind.FREE), 0)


@pytest.mark.torch
def test_every_way_to_take_one(output: Path) -> None:
    """Calls, with-blocks, functions, coroutines and generators; by an exception too; figures are those of the moment."""
    seen = run_observed([SOURCES / "snapshots.py"], output=output)
    assert "yielded [1, 2]" in seen.stdout
    assert "raised 'x'" in seen.stdout
    taken = snapshots(seen.capture)
    pairs = ("with", "function", "coroutine", "generator", "raising")
    expected = ["one", *(f"{name} {end}" for name in pairs for end in ("Start", "End")), "mask\\n", "Memory Snapshot"]
    assert [snapshot["name"] for snapshot in taken] == expected
    events = events_of(seen.capture)
    for snapshot in taken:
        figures = snapshot["figures"]
        assert snapshot["device"] == DEVICE_CPU
        assert list(figures) == KEYS
        assert int(figures["allocated"]) == live_bytes_at(events, snapshot["sequence"])
        assert 0 < int(figures["reserved"]) <= int(figures["max_reserved"])
        total, free = int(figures["total"]), int(figures["free"])
        assert 0 < free < total
        assert figures["device_rate"] == f"{(total - free) / total * 100:.6f}"
        assert figures["reserved_rate"] == f"{int(figures['allocated']) / int(figures['reserved']) * 100:.6f}"
    grown = int(taken[2]["figures"]["allocated"]) - int(taken[1]["figures"]["allocated"])
    assert grown == 2 << 20
    assert seen.stderr.count("msmemscope: snapshot of device 0: the program has no accelerator") == 1


@pytest.mark.torch
def test_without_start_and_without_the_launcher(output: Path, python_target: Callable[..., list[str | Path]]) -> None:
    """The first snapshot opens the log, nothing else is collected, and the dump is written at exit."""
    seen = run(python_target("snapshots", str(output)), output=output)
    assert seen.returncode == 0, seen.stderr
    assert len(snapshots(seen.capture)) == 13
    assert set(events_of(seen.capture)["kind"].to_list()) == {int(EventKind.SNAPSHOT)}
    (dump,) = seen.capture.directory.glob("device_cpu/dump/*.csv")
    rows = pl.read_csv(dump, infer_schema=False)
    assert rows["Event"].to_list() == ["SNAPSHOT"] * 13
    assert set(rows["Device Id"].to_list()) == {"cpu"}


def test_gpus(output: Path, python_target: Callable[..., list[str | Path]], capsys: pytest.CaptureFixture[str]) -> None:
    """A GPU that the program uses is asked, others are not; a failure is observed once, however often one starts."""
    seen = run(python_target("cuda_stand_in", str(output)), output=output, variables={"CUDA_VISIBLE_DEVICES": "4,5,6"})
    assert seen.returncode == 0, seen.stderr
    assert "touched" not in seen.stdout
    assert "no such device: '3' (accepted: 0 to 2)" in seen.stdout
    taken = snapshots(seen.capture)
    full = {
        "reserved": "4000", "max_reserved": "5000", "allocated": "1000", "max_allocated": "2000", "total": "16000",
        "free": "6000", "device_rate": "62.500000", "reserved_rate": "25.000000",
    }  # fmt: skip
    accelerators = [snapshot for snapshot in taken if snapshot["device"] != DEVICE_CPU]
    none = dict.fromkeys(("reserved", "max_reserved", "allocated", "max_allocated"), "0") | {
        "reserved_rate": "0.000000"
    }
    assert [(snapshot["name"], snapshot["device"], snapshot["figures"]) for snapshot in accelerators] == [
        ("all", device_number(DeviceKind.CUDA, 4), none),
        ("all", device_number(DeviceKind.CUDA, 5), full),
        ("all", device_number(DeviceKind.CUDA, 6), none),
        ("unused", device_number(DeviceKind.CUDA, 6), none),
        ("OOM_Snapshot After", device_number(DeviceKind.CUDA, 5), full),
    ]
    assert list(accelerators[1]["figures"]) == list(full)
    (failure,) = events_of(seen.capture).filter(pl.col("kind") == int(EventKind.OOM)).iter_rows(named=True)
    assert (failure["size"], failure["device"], failure["extra"]) == (1 << 30, device_number(DeviceKind.CUDA, 5), 0)
    assert failure["python_stack_id"] > 0
    # Its blocks are not recorded: what torch holds counts. The device had less than was asked for: that is no limit of torch.
    assert main(["analyze", "oom", str(seen.capture.directory)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "One large block: the 1.00 GiB asked for at once and 1000 bytes in use by the pools" in said
    assert "exceed the 15.6 KiB of the device by 1.00 GiB" in said


def test_devices_that_cannot_be_observed(run_under_tool: RunUnderTool) -> None:
    """A line says so for kinds without a source, and for a kind whose libraries the program did not load."""
    said = " ".join(run_under_tool(["python", "-c", "print('done')"], "--device=cuda:1,xpu").stderr.split())
    assert "xpu not observed: allocations are not recorded while a program runs, snapshots and failed" in said
    assert "cuda:1 not observed: the program loaded no library of CUDA (--device=cpu observes CPU tensors)" in said
    assert "CANN is set up" not in said


def test_a_program_need_not_use_every_device(run_under_tool: RunUnderTool) -> None:
    """Where the cpu is observed too, nothing is said of CUDA devices that the program does not use."""
    said = run_under_tool(["python", "-c", "print('done')"], "--device=cuda,cpu").stderr
    assert "not observed" not in said


@pytest.mark.torch
def test_cpu_tensor_without_memory(
    run_under_tool: RunUnderTool, python_target: Callable[..., list[str | Path]], output: Path
) -> None:
    """The error is torch's own, collection goes on, and the dump says what was alive."""
    command = python_target("cpu_out_of_memory")
    alone = run_python(command[1:], output=output, variables={})
    seen = run_under_tool(command, "--analysis=oom:2")
    assert alone.stdout.startswith("caught: "), alone.stderr
    assert seen.stdout.startswith(alone.stdout)
    events = events_of(seen.capture)
    assert_sound(events)
    (failure,) = events.filter(pl.col("kind") == int(EventKind.OOM)).iter_rows(named=True)
    assert (failure["size"], failure["device"], failure["extra"]) == (64 << 30, DEVICE_CPU, 2)
    gap = events.filter(pl.col("sequence") > failure["sequence"])["sequence"].min()
    assert isinstance(gap, int)
    assert gap > failure["sequence"] + 4
    assert events.filter((pl.col("kind") == int(EventKind.MALLOC)) & (pl.col("size") == 5 << 20)).height == 1
    (dump,) = seen.capture.directory.glob("device_cpu/dump/*.csv")
    rows = pl.read_csv(dump, infer_schema=False).fill_null("").to_dicts()
    by_type = {
        kind: [row for row in rows if row["Event Type"] == kind]
        for kind in ("SNAPSHOT", "OOM_TRIGGER", "OOM_RECENT_ALLOC", "OOM_TOP_ALLOC")
    }
    (trigger,) = by_type["OOM_TRIGGER"]
    assert attributes(trigger["Attr"]) == {"func": "posix_memalign", "req_size": str(64 << 30), "flag": "0"}
    assert f"{line_of('cpu_out_of_memory', 'torch.empty(TOO_MUCH')}: too_much" in trigger["Call Stack(Python)"]
    assert "libc10.so" in trigger["Call Stack(C)"]
    (snapshot,) = by_type["SNAPSHOT"]
    assert snapshot["Name"] == "OOM_Snapshot"
    assert int(attributes(snapshot["Attr"])["allocated"]) == live_bytes_at(events, int(snapshot["ID"]))
    sizes = {
        kind: [int(attributes(row["Attr"])["size"]) >> 20 for row in found]
        for kind, found in by_type.items()
        if "ALLOC" in kind
    }
    assert sizes == {"OOM_RECENT_ALLOC": [10, 50], "OOM_TOP_ALLOC": [50, 30]}
    kept = line_of("cpu_out_of_memory", "for size in (30, 50, 10)")
    assert all(kept in row["Call Stack(Python)"] for row in by_type["OOM_TOP_ALLOC"])
    verdict = " ".join(seen.stderr.split()).partition("next:")[0]
    assert "msmemscope: out of memory on cpu: one large block, 64.0 GiB at " in verdict
    assert verdict.endswith("(64.0 GiB refused) ")
