"""`--log-level=info`: what a run does and how, in lines of its own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import BuildTarget, RunUnderTool


@pytest.fixture
def lines_at(build_target: BuildTarget, run_under_tool: RunUnderTool) -> dict[str, list[str]]:
    """The lines of stderr that begin as ours, by level; the program allocates a little."""
    found = {}
    for level in ("warn", "info"):
        run = run_under_tool([build_target("alloc_free")], f"--log-level={level}", "--analysis=leaks,oom")
        assert run.returncode == 0, run.stderr
        found[level] = [line for line in run.stderr.splitlines() if line.startswith("msmemscope: ")]
    return found


def test_info_says_what_is_done(lines_at: dict[str, list[str]]) -> None:
    """Which library observes what, where it goes, and what was found to observe; nothing of it by default."""
    beginnings = [
        "msmemscope: native library: /",
        "msmemscope: preloaded into the program: /",
        "msmemscope: observed devices: cpu; events: alloc, free, launch",
        "msmemscope: level: op; analyses: leaks, oom",
        "msmemscope: runs /",
        "msmemscope: process ",
    ]
    for beginning in beginnings:
        assert any(line.startswith(beginning) for line in lines_at["info"]), beginning
        assert not any(line.startswith(beginning) for line in lines_at["warn"]), beginning
    assert any(line.endswith("collection begins at its start") for line in lines_at["info"])
    assert any(": event log in /" in line for line in lines_at["info"])
    assert any(": observed torch_cpu: " in line for line in lines_at["info"])


def test_a_deferred_run_says_when_it_begins(run_under_tool: RunUnderTool) -> None:
    """Also where nothing is recorded in the end."""
    run = run_under_tool([sys.executable, "-c", "pass"], "--verbose", "--collect-mode=deferred", "--steps=2,3")
    assert "; collection begins when it calls msmemscope.start()" in run.stderr
    assert "msmemscope: steps: 2, 3" in run.stderr
