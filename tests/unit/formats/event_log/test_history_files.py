"""The folder `history` of a capture: written all or nothing, read whatever lies in it, thinned where it is too much."""

from __future__ import annotations

import itertools
import os
import shutil
import stat
from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import msmemscope
from msmemscope.cli.main import main
from msmemscope.errors import DumpError
from msmemscope.formats.event_log import Capture
from msmemscope.formats.event_log.archive.restoring import restore_folder
from msmemscope.formats.event_log.history_files import MOST_READ, MOST_ROWS, kept_moments, moment_name
from msmemscope.live.history_moments import keep_moment, thin
from msmemscope.recording.run_history import HISTORY_SCHEMA
from tests.support.recorded_runs import write_run

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.recording.run_history import RunHistory

START_NS = 1_764_000_000 * 1_000_000_000


def moment(timestamp_ns: int, size_bytes: int = 1024, rows: int = 1) -> pl.DataFrame:
    """Rows about one pool."""
    row = {
        "timestamp_ns": timestamp_ns, "kind": "pool", "device": "cpu", "pool": "HOST", "name": "", "bytes": size_bytes,
        "blocks": 1, "peak_bytes": None, "step": 3, "events": 9,
    }  # fmt: skip
    return pl.DataFrame([row] * rows, HISTORY_SCHEMA)


def read_history(capture: Path) -> RunHistory:
    """The history of a capture, or of an archive of one."""
    return msmemscope.load(capture).history


@pytest.fixture(name="capture")
def fixture_capture(tmp_path: Path) -> Path:
    """A small run."""
    return write_run(tmp_path)


def test_moments_are_read_as_they_were_written(capture: Path) -> None:
    """In the order of time, in files that other users cannot read."""
    before = os.umask(0)
    try:
        for hour in (2, 1):
            keep_moment(capture, moment(START_NS + hour, hour))
    finally:
        os.umask(before)
    found = read_history(capture)
    assert_frame_equal(found.rows, pl.concat([moment(START_NS + 1, 1), moment(START_NS + 2, 2)]))
    assert (found.moment_count, found.unreadable_count) == (2, 0)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (capture / "history", *(capture / "history").iterdir())]
    assert modes == [0o750, 0o640, 0o640]


def test_without_a_history_there_is_none(capture: Path) -> None:
    """Nor where it is taken away before it is asked for."""
    recording = msmemscope.load(capture)
    keep_moment(capture, moment(START_NS))
    shutil.rmtree(capture / "history")
    for found in (recording.history, read_history(capture)):
        assert (found.rows.height, found.moment_count, found.unreadable_count) == (0, 0, 0)


def test_archives_have_the_history_too(capture: Path, tmp_path: Path) -> None:
    """Of many moments those that are read; and so has a log that is restored from one."""
    content = keep_moment(capture, moment(START_NS)).read_bytes()
    for number in range(1, 3 * MOST_READ):
        (capture / "history" / moment_name(START_NS + number)).write_bytes(content)
    archive = tmp_path / "one.msmemscope"
    assert main(["export", str(capture), "--to=archive", "-o", str(archive)]) == 0
    assert_frame_equal(read_history(archive).rows, read_history(capture).rows)
    (tmp_path / "again").mkdir()
    restored = restore_folder(Capture(archive.rename(tmp_path / "again" / archive.name)))
    assert_frame_equal(read_history(restored).rows, read_history(capture).rows)
    assert read_history(restored).moment_count == MOST_READ


def test_what_is_no_moment_costs_nothing_else(capture: Path) -> None:
    """Files that are damaged, foreign, pipes, links, or half written."""
    good = keep_moment(capture, moment(START_NS))
    folder, content = good.parent, good.read_bytes()
    (folder / moment_name(START_NS + 1)).write_bytes(content[: len(content) // 2])
    (folder / moment_name(START_NS + 2)).write_bytes(b"")
    pl.DataFrame({"other": [1]}).write_parquet(folder / moment_name(START_NS + 3))
    pl.DataFrame({name: ["x"] for name in HISTORY_SCHEMA}).write_parquet(folder / moment_name(START_NS + 4))
    os.mkfifo(folder / moment_name(START_NS + 5))
    (folder / moment_name(START_NS + 6)).symlink_to(good)
    (folder / moment_name(START_NS + 7)).mkdir()
    (folder / f"{moment_name(START_NS + 8)}.partial").write_bytes(content)
    (folder / "notes.txt").write_text("mine")
    found = read_history(capture)
    assert_frame_equal(found.rows, moment(START_NS))
    assert (found.moment_count, found.unreadable_count) == (8, 7)


def test_a_file_is_one_moment_of_bounded_size(capture: Path) -> None:
    """Whatever times its rows claim: it is named by the moment."""
    path = keep_moment(capture, moment(START_NS, rows=MOST_ROWS * 2))
    path.rename(path.with_name(moment_name(START_NS + 5)))
    found = read_history(capture).rows
    assert found.height == MOST_ROWS
    assert found["timestamp_ns"].unique().to_list() == [START_NS + 5]


def test_of_many_moments_some_are_read(capture: Path) -> None:
    """Evenly spaced, the first and the last among them."""
    content = keep_moment(capture, moment(START_NS)).read_bytes()
    times = [START_NS + number * 10**9 for number in range(3 * MOST_READ)]
    for time_ns in times:
        (capture / "history" / moment_name(time_ns)).write_bytes(content)
    found = read_history(capture)
    read = found.rows["timestamp_ns"].to_list()
    assert (found.moment_count, len(read)) == (3 * MOST_READ, MOST_READ)
    assert (read[0], read[-1]) == (times[0], times[-1])
    assert max(later - earlier for earlier, later in itertools.pairwise(read)) <= 4 * 10**9


def test_too_many_moments_are_thinned(capture: Path) -> None:
    """Every second one of the older half goes, again and again; the first and the newest stay."""
    names = [moment_name(START_NS + number) for number in range(40)]
    (capture / "history").mkdir()
    for name in names:
        (capture / "history" / name).touch()
        thin(capture / "history", kept_moments(capture), most=20)
    kept = kept_moments(capture)
    assert len(kept) <= 20
    assert kept[0] == names[0]
    assert kept[-8:] == names[-8:]


def test_a_moment_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    """Where the name of the folder is taken, or the folder is another user's link."""
    (tmp_path / "history").symlink_to(tmp_path)
    with pytest.raises(DumpError, match="symbolic link"):
        keep_moment(tmp_path, moment(START_NS))
    (tmp_path / "history").unlink()
    (tmp_path / "history").write_text("a file")
    with pytest.raises(DumpError, match="cannot be used"):
        keep_moment(tmp_path, moment(START_NS))
    assert [path.name for path in tmp_path.iterdir()] == ["history"]
