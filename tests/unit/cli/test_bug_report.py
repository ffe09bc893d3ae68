"""The verb `bug-report`: what is in the file, and above all what is not."""

from __future__ import annotations

import json
import shutil
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.cli.main import main
from msmemscope.launch import bug_report
from msmemscope.launch.redaction import Redaction
from tests.fakes.event_log_builder import ATEN_START, MARK, STEP, EventLogBuilder
from tests.support.recorded_runs import with_dumps, write_run

if TYPE_CHECKING:
    from pathlib import Path

SECRETS = (
    "Quetzal", "Zanzibar", "Xylograph", "Vermicelli", "Tarantella", "Ocarina", "Kumquat", "Jabberwock", "Zorblax", "Yggdrasil",
    "Wolpertinger",
)  # fmt: skip
"""One per place; no word of ours."""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "Quetzal folder"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("API_TOKEN", "Zanzibar opens sesame")
    monkeypatch.setenv("PYTORCH_NPU_ALLOC_CONF", "Zanzibar:1")
    monkeypatch.setenv("LOGNAME", "Zorblax")
    monkeypatch.setattr("socket.gethostname", lambda: "Yggdrasil.example.org")


def _report(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _run_with_secrets(root: Path) -> Path:
    log = EventLogBuilder(root / "Quetzal runs")
    log.fact("argument", "/opt/Xylograph/python")
    log.fact("argument", "--password=Xylograph")
    log.fact("executable", "/opt/Xylograph/python")
    log.fact("message", "could not read Xylograph of Zorblax on Yggdrasil in /home/Quetzal/data, password=Xylograph")
    log.fact("unobserved.torch_operators", "Wolpertinger has its own allocator")
    log.fact("setting.output", "/home/Quetzal/results")
    log.fact("setting.watch", "Vermicelli")
    log.fact("Wolpertinger", "1")
    stack = log.python_stack((log.code("/home/Quetzal/Tarantella.py", "Ocarina", 11), 0))
    log.module("/usr/lib/Kumquat.so", 0x1000, 0x2000, load_bias=0x1000)
    log.add(MARK, name_id=log.string("Vermicelli"))
    log.add(ATEN_START, name_id=log.string("Vermicelli"))
    block = log.malloc(0x1000, 512, python_stack_id=stack, native_stack_id=log.native_stack(0x1500))
    log.owner(block, "1Jabberwock")
    log.add(STEP, size=1)
    capture = log.write()
    (capture / "Quetzal notes.txt").write_text("Quetzal", encoding="utf-8")
    (capture / "Quetzal").mkdir()
    (capture / "Quetzal" / "Quetzal.csv").write_text("Quetzal", encoding="utf-8")
    return capture


def test_no_secret_of_a_capture_is_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor one of the environment, the user or the machine; what went in is printed."""
    capture = _run_with_secrets(tmp_path)
    assert main(["bug-report", str(capture), "-o", "report.zip"]) == 0
    files = _report(tmp_path / "Quetzal folder" / "report.zip")
    assert list(files) == ["version.txt", "doctor.txt", "machine.json", "input-1.json"]
    found = {secret for secret in SECRETS for content in files.values() if secret.lower().encode() in content.lower()}
    assert found == set()
    printed = capsys.readouterr().out
    for name, content in files.items():
        assert f"{name:16}  {len(content):7} bytes  " in printed


def test_with_names_keeps_them_but_no_strings_and_stacks(tmp_path: Path) -> None:
    """The test above would pass for an empty file as well: here the names are."""
    capture = _run_with_secrets(tmp_path)
    assert main(["bug-report", str(capture), "--with-names"]) == 0
    files = _report(tmp_path / "Quetzal folder" / "msmemscope-bug-report.zip")
    text = "".join(map(bytes.decode, files.values()))
    assert {secret for secret in SECRETS if secret in text} == {
        "Quetzal", "Zanzibar", "Xylograph", "Zorblax", "Yggdrasil", "Wolpertinger", "Vermicelli",  # the last is a setting
    }  # fmt: skip


def test_what_is_in_it(tmp_path: Path) -> None:
    """Versions, doctor, settings, coverage, counts, files: what the first questions about a fault ask for."""
    capture = write_run(tmp_path / "runs", steps=2)
    assert main(["bug-report", str(capture), "-o", "report.zip"]) == 0
    files = _report(tmp_path / "Quetzal folder" / "report.zip")
    assert b"msmemscope version 0." in files["version.txt"]
    assert b"ok        python: CPython 3." in files["doctor.txt"]
    content = json.loads(files["input-1.json"])
    (process,) = content["processes"]
    assert (process["form"], process["process_id"]) == ("event log", 4242)
    assert process["facts"]["setting.events"] == ["alloc,free,launch"]
    assert process["facts"]["argument"] == ["<argument 1>", "<argument 2>"]
    assert process["events"]["MALLOC"] == 6
    assert process["blocks"] == [{"device": "cpu", "pool": "HOST", "count": 6, "never_freed": 2}]
    assert process["steps"] == 2
    names = {file["name"]: file["bytes"] for file in content["files"]}
    assert names["event_log/process.header"] > 0


def test_a_fault_of_reading_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the way that it took through our sources, and without what it says of the input."""

    def fails(_: object) -> None:
        message = "Quetzal is no number"
        raise ZeroDivisionError(message)

    monkeypatch.setattr(bug_report, "load_all", fails)
    assert main(["bug-report", str(tmp_path), "-o", "report.zip"]) == 0
    content = json.loads(_report(tmp_path / "Quetzal folder" / "report.zip")["input-1.json"])
    assert "this is a fault of msmemscope: ZeroDivisionError: <word" in content["failure"]
    assert content["traceback"][0].startswith("launch/bug_report.py:")
    assert "Quetzal" not in json.dumps(content)


def test_problems_quote_nothing(tmp_path: Path) -> None:
    """A broken row of a dump is a problem that may quote it."""
    dump = with_dumps(write_run(tmp_path / "runs"))
    moved = tmp_path / "memscope_dump_20240101120000.csv"
    lines = dump.read_text(encoding="utf-8").splitlines()
    lines[3:3] = ["Jabberwock,Jabberwock,Jabberwock", lines[3].replace(",", ",Jabberwock", 3)]
    moved.write_text("\n".join(lines), encoding="utf-8")
    assert main(["bug-report", str(moved), "-o", "report.zip"]) == 0
    content = json.loads(_report(tmp_path / "Quetzal folder" / "report.zip")["input-1.json"])
    assert content["processes"][0]["problems"]
    assert "jabberwock" not in json.dumps(content).lower()


def test_without_any_run_and_of_a_broken_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both are what people report."""
    assert main(["bug-report"]) == 0
    assert list(_report(tmp_path / "Quetzal folder" / "msmemscope-bug-report.zip"))[-1] == "machine.json"
    capture = write_run(tmp_path / "runs")
    shutil.rmtree(capture / "event_log")
    assert main(["bug-report", str(capture), "-o", "second.zip"]) == 0
    content: dict[str, Any] = json.loads(_report(tmp_path / "Quetzal folder" / "second.zip")["input-1.json"])
    assert content["failure"]
    assert main(["bug-report"]) == 0, "the report that it wrote before is replaced"
    (tmp_path / "Quetzal folder" / "msmemscope-bug-report.zip").write_text("mine")
    assert main(["bug-report"]) == 2
    assert "is there already, and msmemscope did not write it so" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, expected",
    [
        ("cannot open /home/me/a.py: no such file", "cannot open <path 1>: no such file"),
        ("'some words' and 'None'", "'<word 1>' and 'None'"),
        ("at 10.1.2.3 with 3.11.4", "at <address 1> with 3.11.4"),
        ("sk-live-a8f3e2b9 twice: sk-live-a8f3e2b9", "<word 1> twice: <word 1>"),
        ("in my/model.py(12): forward_of_my_model", "in <path 1> <word 1>"),
        ("4f3c2b1a-0000 and 12-34", "<word 1> and 12-34"),
        ("a fault (launch/faults.py:12)", "a fault (launch/faults.py:12)"),
        ("12 events of libdcmi.so", "12 events of libdcmi.so"),
        ("given of all: correct horse battery", "given of all: <word 1>"),
    ],
)
def test_sentences(text: str, expected: str) -> None:
    """Only our own words stay."""
    assert Redaction(private=["correct horse battery"]).text(text) == expected
