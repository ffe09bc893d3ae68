"""A wrong command line: a message that helps, status 2, and nothing on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from msmemscope.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

BAD_VALUES = [
    # option, value, the part of it that the message quotes, a part of what is accepted
    ("--steps", "0", "0", "integers >= 1"),
    ("--steps", "-1", "-1", "integers >= 1"),
    ("--steps", "1,x", "x", "integers >= 1"),
    ("--steps", "1.5", "1.5", "integers >= 1"),
    ("--steps", "01", "01", "integers >= 1"),
    ("--steps", "٣", "٣", "integers >= 1"),
    ("--steps", "1;2", "1;2", "integers >= 1"),
    ("--steps", "1,2,3,4,5,6", "1,2,3,4,5,6", "at most 5"),
    ("--steps", "1，2，3，4，5，6", "1，2，3，4，5，6", "at most 5"),
    ("--steps", "4294967296", "4294967296", "integers >= 1"),
    ("--device", "", "", "cpu, npu, cuda, xpu, mps, or one of a kind: npu:{0..31}"),
    ("--device", ",", ",", "cpu, npu, cuda, xpu, mps, or one of a kind: npu:{0..31}"),
    ("--device", "gpu", "gpu", "cpu, npu, cuda, xpu, mps, or one of a kind: npu:{0..31}"),
    ("--device", "npu:1024", "npu:1024", "npu:{0..31}"),
    ("--device", "npu:32", "npu:32", "npu:{0..31}"),
    ("--device", "npu:0,npu:32", "npu:32", "npu:{0..31}"),
    ("--device", "npu:-1", "npu:-1", "npu:{0..31}"),
    ("--device", "npu:", "npu:", "npu:{0..31}"),
    ("--device", "npu:0x1", "npu:0x1", "npu:{0..31}"),
    ("--device", "npu:01", "npu:01", "npu:{0..31}"),
    ("--device", "cpu:0", "cpu:0", "npu:{0..31}"),
    ("--device", "npu:2,npu:x", "npu:x", "npu:{0..31}"),
    ("--level", "2", "2", "0, op, 1, kernel"),
    ("--level", "Op", "Op", "0, op, 1, kernel"),
    ("--level", "op,kernels", "kernels", "0, op, 1, kernel"),
    ("--level", "op,none", "none", "0, op, 1, kernel"),
    ("--events", "malloc", "malloc", "alloc, free, launch, access, traceback"),
    ("--events", "alloc,none", "none", "alloc, free, launch, access, traceback"),
    ("--events", "alloc;free", "alloc;free", "alloc, free, launch, access, traceback"),
    ("--call-stack", "native", "native", "python[:depth], c[:depth]"),
    ("--call-stack", "c:1001", "c:1001", "0 to 1000"),
    ("--call-stack", "python:-1", "python:-1", "0 to 1000"),
    ("--call-stack", "python:", "python:", "0 to 1000"),
    ("--call-stack", "c:010", "c:010", "0 to 1000"),
    ("--call-stack", "c:5,c:6", "c:5,c:6", "python[:depth], c[:depth]"),
    ("--collect-mode", "later", "later", "immediate or deferred"),
    ("--collect-mode", "", "", "immediate or deferred"),
    ("--collect-mode", "immediate,deferred", "immediate,deferred", "immediate or deferred"),
    ("--analysis", "leak", "leak", "leaks, decompose, inefficient"),
    ("--analysis", "leaks,none", "none", "leaks, decompose, inefficient"),
    ("--data-format", "", "", "csv or db"),
    ("--data-format", "json", "json", "csv or db"),
    ("--data-format", "csv,db", "csv,db", "csv or db"),
    ("--format", "xml", "xml", "csv or db"),
    ("--log-level", "trace", "trace", "debug, info, warn, error"),
    ("--log-level", "", "", "debug, info, warn, error"),
    ("--output", "", "", "a path"),
    ("--output", "  ", "  ", "a path"),
    ("--output", "a\nb", None, "printable"),
    ("--output", "a\x1bb", None, "printable"),
    ("--output", "x" * 256, "x" * 256, "a path"),
    ("--output", "/" + "x/" * 2100, None, "4096"),
    ("--output-path", "a\tb", None, "printable"),
    ("--max-size", "", "", "512M"),
    ("--max-size", "many", "many", "512M"),
    ("--max-size", "4K", "4K", "at least 1M"),
    ("--max-size", "99999999T", "99999999T", "at most"),
]

COMPARING = [
    (["--compare"], "--compare: goes together with --input"),
    (["--input=/a,/b"], "--input: goes together with --compare"),
    (["-i", "/a,/b", "touch", "started"], "--input: goes together with --compare"),
    (["--compare", "--input=/a"], "--input: names 1 inputs: '/a'"),
    (["--compare", "--input="], "--input: names no input"),
    (["--compare", "--input=/a,/b,/c"], "--input: names 3 inputs"),
    (["--compare", "--input=/a,/b", "touch", "started"], "--compare: compares results, and runs no program: 'touch'"),
    (["--compare", "--input=/a,/b", "--level=2"], "--level: not a level: '2'"),
    (["--compare", "--input=/a,/b"], "'/a' cannot be read: No such file or directory"),
    (["compare", "/a", "/b", "--fail-on", "peak<5%"], "--fail-on: not a condition: 'peak<5%'"),
    (["compare", "/a"], "a path is missing, and no run lies in"),
]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory in which nothing may appear."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_refused(status: int, capsys: pytest.CaptureFixture[str], folder: Path) -> str:
    """Status 2, no data, nothing on disk; returns the message."""
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert list(folder.iterdir()) == []
    assert captured.err.startswith("msmemscope: error: ")
    return captured.err


@pytest.mark.parametrize("option, value, quoted, accepted", BAD_VALUES)
def test_bad_value(
    option: str, value: str, quoted: str | None, accepted: str, capsys: pytest.CaptureFixture[str], empty_folder: Path
) -> None:
    """The message names the option as it was written, the value, and what is accepted."""
    message = assert_refused(main([f"{option}={value}", "touch", "started"]), capsys, empty_folder)
    assert f"error: {option}: " in message
    assert accepted in message
    assert quoted is None or repr(quoted) in message
    assert "\x1b" not in message


@pytest.mark.parametrize("line, reason", COMPARING)
def test_comparing(line: list[str], reason: str, capsys: pytest.CaptureFixture[str], empty_folder: Path) -> None:
    """Two inputs that exist, both options, no program; nothing is written."""
    assert reason in assert_refused(main(line), capsys, empty_folder)


def test_unknown_option(capsys: pytest.CaptureFixture[str], empty_folder: Path) -> None:
    """The closest known one is offered."""
    message = assert_refused(main(["--evnets=alloc", "touch", "started"]), capsys, empty_folder)
    assert "unknown option '--evnets'" in message
    assert "hint: did you mean --events?" in message


def test_no_program(capsys: pytest.CaptureFixture[str], empty_folder: Path) -> None:
    """Help, on stderr as it was not asked for."""
    for line in ([], ["--level=0"], ["--"]):
        status = main(line)
        captured = capsys.readouterr()
        assert status == 2
        assert captured.out == ""
        assert captured.err.startswith("Usage: msmemscope ")
        assert "no program was given" in captured.err
    assert list(empty_folder.iterdir()) == []


@pytest.mark.parametrize(
    "line, status, message",
    [
        (["no_such_program_anywhere"], 127, "program not found: 'no_such_program_anywhere'"),
        (["./no_such_file"], 127, "program not found: './no_such_file'"),
        ([""], 127, "program not found: ''"),
        (["/"], 126, "cannot execute '/': it is a directory"),
        (["/etc/passwd"], 126, "cannot execute '/etc/passwd': permission denied"),
    ],
)
def test_program_that_cannot_be_run(
    line: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str], empty_folder: Path
) -> None:
    """The statuses of shells, and nothing on disk either."""
    assert main(["--", *line]) == status
    assert message in capsys.readouterr().err
    assert list(empty_folder.iterdir()) == []


def test_script_in_the_current_directory_gets_a_hint(capsys: pytest.CaptureFixture[str], empty_folder: Path) -> None:
    """Forgetting `python` is the commonest slip."""
    (empty_folder / "train.py").write_text("")
    assert main(["train.py"]) == 127
    assert "hint: msmemscope python train.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    "path, message",
    [
        ("{folder}/file", "Not a directory"),
        ("{folder}/file/below", "Not a directory"),
        ("/proc/msmemscope", "cannot be created"),
    ],
)
def test_output_that_cannot_be_made(
    path: str, message: str, capsys: pytest.CaptureFixture[str], empty_folder: Path
) -> None:
    """Nothing is started; only where the native library is there is an output root needed at all."""
    from msmemscope.capture.output_root import prepare_output_root
    from msmemscope.errors import UsageError

    (empty_folder / "file").write_text("")
    with pytest.raises(UsageError) as caught:
        prepare_output_root(path.format(folder=empty_folder))
    assert message in caught.value.message
    assert caught.value.option == "--output"
    assert [entry.name for entry in empty_folder.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "line, message",
    [
        (["recover", "."], "holds no capture"),
        (["recover", ".", "--data-format=xml"], "--data-format: not a data format: 'xml'"),
        (["recover", ".", "--call-stack=c:9999"], "--call-stack: not a depth: 'c:9999'"),
        (["events", ".", "--limit=-1"], "--limit: not a number of events: '-1'"),
        (["events", ".", "--kind=explosion"], "--kind: not a kind of event: 'explosion'"),
        (["events", ".", "--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_bad_arguments_of_verbs(
    line: list[str], message: str, capsys: pytest.CaptureFixture[str], empty_folder: Path
) -> None:
    """Verbs answer in the same way."""
    assert message in assert_refused(main(line), capsys, empty_folder)
