"""Runs functions in a pool thread, some in a copy of a task's context, and says how large their blocks are.

Usage: labels_in_pool_threads.py OUTPUT
"""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

import torch

import msmemscope
from msmemscope import describe

WITHIN, AFTER_LABEL, AFTER_TASK = 10_048, 10_112, 10_176
kept = []


def allocate(size: int) -> None:
    """Allocate one block."""
    kept.append(torch.empty(size, dtype=torch.uint8))


@describe.describer(owner="inner")
def allocate_labelled(size: int) -> None:
    """Allocate one block under a label."""
    allocate(size)


async def main() -> None:
    """One thread runs everything, so that what one function leaves behind is seen by the next."""
    pool = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(pool)
    with describe.describer(owner="outer"):
        await asyncio.to_thread(allocate_labelled, WITHIN)
    await asyncio.to_thread(allocate, AFTER_LABEL)
    pool.submit(allocate, AFTER_TASK).result()


msmemscope.config(events="alloc,free", device="cpu", output=sys.argv[1])
msmemscope.start()
asyncio.run(main())
print(f"within={WITHIN} after_label={AFTER_LABEL} after_task={AFTER_TASK}")
