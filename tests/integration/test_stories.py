"""The stories of docs/stories.md and the first command of README.md run as for a reader, and print what the pages show.

By default they run with this checkout. `MSMEMSCOPE_STORIES_ENVIRONMENT=FOLDER` names a virtual environment to run them
in instead, with the wheels installed (and torch, transformers aside). With `-s`, a stop watch prints commands and
seconds of each part. It also prints how many of our lines a reader passes before the one that names the culprit.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.first_screens.measure import normalised
from tests.support.ascend import NotInstalledError, torch_npu_folder, virtual_npu_environment
from tests.support.nightly import NIGHT, nightly
from tests.support.targets import environment

ROOT = Path(__file__).parents[2]
STORIES = (ROOT / "docs" / "stories.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
ON_NPU = "vnpu run "
INSTALLED = os.environ.get("MSMEMSCOPE_STORIES_ENVIRONMENT")
"""An environment with the wheels."""

WHOLE_BY_DAY = "My job leaks"
"""The one story that by day is told up to the mended program, and on the virtual NPU."""
OF_MANY_RANKS = "One rank of many is different"
"""Two jobs of four processes with torch each."""

pytestmark = [pytest.mark.torch, pytest.mark.slow]


class Shown(NamedTuple):
    """A command of the page, and the lines behind it."""

    command: str
    output: str


def shown_in(text: str) -> list[Shown]:
    """The commands of a story, in their order."""
    fences = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(fences), re.MULTILINE)
    return [Shown(*one) for one in found]


def is_mended(shown: Shown) -> bool:
    """Whether a command runs the program without its fault."""
    return "nothing found" in shown.output


def parts() -> list[object]:
    """The parts that run in a folder of their own: a story on the CPU, and each command for the virtual NPU.

    By day, one story alone shows that a mended program is found to be without fault.
    """
    chosen: list[object] = []
    for story in re.split(r"^## ", STORIES, flags=re.MULTILINE)[1:]:
        name = story.partition("\n")[0]
        commands = shown_in(story)
        is_whole = bool(NIGHT) or name == WHOLE_BY_DAY
        on_cpu = [one for one in commands if not one.command.startswith(ON_NPU) and (is_whole or not is_mended(one))]
        chosen.append(pytest.param(on_cpu, id=name, marks=[nightly] if name == OF_MANY_RANKS else []))
        for one in commands:
            if one.command.startswith(ON_NPU):
                marks = [nightly] if is_mended(one) or name != WHOLE_BY_DAY else []
                chosen.append(pytest.param([one], id=f"{name}, NPU{' mended' * is_mended(one)}", marks=marks))
    return chosen


def comparable(text: str) -> str:
    """Text without line breaks and without numbers that differ between machines: those of lines and steps stay."""
    text = " ".join(text.split())
    return re.sub(
        r"[\d,.]+(?= (?:[KMG]iB|events|blocks))|(?<=answers\[)\d+(?=\])|(?<= and )\d+(?= more lines)"
        # Which loss is named depends on when the search for holders had time.
        r"|(?<=main\.history\[)\d+(?=\])"
        # Looks at containers come by the clock.
        r"|[\d,]+(?= now)|(?<=in steps )\d+(?= to (?:1,?9\d\d|2,?000)\b)|(?<= to )(?:1,?9\d\d|2,?000)(?=, outside)",
        "N",
        text,
    )


def lines_to_culprit(printed: str) -> int | None:
    """How many lines of ours are read up to the first that names a line of the program; None if none does."""
    lines = printed.splitlines()
    first = next((index for index, line in enumerate(lines) if line.startswith("msmemscope:")), 0)
    return next((index for index, line in enumerate(lines[first:], 1) if re.search(r"\.py\(\d+\)", line)), None)


def variables_for(commands: list[Shown]) -> dict[str, str]:
    """The environment that commands run in; skips the test where the virtual NPU is needed and missing."""
    variables = environment()
    if commands[0].command.startswith(ON_NPU):
        try:
            variables = (
                environment(PYTHONPATH=str(torch_npu_folder()))
                if INSTALLED
                else virtual_npu_environment(with_torch=True)
            )
        except NotInstalledError as error:
            pytest.skip(str(error))
    scripts = Path(INSTALLED) / "bin" if INSTALLED else Path(sys.executable).parent
    variables["PATH"] = os.pathsep.join([str(scripts), variables.get("PATH", os.environ["PATH"])])
    return variables


@pytest.mark.parametrize("commands", parts())
def test_from_the_symptom_to_the_line(commands: list[Shown], tmp_path: Path) -> None:
    """Every command prints what the page shows, in the folder that the ones before it left."""
    pytest.importorskip("torch")
    assert commands
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    variables = variables_for(commands)
    begin, culprits = time.perf_counter(), []
    for command, output in commands:
        run = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, timeout=300,
        )  # fmt: skip
        printed = run.stdout + run.stderr
        assert "Traceback" not in run.stderr or "out of memory" in output, printed
        assert comparable(output) in comparable(printed), printed
        culprits.append((time.perf_counter() - begin, lines_to_culprit(printed)))
    named = [(number, *one) for number, one in enumerate(culprits, 1) if one[1] is not None]
    found = "culprit: command {}, {:.0f} s, line {}; ".format(*named[0]) if named else ""
    print(f"\n{found}{len(commands)} commands, {time.perf_counter() - begin:.0f} s")  # noqa: T201 - with -s alone


def test_the_first_command_prints_what_the_readme_shows(tmp_path: Path) -> None:
    """The whole screen is as shown, except for times, sizes, numbers of blocks, and the curve.

    These differ from run to run.
    """
    pytest.importorskip("torch")
    (shown,) = [one for one in shown_in(README) if one.output]
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    run = subprocess.run(
        ["bash", "-c", shown.command], cwd=tmp_path, env=variables_for([shown]), capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    screens = [comparable(normalised(text, tmp_path)) for text in (shown.output, run.stderr)]
    expected, found = (re.sub(r"(?<=iB )\d+", "N", screen) for screen in screens)
    assert found == expected


def test_every_story_has_both_forms() -> None:
    """A fault that is found, and the mended program, on the CPU and on the NPU."""
    for story in re.split(r"^## ", STORIES, flags=re.MULTILINE)[1:]:
        outputs = [(one.command.startswith(ON_NPU), is_mended(one)) for one in shown_in(story) if one.output]
        assert sorted(outputs) == [(False, False), (False, True), (True, False), (True, True)]
