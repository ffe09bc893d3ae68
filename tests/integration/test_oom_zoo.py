"""Tensors of the CPU that run out of address space: the cause that is named."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from tests.oom_zoo import catalogue
from tests.oom_zoo.measure import measure
from tests.support import tool

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

LIMITED = """
import resource
import torch

pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (768 << 20)
print(limit, flush=True)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
kept = [torch.empty(48 << 20, dtype=torch.uint8) for _ in range(100)]
"""


def test_causes_on_the_host(tmp_path: Path) -> None:
    """Cause, line and remedy of each program are the planted ones."""
    programs = catalogue.programs(catalogue.HOST_FAMILIES)
    assert len(programs) >= 2
    assert [row for row in measure(tmp_path, programs) if not row.right] == []


def test_the_screen_has_one_sum_with_the_limit(tmp_path: Path) -> None:
    """A process that may have so much address space: what is in use, the rest of it and what is free are the limit."""
    program = tmp_path / "limited.py"
    program.write_text(LIMITED, encoding="utf-8")
    run = tool.run([*tool.TOOL, f"--output={tmp_path / 'out'}", "--", sys.executable, program], output=tmp_path / "out")
    screen = " ".join(run.stderr.partition("msmemscope: out of memory on cpu")[2].split())
    found = re.search(
        r"(\S+ MiB) asked for; (\S+) MiB in use \+ (\S+) MiB of the rest of the process \+ (\S+) MiB free = (\S+) MiB of RLIMIT_AS",
        screen,
    )
    assert found is not None, screen
    in_use, rest, free, limit = (float(text) for text in found.groups()[1:])
    assert found[1] == "48.0 MiB"
    assert in_use % 48 == 0
    assert round(in_use + rest + free, 1) == limit
    assert limit == pytest.approx(int(run.stdout) / (1 << 20), abs=0.06)
    assert free < 48
    for word in ("of the device were free", "reserved by the framework", "alive then", "of the pools in full"):
        assert word not in screen
