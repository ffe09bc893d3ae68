"""`--log-level=info`: what a run does and how, in lines of its own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import tool

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.torch
def test_a_program_without_a_launcher_says_as_much(tmp_path: Path) -> None:
    """At its end: what was to be observed, what was, and where it lies; with `error` not even the summary."""
    said = {}
    for level in ("error", "warn", "info"):
        program = (
            f"import torch, msmemscope\nmsmemscope.config(output={str(tmp_path / level)!r}, log_level={level!r}, device='cpu')\n"
            "msmemscope.start()\nkept = torch.ones(1000)\nmsmemscope.stop()\n"
        )
        run = tool.run([sys.executable, "-c", program], output=tmp_path / level)
        assert run.returncode == 0, run.stderr
        assert run.captures
        said[level] = run.stderr
    assert said["error"] == ""
    assert "\nmsmemscope: leaks not judged: " in said["warn"]
    for words in ("observed devices: cpu; events: ", ": observed ", "event log in /"):
        assert words in said["info"], words
        assert words not in said["warn"], words
    assert "\nmsmemscope: leaks not judged: " in said["info"]
