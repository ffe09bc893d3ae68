"""A small run whose leaks and inefficient blocks are known, as an event log and as dumps."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING

from msmemscope.cli.main import main
from msmemscope.configuration import Config
from tests.fakes.event_log_builder import (
    ATEN_END,
    ATEN_START,
    FUNCTION_CALL,
    MARK,
    NO_DEVICE,
    STEP,
    WRITE,
    EventLogBuilder,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEPT_BYTES = 512 << 10
"""Size of the block that each step allocates and nobody frees."""
HELD_BYTES = 1 << 20
"""Size of the block that each step frees too late."""
OTHER_BYTES = 4096
KEEPING_LINE = "/home/me/train.py(11): keep"
HOLDING_LINE = "/home/me/train.py(22): hold"
MARK_TEXT = "test"


def write_run(
    root: Path,
    *,
    process_id: int = 4242,
    steps: int = 6,
    analysis: str = "leaks",
    leaks: bool = True,
    has_trace: bool = False,
    settings: dict[str, str] | None = None,
    rank: int | None = None,
    program: str = "/home/me/train.py",
) -> Path:
    """Write the event log of a run.

    Each step marks itself, keeps a block (if it leaks), and holds another one while a later operator allocates.

    Args:
        root: Where the capture goes.
        process_id: The number of the process.
        steps: How many steps it takes. 0 takes one step without marking it.
        analysis: The analyses that the run was asked for.
        leaks: Whether it keeps blocks.
        has_trace: Whether it also recorded a call of a Python function.
        settings: Further settings, as texts.
        rank: The rank of the process in a job; None if it is in none.
        program: The file that its code is in.

    Returns:
        The capture.
    """
    log = EventLogBuilder(root, process_id=process_id)
    if rank is not None:
        log.fact("process.rank", str(rank))
    given = {"analysis": analysis, "named_analyses": analysis, **(settings or {})}
    for line in Config(output=str(root), devices=("cpu",)).to_settings_text().split("\n"):
        key, _, value = line.partition("=")
        log.fact(f"setting.{key}", given.get(key, value))
    log.fact("argument", "/usr/bin/python3")
    log.fact("argument", "train.py")
    keeping = log.python_stack((log.code(program, "keep", 11), 0))
    holding = log.python_stack((log.code(program, "hold", 22), 0))
    if has_trace:
        called = log.string("train.py(1): main")
        log.add(FUNCTION_CALL, name_id=called, device=NO_DEVICE, timestamp_ns=1_000, extra=2_000)
    address = 0x10000
    for step in range(1, max(steps, 1) + 1):
        log.add(MARK, name_id=log.string(MARK_TEXT))
        if leaks:
            with _operator(log, "aten.ones"):
                kept = log.malloc(address, KEPT_BYTES, python_stack_id=keeping, name_id=log.string("aten.ones"))
                log.access(kept, address, kind=WRITE)
        with _operator(log, "aten.mm"):
            held = log.malloc(address + KEPT_BYTES, HELD_BYTES, python_stack_id=holding, name_id=log.string("aten.mm"))
            log.access(held, address + KEPT_BYTES, kind=WRITE)
        with _operator(log, "aten.add"):
            other = log.malloc(0x1000, OTHER_BYTES, python_stack_id=holding, name_id=log.string("aten.add"))
            log.access(other, 0x1000)
            log.free(other, 0x1000, OTHER_BYTES)
        with _operator(log, "aten.relu"):
            pass
        log.free(held, address + KEPT_BYTES, HELD_BYTES)
        if steps:
            log.add(STEP, size=step)
        address += 2 << 20
    return log.write()


def with_dumps(capture: Path, data_format: str = "csv") -> Path:
    """Write the dumps of a capture, and return the only one."""
    with contextlib.redirect_stderr(io.StringIO()):
        assert main(["recover", str(capture), f"--data-format={data_format}"]) == 0
    (dump,) = capture.glob(f"device_cpu/dump/memscope_dump_*.{data_format}")
    return dump


@contextlib.contextmanager
def _operator(log: EventLogBuilder, name: str) -> Iterator[None]:
    log.add(ATEN_START, name_id=log.string(name))
    yield
    log.add(ATEN_END, name_id=log.string(name))
