"""Whatever becomes of the output folder: the program runs as without us, a line says what happened, no link is followed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.capture.output_root import prepare_output_root, remove_if_empty
from msmemscope.launch import ledger
from tests.support import tool
from tests.support.nightly import NIGHT, nightly
from tests.support.targets import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _pytest.mark import ParameterSet

    from tests.conftest import RunUnderTool
    from tests.support.targets import Builder

FEW, MANY = "10", "50000"
"""Blocks that fit into the part of the log that is mapped already, and such that make it grow."""
STEPS = (4, 5, 6) if NIGHT else (4, 5)
"""Of programs that run at once."""
PRECIOUS = b"precious " * 30_000


@pytest.fixture
def meddle(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, run_under_tool: RunUnderTool, output: Path
) -> Callable[..., tool.ToolRun]:
    """Run the program that meddles with its output folder."""

    def run(what: str, blocks: str, *options: str) -> tool.ToolRun:
        (output.parent / "victim").write_bytes(PRECIOUS)
        command = python_target("meddles", str(target_builder.library()), str(output), what, blocks)
        seen = run_under_tool(command, *options)
        assert (seen.returncode, seen.stdout) == (0, "done=1\n"), seen.stderr
        assert "Traceback" not in seen.stderr
        assert "error:" not in seen.stderr
        return seen

    return run


def words(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


def cases(names: Sequence[str], variants: Sequence[Any], by_day: Sequence[str]) -> list[ParameterSet]:
    """Each name with each variant: one variant by day, in turns, and the others at night.

    Args:
        names: Names of functions of the program that meddles.
        variants: The variants to try each name with.
        by_day: The names that use the second variant by day. The others use the first one.
    """
    return [
        pytest.param(name, variant, marks=[] if number == int(name in by_day) else nightly, id=f"{name} {number}")
        for name in names
        for number, variant in enumerate(variants)
    ]


PLACES = {
    "remove_root": "the output folder",
    "move_root": "the output folder",
    "replace_root": "the output folder",
    "remove_capture": "_ascend",
    "remove_log": "_ascend",
}
"""The change that takes results away, and the place of the results as the summary names it."""


@pytest.mark.parametrize(
    ("what", "blocks"), cases([*PLACES], [FEW, MANY], by_day=["remove_root", "replace_root", "remove_log"])
)
def test_results_that_are_taken_away(meddle: Callable[..., tool.ToolRun], what: str, blocks: str, output: Path) -> None:
    """The summary says that they were there, and are gone."""
    place = PLACES[what]
    seen = meddle(what, blocks)
    assert "msmemscope: nothing was recorded" in seen.stderr
    assert f"{place} was removed or moved while the program ran" in words(seen.stderr)
    assert "nothing to record in" not in seen.stderr
    assert seen.stderr.count("the folder is gone") == int(blocks == MANY)
    if what != "remove_root" and place == "the output folder":
        recovered = tool.run([*tool.TOOL, "recover", output.parent / "moved"], output=output.parent / "moved")
        assert recovered.returncode == 0
        assert "Peak on cpu" in recovered.stderr


def test_a_ledger_that_is_taken_away(meddle: Callable[..., tool.ToolRun]) -> None:
    """It only helps to find what was recorded."""
    seen = meddle("remove_ledger", FEW)
    assert "Peak on cpu (HOST): 80.0 KiB in 20 blocks" in seen.stderr
    assert "was removed" not in seen.stderr


def test_results_that_are_taken_away_from_a_program_without_launcher(tmp_path: Path, target_builder: Builder) -> None:
    """The same line, at its end."""
    program = tmp_path / "program.py"
    program.write_text(
        "import ctypes, shutil, sys, msmemscope\n"
        "library = ctypes.CDLL(sys.argv[1])\nlibrary.fake_tensor_allocate.restype = ctypes.c_void_p\n"
        "msmemscope.config(output='results', device='cpu')\nmsmemscope.start()\n"
        "library.fake_tensor_allocate(4096)\nshutil.rmtree('results')\n"
    )
    run = subprocess.run(
        [*tool.TOOL[:1], program, target_builder.library()],
        cwd=tmp_path, capture_output=True, text=True, check=False, env=environment(), timeout=120,
    )  # fmt: skip
    assert (run.returncode, run.stdout) == (0, "")
    (line,) = run.stderr.splitlines()
    assert f"{tmp_path}/results was removed or moved while the program ran" in line


@pytest.mark.parametrize(
    ("what", "options"),
    cases(
        ["link_segments", "hard_link_segments", "link_log"],
        [[], ["--max-size=1M"]],
        by_day=["link_segments", "link_log"],
    ),
)
def test_links_in_the_place_of_the_event_log(
    meddle: Callable[..., tool.ToolRun], what: str, options: list[str], output: Path
) -> None:
    """Not a byte goes through them: recording stops with a line."""
    seen = meddle(what, MANY, *options)
    assert (output.parent / "victim").read_bytes() == PRECIOUS
    assert all(path.read_bytes() == PRECIOUS for path in output.parent.glob("elsewhere/*"))
    (line,) = [line for line in seen.stderr.splitlines() if "recording stopped: growing the event log" in line]
    assert ("was replaced" in line) or ("a symbolic link stands in the way" in line)
    assert "the program goes on" in line


def test_links_while_the_oldest_events_are_dropped(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, run_under_tool: RunUnderTool, output: Path
) -> None:
    """The flight recorder opens its files again to clear parts of them."""
    victim = output.parent / "victim"
    victim.write_bytes(PRECIOUS * 8)
    program = output.parent / "program.py"
    meddling = Path(python_target("meddles")[1]).read_text(encoding="utf-8")
    program.write_text(meddling.replace("for _ in range(10)", "for _ in range(40_000)"))
    command = [tool.TOOL[0], program, target_builder.library(), output, "hard_link_segments", MANY]
    seen = run_under_tool(command, "--max-size=1M")
    assert (seen.returncode, seen.stdout) == (0, "done=1\n"), seen.stderr
    assert victim.read_bytes() == PRECIOUS * 8
    assert "one of its files was replaced by another one" in seen.stderr


@pytest.mark.parametrize("what", ["hard_link_ledger", "link_ledger"])
def test_links_in_the_place_of_the_ledger(meddle: Callable[..., tool.ToolRun], what: str, output: Path) -> None:
    """Neither a process nor the launcher writes into them, and what is recorded is found without the ledger."""
    seen = meddle(what, FEW)
    assert (output.parent / "victim").read_bytes() == PRECIOUS
    assert all(path.read_bytes() == PRECIOUS for path in output.parent.glob("elsewhere/*"))
    assert "Peak on cpu (HOST): 80.0 KiB in 20 blocks" in seen.stderr


def test_a_ledger_of_somebody_else_is_not_believed(tmp_path: Path) -> None:
    """It could name any folder for us to write dumps into."""
    directory = ledger.create_launch_directory(str(tmp_path))
    other = tmp_path / "other"
    other.write_text("capture\t1\t/somewhere\n")
    path = directory / "processes"
    path.unlink()
    path.hardlink_to(other)
    assert ledger.read_ledger(directory) == ledger.Ledger()
    ledger.append_captures(directory, {Path("/x"): 1})
    assert other.read_text() == "capture\t1\t/somewhere\n"
    path.unlink()
    path.symlink_to(other)
    assert ledger.read_ledger(directory) == ledger.Ledger()


def test_a_folder_in_the_place_of_the_launch_is_not_emptied(tmp_path: Path) -> None:
    """Other users could have renamed one of the user's own."""
    directory = ledger.create_launch_directory(str(tmp_path))
    (directory / "results").mkdir()
    (directory / "results" / "file").write_text("precious")
    ledger.remove_launch_directory(directory)
    assert (directory / "results" / "file").read_text() == "precious"
    empty = ledger.create_launch_directory(str(tmp_path))
    (empty / "lib64").symlink_to("/usr/lib")
    ledger.remove_launch_directory(empty)
    assert not empty.exists()


def test_two_runs_share_a_folder(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, output: Path
) -> None:
    """Each has the results of its own program, and takes nothing away from the other."""
    commands = [python_target("leaky_steps", str(target_builder.library()), str(steps)) for steps in STEPS]
    runs = [
        subprocess.Popen(
            [*tool.TOOL, "--device=cpu", f"--output={output}", "--", *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
        )
        for command in commands
    ]  # fmt: skip
    for run, steps in zip(runs, STEPS, strict=True):
        _, text = run.communicate(timeout=120)
        assert run.returncode == 0, text
        assert text.count("msmemscope: leak: ") == 1, text
        assert f"in steps 2 to {steps - 1} next:" in words(text), text
    assert len(list(output.glob("msmemscope_*_ascend"))) == len(STEPS)
    assert list(output.glob(".launch_*")) == []


def test_launches_with_the_same_process_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers that share a folder can begin in the same second: each has a ledger of its own."""
    monkeypatch.setattr("msmemscope.launch.ledger.time.strftime", lambda _form: "20240101120000")
    directories = {ledger.create_launch_directory(str(tmp_path)) for _ in range(3)}
    assert len(directories) == 3


def test_a_root_that_another_launch_took_away(tmp_path: Path) -> None:
    """It was empty when that one ended, and is made again."""
    first = prepare_output_root(str(tmp_path / "output"))
    prepare_output_root(str(tmp_path / "output"))
    remove_if_empty(first)
    assert ledger.create_launch_directory(str(tmp_path / "output")).is_dir()


def test_a_root_that_was_replaced_is_not_taken_away(tmp_path: Path) -> None:
    """The one that is there now is not ours."""
    root = prepare_output_root(str(tmp_path / "output"))
    (tmp_path / "output").rename(tmp_path / "moved")
    (tmp_path / "output").mkdir()
    assert not root.is_in_place()
    remove_if_empty(root)
    assert (tmp_path / "output").is_dir()
    assert list((tmp_path / "moved").iterdir()) == []
