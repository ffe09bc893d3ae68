"""Folders of other users, and programs that run as other users: named, in one line, and otherwise as without us."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from msmemscope.capture.output_root import prepare_output_root
from msmemscope.cluster.capture_task import TaskOptions, summarise_capture
from msmemscope.cluster.captures import find_captures
from tests.fakes.event_log_builder import EventLogBuilder
from tests.support import tool
from tests.support.targets import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import RunUnderTool
    from tests.support.targets import Builder

NOBODY = 65534
IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can make files of other users, or become one")

IDENTITY = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char** words) {
    printf("uid=%d euid=%d\\n", (int)getuid(), (int)geteuid());
    fflush(stdout);
    if (count > 1) {
        clearenv();
        execv(words[1], words + 1);
    }
    return 5;
}
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def identity_program(open_folder: Path) -> Path:
    """A program that says who it is, and becomes the program that its arguments name, in an empty environment."""
    if shutil.which("cc") is None:
        pytest.skip("no cc on PATH")
    program = open_folder / "identity"
    subprocess.run(["cc", "-x", "c", "-", "-o", program], input=IDENTITY, text=True, check=True)
    return program


def as_nobody(action: Callable[[], None]) -> None:
    """Do something as another user than root, in a process of its own."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            action()
            status = 0
        except BaseException:  # noqa: BLE001 - this process must not come back
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def words(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


def warnings_about(path: Path) -> list[str]:
    """The warnings about an output root, without the one that root always gets."""
    return [line for line in prepare_output_root(str(path)).warnings if "running as root" not in line]


@needs_root
def test_a_folder_of_another_user_is_named_to_root(open_folder: Path) -> None:
    """The folder itself, and one on the way in which that user can put anything."""
    own, foreign = open_folder / "own", open_folder / "foreign"
    own.mkdir()
    foreign.mkdir()
    os.chown(foreign, NOBODY, NOBODY)
    assert warnings_about(own) == []
    assert warnings_about(foreign) == [f"{foreign} belongs to the user nobody: make sure that it is to be trusted"]
    below = foreign / "below"
    expected = f"the user nobody can write to {foreign}, on the way to {below}, and could change the results"
    assert warnings_about(below) == [expected]
    os.chown(foreign, 4_000_000, -1)
    assert warnings_about(foreign)[0].startswith(f"{foreign} belongs to the user 4000000: ")


@needs_root
def test_a_folder_of_another_user_is_named_to_others(open_folder: Path) -> None:
    """Of root too, where it is open to all."""
    shared = open_folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)

    def check() -> None:
        assert prepare_output_root(str(shared)).warnings == (
            f"{shared} belongs to the user root: make sure that it is to be trusted",
            f"other users can write to {shared}: they could change the results",
        )

    as_nobody(check)


@needs_root
def test_a_run_into_a_folder_of_another_user(
    python_target: Callable[..., list[str | Path]], target_builder: Builder, open_folder: Path
) -> None:
    """It goes on, with a line; the results are the user's who ran it."""
    foreign = open_folder / "foreign"
    foreign.mkdir()
    os.chown(foreign, NOBODY, NOBODY)
    command = python_target("leaky_steps", str(target_builder.library()), "5")
    run = tool.run([*tool.TOOL, "--device=cpu", f"--output={foreign}", "--", *command], output=foreign)
    assert run.returncode == 0, run.stderr
    assert run.stderr.count(f"{foreign} belongs to the user nobody") == 1
    assert "msmemscope: leak: " in run.stderr
    assert {path.stat().st_uid for path in run.capture.directory.rglob("*")} == {0}


def alone_and_observed(command: list[object], folder: Path) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run a program as it is and under the tool, check that it cannot tell, and return the run and our words."""
    alone, observed = (
        subprocess.run(
            list(map(str, line)),
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
            cwd=folder,
            timeout=120,
        )
        for line in (command, [*tool.TOOL, "--device=cpu", "--output=output", "--", *command])
    )
    assert (observed.returncode, observed.stdout) == (alone.returncode, alone.stdout), observed.stderr
    assert "Traceback" not in observed.stderr
    return observed, words(observed.stderr)


@needs_root
@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6755], ids=["user", "group", "both"])
def test_a_program_that_runs_as_another_user(identity_program: Path, open_folder: Path, mode: int) -> None:
    """The dynamic linker keeps us out; the summary says so, and nothing is left on disk."""
    os.chown(identity_program, NOBODY, NOBODY)
    identity_program.chmod(mode)
    observed, text = alone_and_observed([identity_program], open_folder)
    assert f"euid={NOBODY if mode & 0o4000 else 0}" in observed.stdout
    kind = "user's identity (set-user-ID)" if mode & 0o4000 else "group's identity (set-group-ID)"
    assert f"not observed: {identity_program} runs under another {kind}, so that no library can be preloaded" in text
    assert not (open_folder / "output").exists()


@pytest.mark.skipif(IS_ROOT, reason="for root a program of root runs under no other identity")
@pytest.mark.skipif(shutil.which("su") is None, reason="no su on PATH")
def test_a_program_of_the_system_that_runs_as_root(tmp_path: Path) -> None:
    """Every machine has a set-user-ID program such as `su`. If a user who is not root runs it, the tool names it."""
    _, text = alone_and_observed(["su", "--version"], tmp_path)
    assert "runs under another user's identity (set-user-ID)" in text


def test_a_program_without_effect_of_its_rights(identity_program: Path, open_folder: Path) -> None:
    """Where no rights can be gained, as in many containers, it is observed like any other."""
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv on PATH")
    if IS_ROOT:
        os.chown(identity_program, NOBODY, NOBODY)
    identity_program.chmod(0o4755)
    line: list[str | Path] = [
        "setpriv",
        "--no-new-privs",
        *tool.TOOL,
        "--device=cpu",
        "--output=output",
        "--",
        identity_program,
    ]
    run = subprocess.run(
        line, capture_output=True, text=True, check=False, env=environment(), cwd=open_folder, timeout=120
    )
    assert run.stdout == f"uid={os.getuid()} euid={os.getuid()}\n"
    assert "identity" not in run.stderr.replace("process: identity", "")
    assert "nothing to record in 1 process: identity" in run.stderr


def test_a_program_that_starts_others_as_another_user(identity_program: Path, open_folder: Path) -> None:
    """`sudo` gives them an environment of their own: the line says where msmemscope belongs instead."""
    sudo = identity_program.rename(open_folder / "sudo")
    if IS_ROOT:
        os.chown(sudo, NOBODY, NOBODY)
        sudo.chmod(0o4755)
    observed, text = alone_and_observed([sudo, shutil.which("true")], open_folder)
    assert observed.returncode == 0
    assert "sudo starts programs in an environment of their own, in which they are not observed" in text
    assert "put msmemscope behind it (sudo msmemscope ...)" in text


@needs_root
def test_a_program_that_gives_up_its_rights(
    target_builder: Builder, run_under_tool: RunUnderTool, tmp_path: Path
) -> None:
    """The log cannot grow any more: the program goes on, and the summary says so and has what was recorded before."""
    program = tmp_path / "program.py"
    program.write_text(
        "import ctypes, os, sys\n"
        "library = ctypes.CDLL(sys.argv[1])\nlibrary.fake_tensor_allocate.restype = ctypes.c_void_p\n"
        "library.fake_tensor_allocate(4096)\n"
        f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "for _ in range(50_000): library.fake_tensor_allocate(64)\n"
        "print(f'euid={os.geteuid()}')\n"
    )
    run = run_under_tool([sys.executable, program, target_builder.library()])
    assert (run.returncode, run.stdout) == (0, f"euid={NOBODY}\n"), run.stderr
    assert "recording stopped early: Permission denied" in words(run.stderr)
    assert "Peak on cpu (HOST)" in run.stderr


@needs_root
def test_a_capture_of_another_user_is_a_line_of_the_answer_about_a_job(open_folder: Path) -> None:
    """It is found, and whoever may not read it is told so."""
    log = EventLogBuilder(open_folder / "job", 1)
    log.malloc(0x1000, 64)
    (open_folder / "job").mkdir(mode=0o755)
    log.write().chmod(0o700)

    def look() -> None:
        (location,) = find_captures([str(open_folder / "job")]).locations
        outcome = summarise_capture(location, TaskOptions(cache=None))
        assert "Permission denied" in outcome.failure, outcome.failure
        assert not outcome.content

    assert summarise_capture(str(log.directory), TaskOptions(cache=None)).content
    as_nobody(look)
