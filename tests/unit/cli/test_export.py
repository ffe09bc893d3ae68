"""`msmemscope export`: what it reads, where it writes, and what it refuses."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.cli.main import main
from msmemscope.formats.export.export_formats import EXPORT_FORMATS, ExportFormat
from msmemscope.formats.output_place import UNMARKED
from tests.support.recorded_runs import HELD_BYTES, KEPT_BYTES, OTHER_BYTES, with_dumps, write_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from msmemscope.formats.export.export_choice import ExportChoice
    from msmemscope.recording import Recording


pytestmark = pytest.mark.usefixtures("current_folder")


@pytest.mark.parametrize("name", EXPORT_FORMATS)
def test_each_format_from_a_capture(
    name: str, tmp_path: Path, current_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is called as the capture is, and lies in the current folder; stdout stays empty."""
    capture = write_run(tmp_path / "runs")
    assert main(["export", str(capture), "--to", name]) == 0
    expected = f"{capture.name}{EXPORT_FORMATS[name].suffix}"
    assert [path.name for path in current_folder.iterdir()] == [expected]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"written: {expected} (opens in {EXPORT_FORMATS[name].summary})" in captured.err


@pytest.mark.parametrize("name", EXPORT_FORMATS)
def test_what_it_wrote_before_is_replaced(
    name: str, tmp_path: Path, current_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also by that of another run, and under a name that was given; a file of anybody else only if that is forced."""
    first, second = (write_run(tmp_path / "runs", process_id=100 + number, steps=3 + number) for number in range(2))
    path = current_folder / "result"
    for capture in (first, second, second):
        assert main(["export", str(capture), "--to", name, "-o", "result"]) == 0
    assert main(["export", str(second), "--to", name, "-o", "other"]) == 0
    assert contents(path) == contents(current_folder / "other")
    assert sorted(one.name for one in current_folder.iterdir()) == ["other", "result"], "nothing was left beside them"
    foreign = current_folder / "notes.txt"
    foreign.write_text("mine")
    line = ["export", str(first), "--to", name, "-o", "notes.txt"]
    assert main(line) == 2
    assert "--output: is there already, and msmemscope did not write it so: 'notes.txt'" in capsys.readouterr().err
    assert foreign.read_text() == "mine"
    assert main([*line, "--force"]) == 0
    assert main(line) == 0


@pytest.mark.parametrize("name", EXPORT_FORMATS)
def test_an_export_of_another_format_is_no_older_one(name: str, tmp_path: Path, current_folder: Path) -> None:
    """Each format knows its own."""
    capture = write_run(tmp_path / "runs")
    assert main(["export", str(capture), "--to", name, "-o", "result"]) == 0
    before = contents(current_folder / "result")
    folders = {"csv", "db", "parquet"}
    for other in EXPORT_FORMATS.keys() - (folders if name in folders else {name}):
        assert main(["export", str(capture), "--to", other, "-o", "result"]) == 2
    assert contents(current_folder / "result") == before


def test_what_is_read_is_never_replaced(
    tmp_path: Path, current_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An export is an input like any other, also where it would be replaced by itself."""
    capture = write_run(tmp_path / "runs")
    assert main(["export", str(capture), "--to=torch-snapshot", "-o", "a.pickle"]) == 0
    before = (current_folder / "a.pickle").read_bytes()
    (current_folder / "link.pickle").symlink_to("a.pickle")
    for source, extra in (("a.pickle", []), ("link.pickle", ["-o", "a.pickle"]), ("a.pickle", ["--force"])):
        assert main(["export", source, "--to=torch-snapshot", *extra]) == 2
        assert "is what is read, and is not overwritten" in capsys.readouterr().err
    assert (current_folder / "a.pickle").read_bytes() == before


def test_a_folder_with_work_of_others_stays(
    tmp_path: Path, current_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if it was ours, and however one insists."""
    capture = write_run(tmp_path / "runs")
    line = ["export", str(capture), "--to=csv", "-o", "result"]
    assert main(line) == 0
    (current_folder / "result" / "notes").mkdir()
    (current_folder / "result" / "notes" / "mine.txt").write_text("mine")
    for extra in ([], ["--force"]):
        assert main([*line, *extra]) == 2
        assert "is a folder that msmemscope did not write" in capsys.readouterr().err
    assert (current_folder / "result" / "notes" / "mine.txt").read_text() == "mine"


def contents(path: Path) -> dict[str, bytes]:
    """The contents of the file or folder at a path. Names of dumps are left out: they say when they were written."""
    files = (
        [path]
        if path.is_file()
        else [one for one in sorted(path.rglob("*")) if one.is_file() and one.suffix != ".json"]
    )
    return {str(number): file.read_bytes() for number, file in enumerate(files)}


def test_measures_of_a_flame_graph(tmp_path: Path, current_folder: Path) -> None:
    """Chosen by --of: what leaks, the blocks of all steps but the first and the last, and the last one's block at the peak."""
    capture = write_run(tmp_path / "runs", steps=6)
    for measure in ("peak", "leaked", "allocated", "byte-seconds"):
        assert main(["export", str(capture), "--to=flamegraph", f"--of={measure}", "-o", measure]) == 0

    def total(measure: str) -> int:
        return sum(int(line.rpartition(" ")[2]) for line in (current_folder / measure).read_text().splitlines())

    assert total("leaked") == 4 * KEPT_BYTES
    assert total("peak") - 6 * KEPT_BYTES in range(HELD_BYTES, 2 * HELD_BYTES)
    assert total("allocated") > 6 * (KEPT_BYTES + HELD_BYTES)


def test_without_a_path_it_is_the_latest_run(current_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the other verbs do it."""
    assert main(["export", "--to=speedscope"]) == 2
    assert "a path is missing, and no run lies in" in capsys.readouterr().err
    write_run(current_folder / "memscopeDumpResults")
    assert main(["export", "--to=speedscope", "-o", "x.json"]) == 0
    assert "the latest run: " in capsys.readouterr().err
    assert json.loads((current_folder / "x.json").read_text())["profiles"]


def test_dumps_and_snapshots_are_inputs_too(tmp_path: Path, current_folder: Path) -> None:
    """Dumps can be exported. An exported snapshot can be exported again."""
    dump = with_dumps(write_run(tmp_path / "runs"))
    assert main(["export", str(dump), "--to=torch-snapshot", "-o", "first.pickle"]) == 0
    assert main(["export", "first.pickle", "--to=parquet"]) == 0
    snapshot = pickle.loads((current_folder / "first.pickle").read_bytes())  # noqa: S301 - written a moment ago
    blocks = pl.read_parquet(current_folder / "first_parquet" / "blocks.parquet")
    alive = blocks.filter((pl.col("pool") == "CUDA") & pl.col("free_sequence").is_null())
    assert alive["size"].sum() == sum(segment["allocated_size"] for segment in snapshot["segments"]) == 6 * KEPT_BYTES


def test_of_several_processes_one_must_be_named(
    tmp_path: Path, current_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message has a command line that works."""
    root = tmp_path / "runs"
    first, _ = write_run(root, process_id=11), write_run(root, process_id=12)
    assert main(["export", str(root), "--to=pprof"]) == 2
    message = capsys.readouterr().err
    assert "PATH: holds several processes; name one of them" in message
    assert f"hint: msmemscope export {first} --to=pprof" in message
    assert list(current_folder.iterdir()) == []
    assert main(["export", str(first), "--to=pprof"]) == 0


BAD = [
    ([], "the following arguments are required: --to"),
    (["--to=perfeto"], "--to: is no format: 'perfeto' (accepted: torch-snapshot, perfetto, "),
    (["--to=perfeto"], "hint: did you mean --to=perfetto?"),
    (["--to="], "--to: is no format: ''"),
    (["--to=\x1b[31m"], "--to: is no format: '\\x1b[31m'"),
    (
        ["--to=flamegraph", "--of=peek"],
        "--of: is nothing that stacks are weighted by: 'peek' (accepted: peak, leaked, ",
    ),
    (["--to=pprof", "--of=peak"], "--of: goes together with --to=flamegraph: 'peak'"),
    (["--to=pprof", ""], "PATH: names nothing: '' (accepted: a capture folder, or a dump file)"),
    (["--to=pprof", "/no/such/path"], "'/no/such/path' cannot be read: No such file or directory"),
    (["--to=pprof", ".", "-o", ""], "--output: names no file: ''"),
    (["--to=pprof", ".", "-o", "folder/"], "--output: names no file: 'folder/'"),
    (["--to=pprof", ".", "-o", "a\0b"], "--output: names no file: "),
    (
        ["--to=pprof", ".", "-o", "no/such/x"],
        "--output: lies in a folder that is not there: 'no/such/x' (accepted: a file",
    ),
    (["--to=pprof", ".", "-o", "/"], "--output: names no file: '/'"),
    (["--to=pprof", ".", "-o", "."], "--output: is what is read, and is not overwritten: '.'"),
    (["--to=pprof", ".", "-o", "x"], ". holds nothing that can be analysed"),
    (["--to=pprof", "a", "b"], "unrecognized arguments: b"),
    (["--to=pprof", ".", "-o", "x" * 300], "cannot be written: File name too long"),
]


@pytest.mark.parametrize("line, message", BAD)
def test_bad_arguments(line: list[str], message: str, current_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, the value, what is accepted, and nothing on disk."""
    assert main(["export", *line]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert "\x1b" not in captured.err
    assert list(current_folder.iterdir()) == []


def test_a_new_format_is_one_entry(
    tmp_path: Path, current_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then the verb writes it, names it, and lists it."""

    def write_sizes(
        recording: Recording, write: Callable[[bytes | memoryview], None], choice: ExportChoice
    ) -> tuple[str, ...]:
        write(f"{choice.title}: {recording.blocks['size'].sum()}".encode())
        return ("only sizes",)

    monkeypatch.setitem(EXPORT_FORMATS, "sizes", ExportFormat("any editor", ".sizes", UNMARKED, write_sizes))
    capture = write_run(tmp_path / "runs", steps=1)
    assert main(["export", str(capture), "--to=sizes"]) == 0
    assert "only sizes" in capsys.readouterr().err
    expected = KEPT_BYTES + HELD_BYTES + OTHER_BYTES
    assert (current_folder / f"{capture.name}.sizes").read_text() == f"{capture.name}: {expected}"
    assert main(["export", "--help"]) == 0
    assert "any editor" in capsys.readouterr().out


def test_help_fits_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """Every format with what opens it, and an example."""
    assert main(["export", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 38
    assert max(map(len, lines)) <= 88
    text = "\n".join(lines)
    assert all(f"  {name} " in text and one.summary in text for name, one in EXPORT_FORMATS.items())
    assert "example: msmemscope export " in text
