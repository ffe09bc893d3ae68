"""The blocks that are older than our hooks, where collection begins in a program that nobody prepared.

CPU tensors are found among the objects of the garbage collector, blocks of CUDA's caching allocator in its own snapshot.
Those of NPUs are looked after by `allocator_trace`, wherever collection begins late.
No method of the program is called. Tensors of mapped files are no memory of an allocator, and left out.
"""

from __future__ import annotations

import bisect
import gc
import sys
from typing import Any

from msmemscope import _native
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.pools import Pool

_IN_USE = ("active_allocated", "active_pending_free")


def follow_older_blocks() -> int:
    """Follow the blocks that are alive now; returns how many. To be called with hooks, before collection begins."""
    torch = sys.modules.get("torch")
    if torch is None:
        return 0
    return _follow_cpu(torch) + _follow_cuda(torch)


def _follow_cpu(torch: Any) -> int:
    mapped = _mapped_files()
    count = 0
    core = vars(torch).get("_C")
    tensor = getattr(core, "TensorBase", None)
    if tensor is None:  # it is being imported
        return 0
    with core.DisableTorchFunctionSubclass():
        for one in gc.get_objects():
            if not issubclass(type(one), tensor):
                continue
            try:
                # The storage keeps the memory alive while it is looked at.
                storage = tensor.untyped_storage(one) if tensor.device.__get__(one).type == "cpu" else None
                if storage is None or not storage.nbytes():
                    continue
                address, size = storage.data_ptr(), storage.nbytes()
            except (RuntimeError, NotImplementedError):  # tensors without memory: sparse, of wrappers, functional
                continue
            if address and not _is_within(mapped, address):
                count += _native.follow_older_block(Pool.HOST, DEVICE_CPU, address, size)
    return count


def _follow_cuda(torch: Any) -> int:
    cuda = vars(torch).get("cuda")
    if cuda is None or not cuda.is_initialized():
        return 0
    count = 0
    try:
        segments = cuda.memory_snapshot()
    except RuntimeError:  # the allocator of cudaMallocAsync has none
        return 0
    for segment in segments:
        device = _native.cuda_device(segment["device"])
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] in _IN_USE and device >= 0:
                count += _native.follow_older_block(Pool.CUDA, device, address, block["size"])
            address += block["size"]
    return count


def _mapped_files() -> list[tuple[int, int]]:
    """The ranges of addresses that have a file, ascending."""
    ranges = []
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123 - pathlib is not loaded here
        for line in maps:
            fields = line.split(None, 5)
            if len(fields) > 5 and fields[5].startswith("/"):  # noqa: PLR2004 - as proc(5) has them
                begin, end = fields[0].split("-")
                ranges.append((int(begin, 16), int(end, 16)))
    return ranges


def _is_within(ranges: list[tuple[int, int]], address: int) -> bool:
    place = bisect.bisect_right(ranges, (address, 1 << 64)) - 1
    return place >= 0 and address < ranges[place][1]
