"""`doctor`: every check says ok, or what to do."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from msmemscope.capture.findings import Finding, Status
from msmemscope.cli.main import main
from msmemscope.configuration import Config
from msmemscope.launch import diagnosis
from msmemscope.launch.attaching import remote_call
from msmemscope.launch.diagnosis import diagnose
from msmemscope.launch.preload import core_library, native_directory
from msmemscope.launch.shared_library import exported_functions, imported_functions

INSTALLED = dataclasses.replace(Config(), native_directory=native_directory(Config().package))


def findings(config: Config) -> dict[str, Finding]:
    """The outcome of each check."""
    return {finding.subject: finding for finding in diagnose(config)}


def test_what_is_not_ok_says_what_to_do(tmp_path: Path) -> None:
    """And nothing is left behind."""
    found = findings(Config(output=str(tmp_path / "output")))
    assert {
        "system",
        "python",
        "native core",
        "torch",
        "torch_npu",
        "CANN",
        "output root",
        "disk space",
        "fallocate",
    } <= set(found)
    for finding in found.values():
        assert finding.detail
        assert (finding.status is Status.OK) or finding.advice, finding.subject
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(core_library(INSTALLED) is None, reason="the native library was not built")
def test_a_machine_that_can_observe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 0, one line per check on stdout."""
    assert main(["doctor", f"--output={tmp_path}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "ok        self test: a tiny program was observed" in lines
    assert all(line[:10].strip() in {"ok", "warn", "missing", ""} for line in lines)


def test_without_the_native_library_nothing_can_be_observed(tmp_path: Path) -> None:
    """The one check that is fatal is named; the self test is not even tried."""
    found = findings(Config(output=str(tmp_path), package=str(tmp_path)))
    core = found["native core"]
    if core_library(dataclasses.replace(Config(), package=str(tmp_path))) is None and core.status is not Status.OK:
        assert core.is_fatal
        assert "self test" not in found


def test_exit_status_when_nothing_can_be_observed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1."""

    def nothing(_config: Config) -> list[Finding]:
        return [Finding(Status.MISSING, "native core", "not there", "build it", is_fatal=True)]

    monkeypatch.setattr(diagnosis, "diagnose", nothing)
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "missing   native core: not there",
        "          build it",
        "Nothing can be observed on this machine until that is solved.",
    ]


def test_environment_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries that are preloaded already are named."""
    monkeypatch.setitem(os.environ, "LD_PRELOAD", "")
    assert "LD_PRELOAD" not in findings(Config(output=str(tmp_path)))
    monkeypatch.setattr(os, "environ", {**os.environ, "LD_PRELOAD": "/lib/some.so"})
    checks = {finding.subject: finding for finding in diagnosis._check_environment()}
    assert checks["LD_PRELOAD"].detail == "/lib/some.so"


def test_functions_that_a_library_calls() -> None:
    """The C++ library of this machine calls malloc through its import table."""
    candidates = [path for path in map(Path, ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib")) if path.is_dir()]
    library = next((found for path in candidates for found in path.glob("libstdc++.so.6")), None)
    if library is None:
        pytest.skip("no libstdc++ in the usual places")
    assert "malloc" in imported_functions(library)
    assert "malloc" not in exported_functions(library)
    assert "__cxa_throw" in exported_functions(library)


@pytest.mark.parametrize(
    ("scope", "capabilities", "status"),
    [
        ("0", "0", Status.OK),
        ("1", "0", Status.MISSING),
        ("1", "80000", Status.OK),
        ("2", "80000", Status.OK),
        ("3", "80000", Status.MISSING),
    ],
)
def test_tracing_is_for_attaching_only(
    scope: str, capabilities: str, status: Status, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the right to it everything else works."""
    (tmp_path / "ptrace_scope").write_text(f"{scope}\n", encoding="ascii")
    (tmp_path / "status").write_text(f"Name:\tpython\nCapEff:\t{capabilities}\n", encoding="ascii")
    monkeypatch.setattr(remote_call, "YAMA", tmp_path / "ptrace_scope")
    monkeypatch.setattr(remote_call, "OWN_STATUS", tmp_path / "status")
    found = findings(Config(output=str(tmp_path / "output")))["tracing"]
    assert (found.status, found.is_fatal) == (status, False)
    assert "msmemscope attach" in f"{found.detail} {found.advice}"
