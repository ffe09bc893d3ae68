"""`msmemscope env` prints lines for a shell."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from typing import TYPE_CHECKING

import pytest

from msmemscope.cli.main import main
from msmemscope.launch import preload
from msmemscope.launch.preload_lines import ATB_LIBRARIES, HOOK_LIBRARIES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The libraries of an installation; what they hold does not matter to a shell."""
    place = tmp_path / "it's" / "lib64"
    place.mkdir(parents=True)
    for name in (*HOOK_LIBRARIES, *ATB_LIBRARIES.values(), "libmsmemscope_core.so"):
        (place / name).touch()
    monkeypatch.setattr(preload, "core_library", lambda _config: place / "libmsmemscope_core.so")
    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "ATB_HOME_PATH", "ASAN_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    return place


def values_after(lines: str, **before: str) -> list[str]:
    """LD_PRELOAD and LD_LIBRARY_PATH of a shell that read the lines; `unset` for one that is not set."""
    show = 'printf "%s\\n" "${LD_PRELOAD-unset}" "${LD_LIBRARY_PATH-unset}"'
    # The linker looks at LD_PRELOAD in the environment of what is started: here, nothing is.
    assignments = "".join(f"{name}='{value}'\n" for name, value in before.items())
    script = f"{assignments}{lines}{show}"
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_shell_can_read_the_lines(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quotes of names included; taken back, the variables are as before."""
    assert main(["env"]) == 0
    lines = capsys.readouterr().out
    exported = [line.partition("=")[0] for line in lines.splitlines()]
    assert sorted(exported) == ["export ASAN_OPTIONS", "export LD_LIBRARY_PATH", "export LD_PRELOAD"]
    preloaded, searched = values_after(lines)
    assert preloaded.split(":")[0] == str(folder / HOOK_LIBRARIES[0])
    assert searched == str(folder)

    monkeypatch.setenv("LD_PRELOAD", preloaded)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{searched}:/usr/lib")
    assert main(["env", "--unset"]) == 0
    lines = capsys.readouterr().out
    assert values_after(lines, LD_PRELOAD="x", LD_LIBRARY_PATH="y") == ["unset", "/usr/lib"]


@pytest.mark.usefixtures("folder")
def test_options_travel_to_every_program(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As the settings text, which has lines; and --unset takes it back."""
    output = tmp_path / "results"
    assert main(["env", "--", "--device=npu:1", f"--output={output}", "--events=alloc"]) == 0
    lines = capsys.readouterr().out
    script = f'{lines}printf "%s" "$MSMEMSCOPE_SETTINGS"'
    text = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    assert {"devices=npu:1", f"output={output}", "events=alloc,free", "collect_mode=immediate"} <= set(text.split("\n"))
    assert main(["env", "--unset"]) == 0
    assert "unset MSMEMSCOPE_SETTINGS\n" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--device=gpu"], ["python", "train.py"], ["--help"], ["--spam"]])
@pytest.mark.usefixtures("folder")
def test_wrong_options_print_nothing_to_execute(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, and the reason on stderr."""
    assert main(["env", "--", *wrong]) == 2
    printed = capsys.readouterr()
    assert "msmemscope" in printed.err
    assert printed.out == ""


@pytest.mark.usefixtures("folder")
def test_without_the_native_library(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A message and status 1; nothing that a shell would execute."""
    monkeypatch.setattr(preload, "core_library", lambda _config: None)
    assert main(["env"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "the native library is missing" in captured.err


def test_bash_can_source_the_command() -> None:
    """The installed file is a command, and sourced it changes the shell; all of it is taken back."""
    script = """
        export LD_LIBRARY_PATH=/keep
        show() { echo "$1 [${LD_PRELOAD-unset}] ${LD_LIBRARY_PATH-unset}"; }
        source msmemscope --load-api-env; loaded=$LD_PRELOAD; show $?
        source msmemscope --unload-api-env; show $?
        source msmemscope --other; show $?
        type -t __msmemscope_source
        msmemscope --load-api-env; echo $?
    """
    search = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} | {"PATH": search}
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, env=environment)
    loaded, unloaded, refused, executed = run.stdout.splitlines()
    assert all(loaded.count(f"/{name}") == 1 for name in HOOK_LIBRARIES), run.stderr
    assert loaded.startswith("0 [/")
    assert loaded.endswith("/msmemscope/lib64:/keep")
    assert unloaded == "0 [unset] /keep"
    assert refused == "1 [unset] /keep"
    assert executed == "2"
    assert "only --load-api-env and --unload-api-env can be sourced, not '--other'" in run.stderr
    assert "hint: source msmemscope --load-api-env" in run.stderr
