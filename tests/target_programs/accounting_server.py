"""Does what it is told, one JSON line at a time, and answers each with torch's own figure of allocated memory.

Usage: accounting_server.py cpu|npu

A line names the context in which it is done: the main thread, one of two worker threads, or one of two asyncio tasks.
Labels and collect() blocks are real `with` blocks of that context, entered by one line and left by another. The
program imports msmemscope before torch, so that every block is followed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import queue
import sys
import threading
from contextlib import contextmanager
from typing import Any

import msmemscope
from msmemscope import _native, describe

# isort: split
import torch

ON_NPU = sys.argv[1] == "npu"
if ON_NPU:
    import torch_npu  # noqa: F401 - makes the device npu

WORKERS = ("thread-0", "thread-1")
TASKS = ("task-0", "task-1")

tensors: dict[int, torch.Tensor] = {}
replies: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()


class UnwindError(Exception):
    """Leaves as many blocks as it says."""

    def __init__(self, levels: int) -> None:
        super().__init__(levels)
        self.levels = levels


def allocated_bytes() -> int:
    """The bytes that torch gave out: its allocator's figure, or for the cpu the bytes of the storages held here."""
    if ON_NPU:
        return torch.npu.memory_allocated()
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors.values()}
    return sum(storages.values())


def new_tensor(size: int) -> torch.Tensor:
    """A tensor in a block of its own, unless its size is 0."""
    return torch.empty(size, dtype=torch.uint8, device=sys.argv[1])


def in_threads(count: int, work: Any) -> None:
    """Run it in threads of their own at once; whatever one raises is raised here."""
    errors = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def hand_round(threads: int, size: int) -> None:
    """Threads allocate at once, and each frees what another one allocated."""
    channels = [queue.SimpleQueue() for _ in range(threads)]
    meeting = threading.Barrier(threads)

    def work(number: int) -> None:
        meeting.wait()
        for _ in range(20):
            channels[(number + 1) % threads].put(new_tensor(size + number))
            channels[number].get()

    in_threads(threads, work)


def restart_in_a_storm(cycles: int, size: int) -> None:
    """Stop and start again and again while other threads allocate and free; each keeps its last block."""
    is_over = threading.Event()
    kept = []

    def work(number: int) -> None:
        if number == 0:
            for _ in range(cycles):
                msmemscope.stop()
                msmemscope.start()
            is_over.set()
            return
        mine = [new_tensor(size) for _ in range(8)]
        while not is_over.is_set():
            for place in range(8):
                mine[place] = new_tensor(size + 64 * place)
        kept.append(mine)

    in_threads(3, work)
    tensors.update({-1 - place: tensor for place, tensor in enumerate(itertools.chain(*kept))})


def perform(command: dict[str, Any]) -> dict[str, Any]:
    """Do one thing that is over when it is done."""
    kind = command["do"]
    if kind == "allocate":
        tensors[command["id"]] = new_tensor(command["size"])
    elif kind == "free":
        del tensors[command["id"]]
    elif kind == "free storm":
        for number in [number for number in tensors if number < 0]:
            del tensors[number]
    elif kind == "view":
        tensors[command["id"]] = tensors[command["of"]][:1]
    elif kind == "resize":
        storage = tensors.pop(command["id"]).untyped_storage()
        storage.resize_(command["size"])
        tensors[command["id"]] = new_tensor(0).set_(storage)
    elif kind == "compute":
        tensors[command["id"]] = (tensors[command["of"]] + 1) * 2
    elif kind == "label tensor":
        describe.describer(tensors[command["id"]], owner=command["label"])
    elif kind == "enter label":
        describe.describer(owner=command["label"]).__enter__()
    elif kind == "exit label":
        describe.describer(owner=command["label"]).__exit__()
    elif kind == "start":
        msmemscope.start()
    elif kind == "stop":
        msmemscope.stop()
    elif kind == "step":
        msmemscope.step()
    elif kind == "configure":
        msmemscope.config(**command["settings"])
    elif kind == "hand round":
        hand_round(command["threads"], command["size"])
    elif kind == "storm":
        restart_in_a_storm(command["cycles"], command["size"])
    elif kind != "nothing":
        raise ValueError(kind)
    made = tensors.get(command.get("id"))
    return {"address": 0 if made is None else made.untyped_storage().data_ptr()}


@contextmanager
def block(command: dict[str, Any]) -> Any:
    """The block that a line asks to be within; an exception is caught as many blocks out as it says."""
    within = (
        msmemscope.collect(**command["settings"])
        if command["do"] == "collect"
        else describe.describer(owner=command["label"])
    )
    try:
        with within:
            yield
    except UnwindError as unwind:
        if unwind.levels > 1:
            raise UnwindError(unwind.levels - 1) from None


def answer(command: dict[str, Any]) -> None:
    """Say what came of a line; figures are taken where it was done."""
    try:
        reply = perform(command)
    except BaseException as error:
        reply = {"error": f"{type(error).__name__}: {error}"}
    replies.put(reply)


def done() -> None:
    """Answer a line that enters or leaves a block."""
    replies.put({"address": 0})


def serve(lines: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Do what lines say until the block that this is in is left."""
    while True:
        command = lines.get()
        if command["do"] == "leave":
            return
        if command["do"] == "raise":
            raise UnwindError(command["levels"])
        if command["do"] not in {"label", "collect"}:
            answer(command)
            continue
        if command.get("decorates"):
            with_label = describe.describer(owner=command["label"])

            @with_label
            def within(lines: queue.SimpleQueue[dict[str, Any]]) -> None:
                done()
                serve(lines)

            try:
                within(lines)
            except UnwindError as unwind:
                if unwind.levels > 1:
                    raise UnwindError(unwind.levels - 1) from None
        else:
            with block(command):
                done()
                serve(lines)
        done()


async def serve_task(lines: asyncio.Queue[dict[str, Any]]) -> None:
    """Do the same in an asyncio task."""
    while True:
        command = await lines.get()
        if command["do"] == "leave":
            return
        if command["do"] == "raise":
            raise UnwindError(command["levels"])
        if command["do"] not in {"label", "collect"}:
            answer(command)
            continue
        if command.get("decorates"):
            with_label = describe.describer(owner=command["label"])

            @with_label
            async def within(lines: asyncio.Queue[dict[str, Any]]) -> None:
                done()
                await serve_task(lines)

            try:
                await within(lines)
            except UnwindError as unwind:
                if unwind.levels > 1:
                    raise UnwindError(unwind.levels - 1) from None
        else:
            with block(command):
                done()
                await serve_task(lines)
        done()


def start_tasks() -> dict[str, Any]:
    """Run an event loop with the tasks in a thread of its own; return how each is told a line."""
    channels: dict[str, Any] = {}
    is_ready = threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        lines = {name: asyncio.Queue() for name in TASKS}
        for name, channel in lines.items():
            channels[name] = lambda command, channel=channel: loop.call_soon_threadsafe(channel.put_nowait, command)
        is_ready.set()
        await asyncio.gather(*(serve_task(channel) for channel in lines.values()))

    threading.Thread(target=asyncio.run, args=(main(),), daemon=True).start()
    is_ready.wait()
    return channels


def main() -> None:
    """Hand each line to its context, one after the other."""
    channels = start_tasks()
    for name in WORKERS:
        lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        channels[name] = lines.put
        threading.Thread(target=serve, args=(lines,), daemon=True).start()
    own_lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    channels["main"] = own_lines.put

    def read() -> None:
        for line in sys.stdin:
            command = json.loads(line)
            channels[command["in"]](command)
            reply = replies.get()
            reply |= {
                "allocated": allocated_bytes(),
                "sequence": _native.next_sequence(),
                "collects": _native.is_collecting(),
                "directory": _native.capture_directory(),
            }
            print(json.dumps(reply), flush=True)
        own_lines.put({"do": "leave"})

    threading.Thread(target=read, daemon=True).start()
    serve(own_lines)


if __name__ == "__main__":
    main()
