"""Of large watched memory, only the pages are read that the kernel says were written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from msmemscope.model.events import EventFlag
from tests.integration.test_watch import FAULTY, SCALE, run_anew, run_program
from tests.support.watching import changes

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

TWO_OF_ONE_MEMORY = f"""
{FAULTY}
whole = torch.zeros(1 << 20)
msmemscope.watcher.watch(whole, name="whole")
msmemscope.watcher.watch(whole.view(1024, 1024)[512:].view(-1), name="half")
msmemscope.watcher.watch(whole.view(1024, 1024)[:, 7:9], name="columns")
for call in range(1, 21):
    torch.ops.faulty.scale(x)
fault.update(call=23, address=whole.data_ptr() + 600 * 4096 + 28)
for call in range(1, 11):
    torch.ops.faulty.scale(x)
whole[3] = 1
whole.view(1024, 1024)[700].add_(2)
"""

WRITTEN_BEHIND_THE_PAGE_TABLE = """
import ctypes, mmap, os
import torch
import msmemscope
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
size = 8 << 20
memory = torch.zeros(2 * size, dtype=torch.uint8)
place = (memory.data_ptr() + size) // 4096 * 4096
shared = os.memfd_create("shared")
os.ftruncate(shared, 1 << 20)
assert libc.mmap(place, 1 << 20, 3, mmap.MAP_SHARED | 0x10, shared, 0) == place
other_way = mmap.mmap(shared, 1 << 20)
victim = memory[place - memory.data_ptr() :][: 1 << 20]
msmemscope.watcher.watch(victim, name="victim", dump_nums=0)
x = torch.ones(8)
for number in range(4000):
    torch.sin(x)
    other_way[number] = 1
msmemscope.watcher.remove(victim)
"""


def test_everybody_who_watches_a_part_of_it_is_told(tmp_path: Path) -> None:
    """A tensor, half of it, and some of its columns: the wrong write and the right ones, by bytes of each."""
    run = run_program(tmp_path, TWO_OF_ONE_MEMORY)
    (capture,) = run.captures
    found = changes(capture)
    wrong = [one for one in found if not one.flags & EventFlag.MAY_WRITE]
    assert [(one.name, *one.culprit, one.attributes["ranges"]) for one in wrong] == [
        ("whole", SCALE, 23, f"{600 * 4096 + 28}-{600 * 4096 + 51}"),
        ("half", SCALE, 23, f"{88 * 4096 + 28}-{88 * 4096 + 51}"),
        ("columns", SCALE, 23, "4800-4807"),
    ]
    right = [(one.name, one.attributes["ranges"]) for one in found if one.flags & EventFlag.MAY_WRITE]
    assert [name for name, _ in right] == ["whole", "whole", "half", "columns"]
    assert right[0][1].startswith("14-")


def test_a_write_that_the_kernel_does_not_see_is_found_and_told(tmp_path: Path) -> None:
    """Through another mapping of the same memory, as a device writes it: all is read now and then, and from then on always."""
    run = run_anew(tmp_path, WRITTEN_BEHIND_THE_PAGE_TABLE)
    (capture,) = run.captures
    found = changes(capture)
    is_narrowed = "in a way that the kernel did not see" in run.stderr
    if not is_narrowed:
        # A kernel that does not tell: every write is seen right after it.
        assert len(found) == 3999
        pytest.skip("this kernel does not tell which pages were written")
    first, last = (int(end) for end in found[0].attributes["ranges"].split("-"))
    assert first == 0
    assert len(found) == 3999 - last  # the last write is followed by no operator
