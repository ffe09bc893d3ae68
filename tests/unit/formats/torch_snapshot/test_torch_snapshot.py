"""Memory snapshots of torch and torch_npu, as far as they carry the facts."""

from __future__ import annotations

import gzip
import pickle
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from msmemscope.analysis.peak.out_of_memory import analyze_out_of_memory
from msmemscope.formats.reading import load
from msmemscope.model.devices import DeviceKind, device_number
from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording import EVENT_SCHEMA, RECORDING_BLOCK_SCHEMA
from msmemscope.recording.call_sites import call_sites

SEGMENT, FIRST = 0x7F0000000000, 0x7F0000000000
CUDA_1 = device_number(DeviceKind.CUDA, 1)
FRAMES = [
    {"filename": "/torch/nn/linear.py", "line": 12, "name": "forward"},
    {"filename": "train.py", "line": 40, "name": "<module>"},
]
STACK = "/torch/nn/linear.py(12): forward\ntrain.py(40): <module>\n"


def event(action: str, address: int, size: int, time_us: int | None, **more: Any) -> dict[str, Any]:
    """An event of a history."""
    times = {} if time_us is None else {"time_us": time_us}
    return {"action": action, "addr": address, "size": size, "stream": 0, "frames": FRAMES, **times, **more}


def snapshot(*, with_times: bool = True) -> dict[str, Any]:
    """A segment, a block that is freed, one that lives, and one that is older than the history."""
    time = iter(range(1_000_000, 2_000_000)) if with_times else iter([None] * 100)
    first, second, third = FIRST, FIRST + 512, FIRST + 1024
    trace = [
        event("segment_alloc", SEGMENT, 2 << 20, next(time)),
        event("alloc", first, 512, next(time)),
        event("alloc", second, 512, next(time)),
        event("free_requested", first, 512, next(time)),
        event("free_completed", first, 512, next(time)),
        event("free_completed", third + 4096, 512, next(time)),
        event("alloc", first, 256, next(time)),
        event("oom", 0, 1 << 40, next(time), device_free=5),
        event("snapshot", 0, 0, next(time)),
    ]
    blocks = [
        {"size": 256, "requested_size": 200, "state": "active_allocated", "frames": FRAMES},
        {"size": 256, "requested_size": 0, "state": "inactive", "frames": []},
        {"size": 512, "requested_size": 512, "state": "active_allocated", "frames": FRAMES},
        {"size": 512, "requested_size": 512, "state": "active_allocated", "frames": FRAMES},
        {"size": (2 << 20) - 1536, "requested_size": 0, "state": "inactive", "frames": []},
    ]
    segment = {"device": 0, "address": SEGMENT, "total_size": 2 << 20, "segment_type": "small", "blocks": blocks}
    return {"segments": [segment], "device_traces": [trace, []]}


def test_blocks_of_a_snapshot(tmp_path: Path) -> None:
    """Each block once, from its allocation to the program's own free; older ones begin with the history."""
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot()))
    recording = load(path)
    assert recording.form == "torch snapshot"
    assert recording.events.schema == EVENT_SCHEMA
    assert recording.blocks.schema == RECORDING_BLOCK_SCHEMA
    rows = recording.blocks.select("pool", "address", "size", "flags", pl.col("freed_ns")).rows()
    assert rows == [
        (Pool.CUDA, FIRST + 1024 + 4096, 512, int(EventFlag.SHADOW), 1_000_000_000),  # waited for another stream
        (Pool.CUDA, FIRST + 1024, 512, int(EventFlag.SHADOW), None),
        (Pool.HAL, SEGMENT, 2 << 20, 0, None),
        (Pool.CUDA, FIRST, 512, 0, 1_000_003_000),
        (Pool.CUDA, FIRST + 512, 512, 0, None),
        (Pool.CUDA, FIRST, 256, 0, None),
    ]
    assert dict(recording.python_stacks.rows())[recording.blocks["python_stack_id"][1]] == STACK
    assert any(
        "2 blocks and segments are older than the history: when they were" in line for line in recording.coverage
    )
    assert recording.blocks["requested_bytes"].to_list() == [None, 512, None, None, 512, 200]
    frees = recording.events.filter(pl.col("kind") == EventKind.FREE)
    assert (frees["extra"] > 0).all()
    oom = recording.events.filter(pl.col("kind") == EventKind.OOM)
    assert oom["size"].to_list() == [1 << 40]
    reserved = recording.events.filter(pl.col("kind") == EventKind.RESERVED)
    assert reserved.select("pool", "size").rows() == [(Pool.CUDA, 2 << 20)]
    assert recording.events["sequence"].to_list() == list(range(1, len(recording.events) + 1))


@pytest.mark.parametrize("form", ["gzip", "zip", "protocol 2", "segments alone", "no times"])
def test_other_forms_of_snapshots(form: str, tmp_path: Path) -> None:
    """Packed, in the archive of torch.save, of an older protocol, without a history, and as torch_npu writes them."""
    path = tmp_path / "any name"
    content = snapshot(with_times=form != "no times")
    if form == "gzip":
        path.write_bytes(gzip.compress(pickle.dumps(content)))
    elif form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps(content, 2))
            archive.writestr("archive/version", "3")
    elif form == "segments alone":
        path.write_bytes(pickle.dumps(content["segments"]))
    else:
        path.write_bytes(pickle.dumps(content, 2))
    recording = load(path)
    alive = recording.blocks.filter(pl.col("free_sequence").is_null()).select("pool", "address", "size").rows()
    pool = Pool.PTA if form in {"no times", "segments alone"} else Pool.CUDA
    assert sorted(alive) == [
        (Pool.HAL, SEGMENT, 2 << 20), (pool, FIRST, 256), (pool, FIRST + 512, 512), (pool, FIRST + 1024, 512),
    ]  # fmt: skip
    assert any("no times" in line for line in recording.coverage) == (form == "no times")
    assert any("no history" in line for line in recording.coverage) == (form == "segments alone")


def test_segments_that_grew_before_and_within_the_history(tmp_path: Path) -> None:
    """Only what the pieces of the history do not explain is older."""
    path = tmp_path / "snapshot.pickle"
    trace = [
        event("segment_map", SEGMENT + (4 << 20), 2 << 20, 5),
        event("segment_map", SEGMENT + (6 << 20), 2 << 20, 6),
    ]
    segment = {"device": 1, "address": SEGMENT, "total_size": 8 << 20, "blocks": [], "is_expandable": True}
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [[], trace]}))
    recording = load(path)
    assert recording.blocks.select("device", "pool", "size").rows() == [
        (CUDA_1, Pool.HAL, 4 << 20), (CUDA_1, Pool.HAL, 2 << 20), (CUDA_1, Pool.HAL, 2 << 20),
    ]  # fmt: skip
    reserved = recording.events.filter(pl.col("kind") == EventKind.RESERVED)
    assert reserved["size"].to_list() == [4 << 20, 6 << 20, 8 << 20]


def test_a_failed_allocation_says_how_much_the_device_had(tmp_path: Path) -> None:
    """The answer has the device's free bytes at a failure if the snapshot has them. Otherwise nothing is made up."""
    path = tmp_path / "snapshot.pickle"
    trace = [
        event("segment_alloc", SEGMENT, 2 << 20, 1),
        event("alloc", FIRST, 512, 2),
        event("oom", 0, 1 << 40, 3, device_free=6 << 20),
        event("oom", 0, 1 << 41, 4),
    ]
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[], trace]}))
    recording = load(path)
    first, second = analyze_out_of_memory(recording).failures
    assert (first.device, first.size_bytes, first.state) == (CUDA_1, 1 << 40, {"free": 6 << 20})
    assert (second.device, second.size_bytes) == (CUDA_1, 1 << 41)
    assert [pool.blocks.size_bytes for pool in first.alive] == [2 << 20, 512]
    snapshots = recording.events.filter(pl.col("kind") == EventKind.SNAPSHOT)
    assert snapshots.select("sequence", "device").rows() == [(first.sequence - 1, CUDA_1)]


def test_stacks_are_the_same_however_frames_are_shared(tmp_path: Path) -> None:
    """One list for all entries, a list of the same frames for each, or frames of their own: the texts decide."""
    path = tmp_path / "snapshot.pickle"
    frames = [FRAMES, list(FRAMES), [dict(frame) for frame in FRAMES], FRAMES[:1], [], None]
    trace = [event("alloc", FIRST + 512 * place, 512, place, frames=own) for place, own in enumerate(frames)]
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [trace]}))
    recording = load(path)
    texts = {0: "", **dict(recording.python_stacks.rows())}
    first_line = STACK.partition("\n")[0] + "\n"
    assert [texts[key] for key in recording.blocks["python_stack_id"]] == [STACK, STACK, STACK, first_line, "", ""]
    assert len(recording.python_stacks) == 2


UNWINDING = [
    {"filename": "??", "line": 0, "name": "torch::unwind::unwind()"},
    {"filename": "??", "line": 0, "name": "torch::CapturedTraceback::gather(bool, bool, bool)"},
    {"filename": "??", "line": 0, "name": "<unwind unsupported>"},
    {
        "filename": "/pytorch/c10/cuda/CUDACachingAllocator.cpp",
        "line": 900,
        "name": "c10::cuda::(anonymous namespace)::malloc(int)",
    },
]
TORCH_BELOW = [
    {"filename": "??", "line": 0, "name": "at::native::empty_cuda(c10::ArrayRef<long>)"},
    {
        "filename": "/usr/include/c++/11/bits/std_function.h",
        "line": 590,
        "name": "std::function<void ()>::operator()() const",
    },
]
INTERPRETER = [
    {"filename": "/usr/bin/python3.11", "line": 0, "name": "_PyEval_EvalFrameDefault"},
    {"filename": "??", "line": 0, "name": "__libc_start_main"},
    {"filename": "/lib/x86_64-linux-gnu/libc.so.6", "line": 0, "name": "start_thread"},
]
STARTS_OF_THREADS = [
    {"filename": "??", "line": 0, "name": "pthread_condattr_setpshared"},
    {"filename": "??", "line": 0, "name": "__clone"},
]
BELOW_OPERATOR = [
    {"filename": "??", "line": 0, "name": "at::detail::empty_generic(c10::ArrayRef<long>)"},
    {"filename": "??", "line": 0, "name": "at::TensorIteratorBase::build(at::TensorIteratorConfig&)"},
]
OF_TORCH = {"filename": "/opt/any/site-packages/torch/nn/modules/linear.py", "line": 12, "name": "forward"}
OF_USER = {"filename": "/home/me/train.py", "line": 40, "name": "step"}
SCRIPT_OF_USER = {"filename": "/home/me/bin/train", "line": 7, "name": "<module>"}
EXTENSION_OF_USER = {"filename": "/home/me/kernels/fused.cu", "line": 55, "name": "fused_forward(at::Tensor)"}


@pytest.mark.parametrize(
    ("frames", "site"),
    [
        ([*UNWINDING, *TORCH_BELOW, OF_TORCH, OF_USER, *INTERPRETER], "/home/me/train.py(40): step"),
        ([*UNWINDING, *TORCH_BELOW, OF_TORCH, SCRIPT_OF_USER, *INTERPRETER], "/home/me/bin/train(7)"),
        ([*UNWINDING, *TORCH_BELOW, EXTENSION_OF_USER, *INTERPRETER], "/home/me/kernels/fused.cu(fused_forward(at::Tensor))"),
        ([*UNWINDING, *TORCH_BELOW, *INTERPRETER], "at::native::empty_cuda(c10::ArrayRef<long>)"),
        ([*UNWINDING, *BELOW_OPERATOR, *TORCH_BELOW, *STARTS_OF_THREADS], "at::native::empty_cuda(c10::ArrayRef<long>)"),
    ],
    ids=["user's line", "script without a suffix", "user's C++", "torch alone", "thread of torch"],
)  # fmt: skip
def test_frames_of_cpp(frames: list[dict[str, Any]], site: str, tmp_path: Path) -> None:
    """Bytes belong to the first frame of the user; where there is none, to torch's function and never to its unwinder."""
    path = tmp_path / "snapshot.pickle"
    trace = [event("alloc", FIRST, 512, 1_000_000) | {"frames": frames}]
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [trace]}))
    recording = load(path)
    assert call_sites(recording, recording.blocks)["site"].to_list() == [site]
