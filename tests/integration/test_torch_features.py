"""Whatever a program does with PyTorch's dispatcher, it gets the same result under the tool, in every collection mode."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.recordings import assert_sound, events_of
from tests.support.targets import SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunUnderTool

pytestmark = [pytest.mark.torch, pytest.mark.slow]

FEATURES = re.findall(r"@feature\ndef (\w+)", (SOURCES / "torch_features.py").read_text(encoding="utf-8"))

WITHOUT_MEMORY = {"meta_device"}
"""Features that allocate nothing that is observed."""


@pytest.mark.parametrize("name", FEATURES)
def test_the_result_is_the_same(
    python_target: Callable[..., list[str | Path]], run_under_tool: RunUnderTool, run_alone: RunUnderTool, name: str
) -> None:
    """Bit for bit, with everything collected that can be; and the recording is sound."""
    command = python_target("torch_features", name)
    alone = run_alone(command)
    assert alone.returncode == 0, alone.stderr
    run = run_under_tool(command, "--events=alloc,free,launch,access", "--call-stack=python:20,c:5")
    assert run.returncode == 0, run.stderr
    assert run.stdout == alone.stdout
    assert "msmemscope: operators are not collected" not in run.stderr
    for capture in run.captures:
        assert_sound(events_of(capture))
    assert run.captures or name in WITHOUT_MEMORY
