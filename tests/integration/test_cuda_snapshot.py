"""A memory snapshot of torch.cuda, made by hand from torch's documented layout, is answered in CUDA's words."""

from __future__ import annotations

import json
import pickle
import re
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pytest

import msmemscope
from msmemscope.analysis.owners.decomposition import decompose
from msmemscope.cli.main import main
from msmemscope.model.devices import DeviceKind, device_name, device_number
from msmemscope.model.pools import Pool

if TYPE_CHECKING:
    from pathlib import Path

MIB: Final = 1 << 20
SEGMENT: Final = 0x7F0000000000
ALLOCATOR: Final = {"filename": "/torch/csrc/cuda/CUDACachingAllocator.cpp", "line": 3, "name": "malloc"}
MODULE: Final = {"filename": "train.py", "line": 80, "name": "<module>"}
FORWARD: Final = [ALLOCATOR, {"filename": "train.py", "line": 40, "name": "forward"}, MODULE]
LEAK: Final = [ALLOCATOR, {"filename": "train.py", "line": 55, "name": "leak"}, MODULE]
BATCHES: Final = 6
DEVICE: Final = 2
OF_ANOTHER_VENDOR: Final = re.compile(r"\bnpu|\bcann\b|\bhal\b|\bpta\b|ascend", re.IGNORECASE)
ANALYSES: Final = ("peak", "leaks", "decompose", "oom", "growth", "inefficient", "operators")


def cuda_snapshot() -> dict[str, Any]:
    """Six blocks of 2 MiB that stay in a segment of 20 MiB, beside others that went; then 40 MiB are refused."""
    trace: list[dict[str, Any]] = []

    def add(action: str, address: int, size: int, frames: list[dict[str, Any]], **more: Any) -> None:
        time_us = 1_700_000_000_000_000 + 10 * len(trace)
        trace.append(
            {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time_us, "frames": frames, **more}
        )

    add("segment_alloc", SEGMENT, 20 * MIB, FORWARD)
    blocks = []
    for batch in range(BATCHES):
        kept = SEGMENT + 2 * MIB * batch
        add("alloc", kept, 2 * MIB, LEAK)
        blocks.append({"address": kept, "size": 2 * MIB, "requested_size": 2 * MIB - 100, "state": "active_allocated"})
        for action in ("alloc", "free_requested", "free_completed"):
            add(action, kept + 2 * MIB, MIB, FORWARD)
    add("oom", 0, 40 * MIB, FORWARD, device_free=8 * MIB)
    end = SEGMENT + 2 * MIB * BATCHES
    blocks.append({"address": end, "size": SEGMENT + 20 * MIB - end, "requested_size": 0, "state": "inactive"})
    segment = {
        "device": DEVICE, "address": SEGMENT, "total_size": 20 * MIB, "stream": 0, "segment_type": "large",
        "segment_pool_id": (0, 0), "is_expandable": False, "frames": FORWARD,
        "blocks": [{**block, "frames": LEAK} for block in blocks],
    }  # fmt: skip
    return {
        "segments": [segment],
        "device_traces": [[], [], trace],
        "allocator_settings": {},
        "external_annotations": [],
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The snapshot as torch.cuda.memory._dump_snapshot writes it."""
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps(cuda_snapshot()))
    return file


def test_every_answer_is_in_words_of_cuda(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in a report or in JSON is another vendor's."""
    for analysis in ANALYSES:
        for form in ((), ("--json",)):
            main(["analyze", analysis, str(path), *form])
            printed = capsys.readouterr()
            assert not OF_ANOTHER_VENDOR.search(printed.out + printed.err), (analysis, printed)
            if form:
                json.loads(printed.out)


def test_peak_and_failure(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The largest total of the history, the refused allocation, and the gaps that were too small for it."""
    assert main(["analyze", "peak", str(path)]) == 0
    printed = capsys.readouterr().out
    first, *_ = printed.splitlines()
    assert first == "Out of memory on cuda:2: 40.0 MiB asked for, 12.0 MiB in 6 blocks in use"
    assert "The peak was 13.0 MiB" in printed
    assert re.search(r"12\.0 MiB +6 +20\.0 MiB +CUDA\n", printed)
    assert "train.py(55): leak" in printed
    assert "8.00 MiB in gaps too small for 40.0 MiB" in printed


def test_the_ledger_sums(path: Path) -> None:
    """The allocator holds all of the driver's memory, and nothing is unknown."""
    recording = msmemscope.load(path)
    device = device_number(DeviceKind.CUDA, DEVICE)
    assert device_name(device) == "cuda:2"
    assert set(recording.blocks["device"]) == {device}
    assert set(recording.blocks["pool"]) == {Pool.HAL, Pool.CUDA}
    ledger = decompose(recording).ledger_at_peak(device)
    assert dict(ledger.select("part", "size_bytes").rows()) == {"pool": 20 * MIB, "unknown": 0}


def test_a_device_is_chosen_by_its_name(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`cuda:2` is there, `npu:2` and the second CUDA device are not."""
    assert main(["analyze", "peak", str(path), "--device=cuda:2"]) == 0
    assert "cuda:2" in capsys.readouterr().out
    for other in ("npu:2", "cuda:1"):
        main(["analyze", "peak", str(path), f"--device={other}"])
        assert f"no memory of {other} was recorded" in capsys.readouterr().out


OLDER: Final = 0x7E0000000000


def test_the_screen_of_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Blocks older than the history are called so. Lines are the program's, and no table repeats another.

    A snapshot has no operators. Of the driver's memory it has only the segments of its one pool.
    """
    content = cuda_snapshot()
    content["device_traces"][DEVICE].pop()  # the failure
    for frames in (FORWARD, LEAK):
        frames_of_library = {"filename": "site-packages/einops/einops.py", "line": 916, "name": "einsum"}
        for entry in content["device_traces"][DEVICE]:
            if entry["frames"] == frames:
                entry["frames"] = [ALLOCATOR, frames_of_library, *frames[1:]]
    older = {"address": OLDER, "size": 30 * MIB, "requested_size": 30 * MIB, "state": "active_allocated", "frames": []}
    content["segments"].append(
        {**content["segments"][0], "address": OLDER, "total_size": 30 * MIB, "frames": [], "blocks": [older]}
    )
    file = tmp_path / "older.pickle"
    file.write_bytes(pickle.dumps(content))
    assert main(["summary", str(file)]) == 0
    screen = capsys.readouterr().out
    assert re.search(r"\(allocated before recording began\) +30\.0 MiB +1\n", screen), screen
    assert re.search(r"train\.py\(55\): leak +12\.0 MiB +6\n", screen), screen
    assert "Peak on cuda:2 (CUDA): 43.0 MiB in 8 blocks, 50.0 MiB reserved\n" in screen
    for absent in ("(no Python stack)", "outside operators", "einops", "(driver)"):
        assert absent not in screen, absent


def test_the_largest_blocks_at_a_failure_of_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The one that is older than the history is called so, too; nothing is said of a function that has no name."""
    content = cuda_snapshot()
    older = {"address": OLDER, "size": 30 * MIB, "requested_size": 30 * MIB, "state": "active_allocated", "frames": []}
    content["segments"].append(
        {**content["segments"][0], "address": OLDER, "total_size": 30 * MIB, "frames": [], "blocks": [older]}
    )
    file = tmp_path / "failed.pickle"
    file.write_bytes(pickle.dumps(content))
    assert main(["summary", str(file)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "40.0 MiB asked for; 42.00 MiB in use + 8.00 MiB reserved and idle = 50.00 MiB of the pool; 8.00 MiB of the"
        in said
    )
    assert main(["analyze", "oom", str(file)]) == 0
    report = capsys.readouterr().out
    assert "  an allocation failed, called from train.py(40): forward\n" in report
    assert re.search(r"30\.0 MiB +1 +\(allocated before recording began\)\n", report.partition("largest blocks")[2]), (
        report
    )


def test_a_limit_that_refuses_what_the_device_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More was free on the device than was asked for: a limit refused, and the larger batch is the cause behind it."""
    content = cuda_snapshot()
    content["device_traces"][DEVICE][-1]["device_free"] = 138 << 30
    file = tmp_path / "limited.pickle"
    file.write_bytes(pickle.dumps(content))
    assert main(["summary", str(file)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "out of memory on cuda:2: batch jump" in said
    assert "138 GiB of the device were free, so a limit refused it (of torch, or a quota)" in said
    assert "unknown" not in said


def test_blocks_that_name_no_pool_have_that_of_their_segment(tmp_path: Path) -> None:
    """Segments at the end tell it. A segment that was there before, at the same address, was another one."""
    content = cuda_snapshot()
    earlier = {"action": "alloc", "addr": SEGMENT, "size": MIB, "stream": 0, "frames": LEAK}
    content["device_traces"][DEVICE][:0] = [
        {**earlier, "action": "segment_alloc", "size": 2 * MIB},
        earlier,
        {**earlier, "action": "free_requested"},
        {**earlier, "action": "free_completed"},
        {**earlier, "action": "segment_free", "size": 2 * MIB},
    ]
    content["segments"][0]["segment_pool_id"] = (7, 0)
    file = tmp_path / "private.pickle"
    file.write_bytes(pickle.dumps(content))
    recording = msmemscope.load(file)
    blocks = recording.blocks.filter(pl.col("pool") == Pool.CUDA).sort("malloc_sequence")
    pools = blocks.join(recording.attributes, on="attribute_id", how="left", maintain_order="left")["pool_id"].to_list()
    assert pools[0] is None
    assert set(pools[1:]) == {"7/0"}
