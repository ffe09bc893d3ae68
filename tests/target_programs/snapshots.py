"""Takes snapshots of the cpu in every way that there is; with an argument, without the launcher, into that folder."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import torch

import msmemscope

if TYPE_CHECKING:
    from collections.abc import Iterator


@msmemscope.TakeSnapshot(name="function")
def function() -> torch.Tensor:
    """Allocate in a function."""
    return torch.ones(1 << 20, dtype=torch.uint8)


@msmemscope.TakeSnapshot(name="coroutine")
async def coroutine() -> None:
    """Allocate behind a pause."""
    await asyncio.sleep(0)
    torch.ones(1 << 20, dtype=torch.uint8)


@msmemscope.TakeSnapshot(name="generator")
def generator() -> Iterator[int]:
    """Yield twice."""
    yield 1
    yield 2


def main() -> None:
    """Take them in a known order."""
    if len(sys.argv) > 1:
        msmemscope.config(output=sys.argv[1], device="cpu")
    kept = [torch.ones(3 << 20, dtype=torch.uint8)]
    msmemscope.take_snapshot(name="one")
    with msmemscope.TakeSnapshot(name="with"):
        kept.append(torch.ones(2 << 20, dtype=torch.uint8))
    kept.append(function())
    asyncio.run(coroutine())
    print("yielded", list(generator()))
    try:
        with msmemscope.TakeSnapshot(name="raising"):
            raise KeyError("x")  # noqa: TRY301 - what the test looks for
    except KeyError as error:
        print("raised", error)
    msmemscope.take_snapshot(device_mask=(0, 0), name="mask\n")
    msmemscope.take_snapshot()


if __name__ == "__main__":
    main()
