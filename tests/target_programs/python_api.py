"""The calls of the Python API, a scenario at a time: each tensor has a size of its own, by which its block is found."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import msmemscope
from msmemscope import describe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

kept: list[torch.Tensor] = []


def block(size: int) -> torch.Tensor:
    """A tensor of so many bytes, kept to the end."""
    kept.append(torch.empty(size, dtype=torch.uint8))
    return kept[-1]


def labels(output: str) -> None:
    """Every form of describer."""
    with describe.describer(owner="before"):
        block(10_000)
    msmemscope.config(output=output)
    msmemscope.start()

    @describe.describer(owner="function")
    def function() -> None:
        block(10_001)
        with describe.describer(owner="inner"):
            block(10_002)
        block(10_003)

    function()
    describe.describer(owner="explicit").__enter__()
    block(10_004)
    describe.describer(owner="explicit").__exit__()
    block(10_005)
    with contextlib.suppress(KeyError), describe.describer(owner="failing"):
        raise KeyError
    block(10_006)
    with describe.describer(owner="a"), describe.describer(owner="b"), describe.describer(owner="a"):
        block(10_007)
    with describe.describer(owner="a"), describe.describer(owner="b"), describe.describer(owner="c"):
        with describe.describer(owner="d"):
            block(10_008)
        block(10_009)
        thread = threading.Thread(target=block, args=(10_010,))
        thread.start()
        thread.join()
    describe.describer(block(10_011), owner="tensor")
    module = torch.nn.Linear(100, 101, bias=False)
    describe.describer(module, owner="module")
    describe.describer({"x": [block(10_012)], "y": (block(10_013),)}, owner="nested")
    describe.describer(block(10_014).data_ptr() + 77, owner="address")
    describe.describer(owner="never begun").__exit__()
    describe.describer(12345, owner="nowhere")

    @describe.describer(owner="generator")
    def generator() -> Generator[Any, Any, None]:
        block(10_015)
        received = yield
        block(10_016)
        try:
            yield received
        except KeyError:
            block(10_017)
            yield "caught"

    running = generator()
    next(running)
    block(10_018)
    assert running.send("sent") == "sent"
    assert running.throw(KeyError()) == "caught"
    running.close()
    with describe.describer(owner="line\nfeed"):
        block(10_019)
    asyncio.run(tasks())
    block(10_028)


async def tasks() -> None:
    """Tasks share a thread and keep their labels."""

    @describe.describer(owner="coroutine")
    async def coroutine() -> None:
        await asyncio.sleep(0.01)
        block(10_020)

    @describe.describer(owner="items")
    async def items() -> AsyncIterator[int]:
        block(10_021)
        yield 1
        await asyncio.sleep(0)
        block(10_022)

    async def task(size: int) -> None:
        with describe.describer(owner=f"task{size}"):
            await asyncio.sleep(0.01)
            block(size)
            child = asyncio.create_task(grandchild(size + 1))
            await child
        block(size + 2)

    async def grandchild(size: int) -> None:
        with describe.describer(owner="child"):
            await asyncio.sleep(0.01)
            block(size)

    async for _ in items():
        block(10_023)
    await asyncio.gather(coroutine(), task(10_030), task(10_040))
    block(10_024)


def scopes(output: str) -> None:
    """config() again and again, collect(), and what can be set only once."""
    msmemscope.config(output=output, data_format="db", events="alloc,free")
    block(20_000)
    with msmemscope.collect():
        block(20_001)
        with msmemscope.collect(events="launch"):
            block(20_002)
        block(20_003)
    block(20_004)
    msmemscope.config(output=Path(output) / "other", data_format="csv", call_stack={"python": 3}, events=["alloc"])

    @msmemscope.collect()
    def function() -> None:
        block(20_005)
        torch.ones(10).add(1)

    function()
    msmemscope.config(events="launch,access")
    with contextlib.suppress(KeyError), msmemscope.collect():
        torch.ones(10).mul(2)
        msmemscope.config(events="launch")
        torch.ones(10).div(2)
        raise KeyError
    block(20_006)
    for bad in ({"level": "7"}, {"colour": "red"}, {"steps": 1.5}, {"watch": "full-content", "events": "alloc"}):
        try:
            msmemscope.config(**bad)
        except ValueError as error:  # noqa: PERF203 - each is tried
            print(f"refused={next(iter(bad))} kind={type(error).__name__}")
    msmemscope.config()


def threads(output: str) -> None:
    """start() and stop() from any thread: operators of a thread are recorded while collection is on, once each."""
    msmemscope.config(output=output, events="launch,access")
    msmemscope.start()
    torch.ones(10).add(1)
    thread = threading.Thread(target=msmemscope.stop)
    thread.start()
    thread.join()
    torch.ones(10).sub(1)
    msmemscope.start()
    torch.ones(10).mul(1)
    msmemscope.stop()
    torch.ones(10).div(1)
    msmemscope.start()
    torch.ones(10).exp()
    several = [threading.Thread(target=toggle) for _ in range(8)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    msmemscope.start()
    torch.ones(10).log()
    msmemscope.stop()


def toggle() -> None:
    """Starts and stops as fast as it can."""
    for _ in range(50):
        msmemscope.start()
        torch.ones(10)
        msmemscope.stop()


if __name__ == "__main__":
    {"labels": labels, "scopes": scopes, "threads": threads}[sys.argv[1]](sys.argv[2])
