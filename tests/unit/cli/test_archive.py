"""`msmemscope export --to=archive`, and the verbs on what it writes."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import msmemscope
from msmemscope.cli.main import main
from msmemscope.formats.event_log.archive.contents import is_archive
from msmemscope.formats.event_log.log_folder import LogFolder
from msmemscope.formats.export.export_formats import LOG_FORMATS
from msmemscope.launch.latest_runs import runs_in
from tests.fakes.event_log_builder import STATE_OPEN, EventLogBuilder
from tests.support.recorded_runs import with_dumps, write_run
from tests.support.small_disk import small_disk

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("current_folder")


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A run that leaks."""
    return write_run(tmp_path / "runs", has_trace=True)


@pytest.fixture
def archive(capture: Path, current_folder: Path) -> Path:
    """Its archive."""
    assert main(["export", str(capture), "--to=archive"]) == 0
    return current_folder / f"{capture.name}.msmemscope"


def test_it_is_called_as_the_capture_is(
    capture: Path, current_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It lies in the current folder, says what opens it, and is replaced by itself alone; a pipe gets no bar."""
    assert main(["export", str(capture), "--to=archive"]) == 0
    archive = current_folder / f"{capture.name}.msmemscope"
    assert is_archive(archive)
    assert oct(archive.stat().st_mode & 0o777) == "0o640"
    assert capsys.readouterr().err == (
        f"msmemscope: written: {archive.name} (opens in {LOG_FORMATS['archive'].summary})\n"
    )
    content = archive.read_bytes()
    archive.chmod(0o600)
    assert main(["export", str(capture), "--to=archive"]) == 0
    assert archive.read_bytes() == content
    assert oct(archive.stat().st_mode & 0o777) == "0o640", "it was written again"
    # The event log in the folder, and a file of it, stand for the capture.
    for path in (capture / "event_log", capture / "event_log" / "process.header", archive):
        assert main(["export", str(path), "--to=archive", "-o", "again"]) == 0
        again = archive.parent / "again"
        assert again.read_bytes() == content
        again.unlink()


def test_the_archive_of_another_process_stays(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be all that is left of that process."""
    other = write_run(tmp_path / "others", process_id=77)
    before = archive.read_bytes()
    line = ["export", str(other), "--to=archive", "-o", str(archive)]
    assert main(line) == 2
    assert "is the archive of another process, perhaps the only one" in capsys.readouterr().err
    assert archive.read_bytes() == before
    assert main([*line, "--force"]) == 0
    assert main(line) == 0


def json_of(line: list[str], path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The answer of a verb about a path. In the answer the path is named PATH."""
    capsys.readouterr()
    assert main([*line, str(path), "--json"]) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out.replace(str(path), "PATH"))
    return content


@pytest.mark.parametrize(
    "line",
    [
        ["stats"],
        ["top"],
        ["tree"],
        *(["analyze", name] for name in ("leaks", "peak", "inefficient", "decompose", "card", "oom")),
    ],
    ids=" ".join,
)
def test_verbs_say_the_same(line: list[str], archive: Path, capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As of the capture folder."""
    of_folder, of_archive = (json_of(line, path, capsys) for path in (capture, archive))
    assert of_folder == of_archive
    assert of_folder["processes"]


@pytest.mark.parametrize("line", [["events", "--definitions"], ["summary"]], ids=["events", "summary"])
def test_texts_say_the_same(line: list[str], archive: Path, capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Except for the path, and for the line about the files of a folder."""
    verb, *options = line
    texts = []
    for path in (capture, archive):
        capsys.readouterr()
        assert main([verb, str(path), *options]) == 0
        out = capsys.readouterr().out.replace(str(path), "PATH").replace(os.path.relpath(path), "PATH")
        for about_files in (
            "Files in PATH\n  event_log (no dump files were written)",
            "Read from PATH (archived event log)",
        ):
            out = out.replace(about_files, "FILES")
        texts.append(out.replace("PATH/report.txt", "`msmemscope report`"))
    assert texts[0] == texts[1]


def test_compare_report_and_export_read_it(archive: Path, capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside the folder, and alone; a database made of both is the same."""
    assert main(["compare", str(capture), str(archive)]) == 0
    assert main(["report", str(archive), "-o", "page.html"]) == 0
    assert (archive.parent / "page.html").stat().st_size > 10_000
    for path in (capture, archive):
        assert main(["export", str(path), "--to=csv", "-o", f"{path.suffix}_dump"]) == 0
    of_folder, of_archive = (
        sorted(file.read_bytes() for file in (archive.parent / name).rglob("*.csv"))
        for name in ("_dump", ".msmemscope_dump")
    )
    assert of_folder == of_archive
    assert len(of_folder) > 1  # the Python trace is among them
    capsys.readouterr()


def test_the_python_calls_read_it(archive: Path, capture: Path) -> None:
    """`load`, `load_all` and `scan`."""
    assert msmemscope.load(archive).blocks.equals(msmemscope.load(capture).blocks)
    assert [one.form for one in msmemscope.load_all(archive)] == ["event log"]
    assert msmemscope.scan(archive).collect().equals(msmemscope.scan(capture).collect())


def test_a_folder_of_archives(tmp_path: Path, archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is a process; one whose folder lies beside it is read once."""
    gathered = tmp_path / "gathered"
    other = write_run(gathered, process_id=7)
    shutil.copy(archive, gathered)
    assert main(["export", str(other), "--to=archive", "-o", str(gathered / f"{other.name}.msmemscope")]) == 0
    (gathered / "broken.msmemscope").write_bytes(archive.read_bytes()[:1000])
    found = json_of(["stats"], gathered, capsys)["processes"]
    assert sorted(process["process_id"] for process in found) == [7, 4242]
    assert main(["stats", str(gathered)]) == 0
    assert "broken.msmemscope is damaged: its end is missing" in capsys.readouterr().err
    assert sorted(one.process_id for one in msmemscope.load_all(gathered)) == [7, 4242]


def test_it_is_no_run(archive: Path, current_folder: Path, capture: Path) -> None:
    """The latest run is a folder, also where its archive lies beside it."""
    output = current_folder / "memscopeDumpResults"
    shutil.copytree(capture.parent, output)
    shutil.copy(archive, output)
    assert [len(run.captures) for run in runs_in(output)] == [1]


def test_recover_makes_the_folder_again(
    archive: Path, capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the event log, and what `recover` writes; a second time it is refused."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    moved = shutil.move(archive, place)
    assert main(["recover", str(moved)]) == 0
    folder = place / capture.name
    assert f"msmemscope: written: {folder}" in capsys.readouterr().err
    dumps = [path for path in folder.glob("device_cpu/dump/*.csv") if "memscope_dump" in path.name]
    assert len(dumps) == 1
    assert (folder / "report.txt").is_file()
    assert dumps[0].read_bytes() == with_dumps(capture).read_bytes()
    assert main(["recover", str(moved)]) == 1
    error = capsys.readouterr().err
    assert "is there already, and nothing is overwritten" in error
    assert f"hint: msmemscope recover {folder}" in error
    assert sorted(path.name for path in place.iterdir()) == sorted([folder.name, archive.name])


BAD = [
    (["{dump}"], "--to: is made of an event log, and {dump} is none: 'archive'"),
    (["{capture}", "--redact"], "--to: does not go together with --redact"),
    (["{capture}", "--redact-key=x"], "--to: does not go together with --redact"),
    (["{capture}", "--of=peak"], "--of: goes together with --to=flamegraph: 'peak'"),
    (["{runs}"], "PATH: holds several processes; name one of them"),
    (["/no/such"], "'/no/such' cannot be read: No such file or directory"),
    (["{capture}", "-o", "no/such"], "--output: lies in a folder that is not there"),
]


@pytest.mark.parametrize("line, message", BAD)
def test_bad_arguments(
    line: list[str], message: str, capture: Path, current_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, and nothing on disk."""
    runs = capture.parent
    places = {"capture": str(capture), "dump": str(with_dumps(capture)), "runs": str(runs)}
    if line == ["{runs}"]:
        write_run(runs, process_id=1)
    capsys.readouterr()
    assert main(["export", *(word.format(**places) for word in line), "--to=archive"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message.format(**places) in captured.err
    assert list(current_folder.iterdir()) == []


def large_log(root: Path) -> Path:
    """A log whose archive has half a megabyte, and which has two itself."""
    builder = EventLogBuilder(root / "large", segment_bytes=0)
    for number in range(500):
        builder.string(os.urandom(1024).hex())
        for _ in range(30):
            builder.malloc(512 * number, 512)
    return builder.write()


def test_a_full_disk(tmp_path: Path) -> None:
    """One line, and nothing of the archive is left."""
    large = large_log(tmp_path)
    prefix, disk, copy = small_disk(tmp_path, 64)
    command = [*prefix, sys.executable, "-m", "msmemscope", "export", str(large), "--to=archive", "-o", f"{disk}/a"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == (
        f"msmemscope: error: {disk}/a cannot be written: No space left on device\n"
        "hint: make room, or name another place with --output\n"
    )
    assert list(copy.iterdir()) == []


def test_no_room_for_the_folder(tmp_path: Path, current_folder: Path) -> None:
    """Nothing of it is left beside the archive."""
    assert main(["export", str(large_log(tmp_path)), "--to=archive", "-o", "large.msmemscope"]) == 0
    prefix, disk, copy = small_disk(tmp_path, 2048)
    line = f"cp {current_folder}/large.msmemscope {disk} && exec {sys.executable} -m msmemscope recover {disk}/large.msmemscope"
    result = subprocess.run([*prefix, "sh", "-c", line], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "cannot be written: No space left on device\nhint: make room, or copy the archive" in result.stderr
    assert [path.name for path in copy.iterdir()] == ["large.msmemscope"]


def test_of_a_process_that_still_ran(
    tmp_path: Path, current_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was not killed: the summary says what the archive is."""
    builder = EventLogBuilder(tmp_path, state=STATE_OPEN)
    builder.malloc(512, 512)
    with monkeypatch.context() as changed:
        changed.setattr(LogFolder, "is_running", lambda _: True)
        assert main(["export", str(builder.write()), "--to=archive", "-o", "run.msmemscope"]) == 0
    capsys.readouterr()
    assert main(["summary", str(current_folder / "run.msmemscope")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "the process was still running: this is what it had recorded when it was archived" in shown
    assert "killed" not in shown


def test_a_terminal_gets_a_bar(capture: Path, current_folder: Path) -> None:
    """While events are written."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "msmemscope", "export", str(capture), "--to=archive"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, cwd=current_folder) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            shown += part
    os.close(ours)
    assert process.returncode == 0
    assert b"Writing events" in shown
    assert b"written: " in shown
