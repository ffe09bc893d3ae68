"""Reserves more than it uses, or not: `reserved_memory.py record_stream|pinned|sizes [repaired]`.

record_stream: Batches are made on a side stream and used on the current one, with a call of record_stream. Repaired,
the side stream waits instead.

pinned: Pinned buffers of the host are a little larger than a power of two. Repaired, they are views of one buffer.

sizes: Each step needs a little more at once than any before it. Repaired, the cache is emptied after each.

Prints one line: MiB in use at most or asked for, and reserved or pinned.
"""

from __future__ import annotations

import sys

import torch
import torch_npu  # noqa: F401

import msmemscope

MEBIBYTE = 1 << 20
IS_REPAIRED = "repaired" in sys.argv


def prefetches_on_a_stream() -> None:
    """Twelve steps of four batches."""
    side, main = torch.npu.Stream(), torch.npu.current_stream()
    for _ in range(12):
        for _ in range(4):
            with torch.npu.stream(side):
                batch = torch.ones(5 * MEBIBYTE, device="npu")
            main.wait_stream(side)
            total = batch.mul(2)
            if IS_REPAIRED:
                side.wait_stream(main)
            else:
                batch.record_stream(main)
            del batch, total
        torch.npu.synchronize()
        msmemscope.step()
    print(torch.npu.max_memory_allocated() >> 20, torch.npu.memory_reserved() >> 20)


def pinned_buffers() -> None:
    """Sixteen of 9,000,000 bytes each, which torch makes 16 MiB."""
    count, size = 16, 9_000_000
    if IS_REPAIRED:
        whole = torch.empty(count * size, dtype=torch.uint8)
        buffers = list(whole.view(count, size))
    else:
        buffers = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(count)]
    for _ in range(3):
        for buffer in buffers:
            buffer.to("npu")
        msmemscope.step()
    print(count * size >> 20, torch.npu.host_memory_stats()["allocated_bytes.current"] >> 20)


def growing_sizes() -> None:
    """Twelve steps with one tensor each, of 12 to 34 MiB."""
    for step in range(12):
        torch.ones((12 + 2 * step) * MEBIBYTE, dtype=torch.uint8, device="npu")  # alone in its step
        if IS_REPAIRED:
            torch.npu.empty_cache()
        msmemscope.step()
    print(torch.npu.max_memory_allocated() >> 20, torch.npu.memory_reserved() >> 20)


{"record_stream": prefetches_on_a_stream, "pinned": pinned_buffers, "sizes": growing_sizes}[sys.argv[1]]()
