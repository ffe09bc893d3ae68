"""Whatever a program does with PyTorch's dispatcher, it gets the same result under the tool, in every collection mode."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.forked import run_forked
from tests.support.nightly import NIGHT, nightly
from tests.support.recordings import assert_sound, events_of
from tests.support.targets import SOURCES
from tests.support.warm import run_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import RunUnderTool
    from tests.support.tool import ToolRun

pytestmark = [pytest.mark.torch, pytest.mark.slow]

FEATURES = re.findall(r"@feature\ndef (\w+)", (SOURCES / "torch_features.py").read_text(encoding="utf-8"))

WITHOUT_MEMORY = {"meta_device"}
"""Features that allocate nothing that is observed."""


EVERYTHING = ("--events=alloc,free,launch,access", "--call-stack=python:20,c:5")
"""Everything is collected that can be."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[ToolRun, ToolRun]]:
    """Each feature under the tool and without it, in forked processes."""
    source = str(SOURCES / "torch_features.py")
    programs = {
        name: "import runpy, sys, torch\n"
        "torch.set_num_threads(1)\n"
        f"sys.argv[1:] = [{name!r}]\n"
        f"runpy.run_path({source!r}, run_name='__main__')\n"
        for name in FEATURES
    }
    observed = run_forked(programs, tmp_path_factory.mktemp("observed"), EVERYTHING)
    folder = tmp_path_factory.mktemp("alone")
    alone = (
        run_forked(programs, folder)
        if NIGHT
        else {name: run_python(["-c", text], output=folder, variables={}) for name, text in programs.items()}
    )
    return {name: (observed[name], alone[name]) for name in FEATURES}


@pytest.mark.parametrize("name", FEATURES)
def test_the_result_is_the_same(runs: dict[str, tuple[ToolRun, ToolRun]], name: str) -> None:
    """Bit for bit, with everything collected that can be; and the recording is sound."""
    check(name, *runs[name])


@nightly
@pytest.mark.parametrize("name", FEATURES)
def test_the_result_is_the_same_in_a_process_of_its_own(
    python_target: Callable[..., list[str | Path]], run_under_tool: RunUnderTool, run_alone: RunUnderTool, name: str
) -> None:
    """Where torch is imported under the tool for this feature alone."""
    command = python_target("torch_features", name)
    check(name, run_under_tool(command, *EVERYTHING), run_alone(command))


def check(name: str, observed: ToolRun, alone: ToolRun) -> None:
    """Compare a run under the tool with one without it."""
    assert alone.returncode == 0, alone.stderr
    assert observed.returncode == 0, observed.stderr
    assert observed.stdout == alone.stdout
    assert "msmemscope: operators are not collected" not in observed.stderr
    for capture in observed.captures:
        assert_sound(events_of(capture))
    assert observed.captures or name in WITHOUT_MEMORY
