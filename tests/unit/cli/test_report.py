"""The verb `report`: which file it writes about what, and what it does not accept."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

from msmemscope.cli.main import main
from tests.support.recorded_runs import with_dumps, write_run

pytestmark = pytest.mark.usefixtures("in_folder_of_test")


def test_the_page_is_written_into_the_current_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the name that is expected; stdout names it."""
    capture = write_run(tmp_path / "runs")
    assert main(["report", str(capture)]) == 0
    assert capsys.readouterr().out.startswith("report.html (")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "leak: 2.00 MiB in 4 blocks" in page


def test_an_older_page_is_replaced(tmp_path: Path) -> None:
    """As after a program was mended and ran again."""
    write_run(tmp_path / "memscopeDumpResults", steps=4)
    assert main(["report"]) == 0
    before = (tmp_path / "report.html").read_bytes()
    write_run(tmp_path / "memscopeDumpResults", process_id=4321, steps=9)
    assert main(["report"]) == 0
    assert (tmp_path / "report.html").read_bytes() != before
    assert main(["report", "-o", "report.html", "--language=zh"]) == 0


def test_a_file_of_somebody_else_is_overwritten_only_by_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even a link that leads nowhere."""
    capture = write_run(tmp_path / "runs")
    (tmp_path / "report.html").write_text("mine", encoding="utf-8")
    (tmp_path / "link.html").symlink_to("nowhere")
    assert main(["report", str(capture)]) == 2
    assert main(["report", str(capture), "-o", "link.html"]) == 2
    error = capsys.readouterr().err
    assert "-o: is there already, and msmemscope did not write it so: 'report.html'" in error
    assert "hint: name another with -o, or write over it with --force" in error
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "mine"
    assert main(["report", str(capture), "--force"]) == 0
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("output", ["", "runs", "gone/report.html"])
def test_a_file_that_cannot_be_is_refused_before_anything_is_read(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what is accepted."""
    (tmp_path / "runs").mkdir()
    assert main(["report", "no such input", "-o", output]) == 2
    assert f": {output!r} (accepted: " in capsys.readouterr().err


@pytest.mark.parametrize("path", ["", "gone", "train.py"])
def test_an_input_that_is_none_is_refused(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And no file is left behind."""
    (tmp_path / "train.py").write_text("pass\n", encoding="utf-8")
    assert main(["report", path]) == 2
    assert capsys.readouterr().err.startswith("msmemscope: error: ")
    assert [one.name for one in tmp_path.iterdir()] == ["train.py"]


def test_without_a_path_it_is_about_the_latest_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the output folder; without one, that is said."""
    assert main(["report"]) == 2
    assert "a path is missing" in capsys.readouterr().err
    write_run(tmp_path / "memscopeDumpResults")
    assert main(["report"]) == 0
    assert "the latest run: " in capsys.readouterr().err


def test_a_folder_of_several_processes_is_one_page(tmp_path: Path) -> None:
    """Findings of all processes at one line are one finding. A process that cannot be read is a warning."""
    for rank in range(2):
        write_run(tmp_path / "runs", process_id=100 + rank, rank=rank)
    assert main(["report", "runs"]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "leak: 4.00 MiB in 8 blocks" in page
    assert "(ranks 0-1)" in page


@pytest.mark.parametrize("data_format", ["csv", "db"])
def test_a_dump_is_enough(data_format: str, tmp_path: Path) -> None:
    """Also without its event log."""
    dump = with_dumps(write_run(tmp_path / "runs"), data_format)
    alone = dump.rename(tmp_path / dump.name)
    assert main(["report", str(alone)]) == 0
    assert "leak: 2.00 MiB in 4 blocks" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_browser_is_asked_to_show_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is none, the page is written all the same."""
    capture = write_run(tmp_path / "runs")
    shown: list[str] = []

    def show(address: str) -> bool:
        shown.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", show)
    assert main(["report", str(capture), "--open", "-o", "one page.html"]) == 0
    assert shown == [(tmp_path / "one page.html").as_uri()]
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    assert main(["report", str(capture), "--open", "-o", "two.html"]) == 0
    assert "no browser could be started" in capsys.readouterr().err
    assert (tmp_path / "two.html").is_file()


def test_headings_can_be_chinese(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another language is refused with those that there are."""
    capture = write_run(tmp_path / "runs")
    assert main(["report", str(capture), "--language=zh"]) == 0
    assert '<html lang="zh-CN">' in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert main(["report", str(capture), "--language=fr", "-o", "other.html"]) == 2
    assert "'fr'" in capsys.readouterr().err


def test_the_help_fits_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """With every option."""
    assert main(["report", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 26
    assert max(map(len, lines)) <= 100
