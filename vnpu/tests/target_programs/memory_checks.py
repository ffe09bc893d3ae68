"""The documentation of torch about device memory, checked on torch.npu.

Checks by name, each in a process forked for it.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

MIB = 1 << 20
GIB = 1 << 30


def rounded(size: int) -> int:
    """The bytes of a block: torch_npu adds 32 to what was asked, then rounds up to 512."""
    return (size + 32 + 511) // 512 * 512


def statistics() -> None:
    """memory_stats, memory_allocated and max_memory_allocated follow every block."""
    assert torch.npu.memory_allocated() == 0
    first = torch.empty(3 * MIB, dtype=torch.uint8, device="npu")
    second = torch.empty(1000, dtype=torch.float32, device="npu")
    expected = rounded(3 * MIB) + rounded(4000)
    assert torch.npu.memory_allocated() == expected
    del first
    assert torch.npu.memory_allocated() == rounded(4000)
    assert torch.npu.max_memory_allocated() == expected
    stats = torch.npu.memory_stats()
    assert stats["allocation.all.allocated"] == 2
    assert stats["allocation.all.freed"] == 1
    assert stats["allocated_bytes.all.current"] == rounded(4000)
    assert stats["allocated_bytes.all.peak"] == expected
    # A small block lies in a segment of 2 MiB, one over 1 MiB in a segment of 20 MiB.
    assert stats["segment.all.current"] == 2
    assert torch.npu.memory_reserved() == 22 * MIB == stats["reserved_bytes.all.current"]
    torch.npu.reset_peak_memory_stats()
    assert torch.npu.max_memory_allocated() == rounded(4000)
    assert "NPU memory summary" in torch.npu.memory_summary() or "memory summary" in torch.npu.memory_summary()
    del second


def memory_info() -> None:
    """mem_get_info is the device's view: what is reserved, and what the driver took for itself, is not free."""
    torch.npu.init()
    free_before, total = torch.npu.mem_get_info()
    assert total == 64 * GIB
    assert total - free_before == (128 + 64 + 32) * MIB  # the default overhead of driver modules
    kept = torch.empty(100 * MIB, dtype=torch.uint8, device="npu")
    free_after, _ = torch.npu.mem_get_info()
    assert free_before - free_after == torch.npu.memory_reserved() >= 100 * MIB
    assert torch.npu.get_device_properties(0).total_memory == total
    del kept


def empty_cache() -> None:
    """empty_cache gives unused segments back to the device, and only those."""
    torch.npu.init()
    free_before, _ = torch.npu.mem_get_info()
    kept = torch.empty(30 * MIB, dtype=torch.uint8, device="npu")
    dropped = torch.empty(50 * MIB, dtype=torch.uint8, device="npu")
    del dropped
    assert torch.npu.memory_reserved() > 80 * MIB
    torch.npu.empty_cache()
    assert 30 * MIB <= torch.npu.memory_reserved() < 34 * MIB
    free_after, _ = torch.npu.mem_get_info()
    assert free_before - free_after == torch.npu.memory_reserved()
    del kept
    torch.npu.empty_cache()
    assert torch.npu.mem_get_info()[0] == free_before


def out_of_memory() -> None:
    """More than the device has: OutOfMemoryError, an observer that is told, counters, and a process that goes on."""
    reported: list[tuple[int, int, int, int]] = []
    torch_npu = sys.modules["torch_npu"]
    torch.npu.init()
    torch_npu._C._npu_attach_out_of_memory_observer(lambda *figures: reported.append(figures))
    free_before, total = torch.npu.mem_get_info()
    try:
        torch.empty(65 * GIB, dtype=torch.uint8, device="npu")
    except torch.OutOfMemoryError as error:
        text = str(error)
    else:
        raise AssertionError("nothing was raised")
    assert "Tried to allocate 65.00 GiB" in text, text
    assert "64.00 GiB total capacity" in text, text
    (device, asked, device_total, device_free) = reported[0]
    assert (device, device_total, device_free) == (0, total, free_before), reported
    assert asked >= 65 * GIB
    stats = torch.npu.memory_stats()
    assert stats["num_ooms"] == 1
    assert stats["num_alloc_retries"] == 1
    assert torch.empty(10, device="npu").shape == (10,)


def cache_before_failure() -> None:
    """Cached segments are given back before an allocation fails."""
    half = [torch.empty(20 * GIB, dtype=torch.uint8, device="npu") for _ in range(3)]
    del half
    gc.collect()
    assert torch.npu.memory_reserved() >= 60 * GIB
    whole = torch.empty(60 * GIB, dtype=torch.uint8, device="npu")
    assert whole.numel() == 60 * GIB
    assert torch.npu.memory_stats()["num_alloc_retries"] == 1
    assert torch.npu.memory_stats()["num_ooms"] == 0


def lazily_backed() -> None:
    """A block costs the machine only what is written."""
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    large = torch.empty(60 * GIB, dtype=torch.uint8, device="npu")
    large[: 1 * MIB].fill_(7)
    large[-1].fill_(9)
    torch.npu.synchronize()
    assert int(large[-1]) == 9
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 * 1024  # KiB


def snapshot() -> None:
    """A memory snapshot has the segments and blocks, the trace, and the frames of Python."""
    torch.npu.memory._record_memory_history()
    kept = torch.empty(5 * MIB, dtype=torch.uint8, device="npu")
    dropped = torch.empty(7 * MIB, dtype=torch.uint8, device="npu")
    del dropped
    taken = torch.npu.memory._snapshot()
    active = [
        block for segment in taken["segments"] for block in segment["blocks"] if block["state"] == "active_allocated"
    ]
    assert [block["size"] for block in active] == [rounded(5 * MIB)]
    assert any(frame["name"] == "snapshot" for frame in active[0]["frames"])
    actions = [entry["action"] for entry in taken["device_traces"][0]]
    assert actions.count("alloc") == 2
    assert "free_completed" in actions
    assert "segment_alloc" in actions
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "snapshot.pickle"
        torch.npu.memory._dump_snapshot(str(file))
        dumped = pickle.loads(file.read_bytes())  # noqa: S301  # written by this process
    assert len(dumped["segments"]) == len(taken["segments"])
    del kept


def record_stream() -> None:
    """A block that another stream uses is not given away before that stream is done; events say when."""
    side = torch.npu.Stream()
    block = torch.empty(3 * MIB, dtype=torch.uint8, device="npu")
    address = block.data_ptr()
    with torch.npu.stream(side):
        block.fill_(1)
    block.record_stream(side)
    del block
    torch.npu.synchronize()
    again = torch.empty(3 * MIB, dtype=torch.uint8, device="npu")
    assert again.data_ptr() == address  # the side stream is done: the block can be used again
    with torch.npu.stream(side):
        other = torch.empty(3 * MIB, dtype=torch.uint8, device="npu")
    assert other.data_ptr() != address
    # Memory is kept by stream: what was freed on one is not given to another.
    del other
    third = torch.empty(3 * MIB, dtype=torch.uint8, device="npu")
    assert third.data_ptr() != address
    begin, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    begin.record()
    again.fill_(2)
    end.record()
    end.synchronize()
    assert begin.elapsed_time(end) > 0
    assert end.query()


def two_devices() -> None:
    """Each device has memory and statistics of its own; copies go between them."""
    first = torch.arange(1000, dtype=torch.float32).to("npu:0")
    second = first.to("npu:1")
    assert second.device.index == 1
    assert torch.equal(second.cpu(), torch.arange(1000, dtype=torch.float32))
    assert torch.npu.memory_allocated(0) == torch.npu.memory_allocated(1) == rounded(4000)
    del first
    assert torch.npu.memory_allocated(0) == 0
    assert torch.npu.memory_allocated(1) == rounded(4000)
    with torch.npu.device(1):
        assert torch.empty(1, device="npu").device.index == 1
    assert torch.npu.device_count() == 2
    try:
        torch.empty(1, device="npu:2")
    except RuntimeError:
        pass
    else:
        raise AssertionError("there is no device 2")


def pinned() -> None:
    """Pinned memory of the host says that it is, and copies to the device and back."""
    host = torch.arange(5000, dtype=torch.int32).pin_memory()
    assert host.is_pinned()
    assert not torch.arange(3).is_pinned()
    device = host.to("npu", non_blocking=True)
    back = torch.empty(5000, dtype=torch.int32, pin_memory=True)
    back.copy_(device, non_blocking=True)
    torch.npu.synchronize()
    assert torch.equal(back, torch.arange(5000, dtype=torch.int32))
    assert torch.npu.memory_allocated() == rounded(20000)


class Squares(torch.utils.data.Dataset[torch.Tensor]):
    """The squares of the first numbers."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index * index)


def data_loader() -> None:
    """Workers of a DataLoader, forked after the device is in use, deliver pinned batches."""
    torch.ones(1, device="npu")
    loader = torch.utils.data.DataLoader(Squares(), batch_size=8, num_workers=2, pin_memory=True)
    batches = [batch.to("npu", non_blocking=True) for batch in loader]
    assert torch.equal(torch.cat(batches).cpu(), torch.arange(64) ** 2)


def save_and_load() -> None:
    """Tensors of the device go to a file and come back, to the device or to the CPU."""
    values = torch.randn(100, generator=torch.Generator().manual_seed(1))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tensors.pt"
        torch.save({"values": values.npu()}, file)
        loaded = torch.load(file)["values"]
        assert loaded.device.type == "npu"
        assert torch.equal(loaded.cpu(), values)
        assert torch.equal(torch.load(file, map_location="cpu")["values"], values)


def memory_fraction() -> None:
    """A process can limit itself to a part of the device."""
    torch.npu.set_per_process_memory_fraction(0.25)
    kept = torch.empty(15 * GIB, dtype=torch.uint8, device="npu")
    try:
        torch.empty(2 * GIB, dtype=torch.uint8, device="npu")
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("the limit was not kept")
    del kept


CHECKS: dict[str, Callable[[], None]] = {
    check.__name__: check
    for check in (
        statistics, memory_info, empty_cache, out_of_memory, cache_before_failure, lazily_backed, snapshot,
        record_stream, two_devices, pinned, data_loader, save_and_load, memory_fraction,
    )
}  # fmt: skip


def check_in_child(name: str) -> None:
    """Make one check in a process that has torch, and has not used a device."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            CHECKS[name]()
            print(f"{name} ok", flush=True)
            status = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.waitpid(child, 0)


if __name__ == "__main__":
    for check in sys.argv[1:]:
        check_in_child(check)
