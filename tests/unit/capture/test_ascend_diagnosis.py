"""Each layer of the Ascend stack is found, or its absence explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from msmemscope.capture.findings import Finding, Status
from msmemscope.launch import ascend_diagnosis
from msmemscope.launch.ascend_diagnosis import diagnose_ascend

if TYPE_CHECKING:
    from pathlib import Path


def findings(environment: dict[str, str]) -> dict[str, Finding]:
    """The outcome of each check; what is not well says what to do."""
    found = {finding.subject: finding for finding in diagnose_ascend(environment)}
    for finding in found.values():
        assert finding.detail
        assert finding.status is Status.OK or finding.advice
        assert not finding.is_fatal
    return found


def packages(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    """Let these packages be installed."""
    monkeypatch.setattr(ascend_diagnosis, "_installed", versions.get)


def test_with_nothing_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lines are enough."""
    packages(monkeypatch)
    found = findings({})
    assert set(found) == {"CANN", "torch_npu"}
    assert {finding.status for finding in found.values()} <= {Status.MISSING, Status.WARN}


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    """An environment of another machine, or of a CANN that was removed."""
    found = findings({"ASCEND_TOOLKIT_HOME": str(tmp_path / "gone")})
    assert "which is not there" in found["CANN"].detail


def test_an_installation_without_its_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer says what is missing and what that means."""
    packages(monkeypatch)
    monkeypatch.setattr(ascend_diagnosis, "_PLACES", ())
    (tmp_path / "version.info").write_text("Version=8.5.0\n", encoding="utf-8")
    found = findings({"ASCEND_HOME_PATH": str(tmp_path), "ATB_HOME_PATH": str(tmp_path / "atb")})
    assert found["CANN"].detail == f"8.5.0, {tmp_path}"
    layers = ("driver (HAL)", "runtime (ACL)", "kernels", "mstx", "torch_npu", "ATB", "DCMI")
    assert all(found[layer].status is not Status.OK for layer in layers)


def test_libraries_that_cannot_be_read(tmp_path: Path) -> None:
    """A file of that name is not enough where its functions matter."""
    (tmp_path / "lib64").mkdir()
    (tmp_path / "atb" / "lib").mkdir(parents=True)
    for name in ("libascend_hal.so", "libascendcl.so", "libms_tools_ext.so", "libdcmi.so"):
        (tmp_path / "lib64" / name).write_text("no library", encoding="utf-8")
    (tmp_path / "atb" / "lib" / "libatb.so").write_text("no library", encoding="utf-8")
    found = findings({"ASCEND_HOME_PATH": str(tmp_path), "ATB_HOME_PATH": str(tmp_path / "atb")})
    assert found["driver (HAL)"].status is Status.WARN
    assert found["mstx"].status is Status.OK
    assert found["ATB"].status is Status.WARN
    assert "lacks dcmi_" in found["DCMI"].detail


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [
        ("2.13.0", True),
        ("2.5.1", True),
        ("2.4.0.post4", True),
        ("2.4.0.post2", False),
        ("2.3.1.post6", True),
        ("2.1.0.post13", True),
        ("2.1.0", False),
        ("2.2.0", False),
        ("1.11.0.post14", False),
    ],
)
def test_versions_of_torch_npu(monkeypatch: pytest.MonkeyPatch, version: str, *, is_enough: bool) -> None:
    """Those of Ascend Extension for PyTorch 7.0.0 and newer."""
    packages(monkeypatch, torch_npu=version)
    assert (findings({})["torch_npu"].status is Status.OK) is is_enough


@pytest.mark.parametrize(("version", "status"), [("2.7.0", Status.OK), ("2.6.0", Status.WARN)])
def test_versions_of_mindspore(monkeypatch: pytest.MonkeyPatch, version: str, status: Status) -> None:
    """From 2.7.0 on."""
    packages(monkeypatch, mindspore=version)
    assert findings({})["mindspore"].status is status
