"""The folder of indexes: what stays in it, and what goes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from msmemscope.view.index.cache import IndexFolder, UnwritableCacheError
from tests.support.recorded_runs import write_run

if TYPE_CHECKING:
    from pathlib import Path

_DAY_S = 86_400
# A process of its own: it forks, and other tests have begun threads here.
OPEN_WITHOUT_ROOM = """
import sys
from pathlib import Path
from msmemscope.view.index import cache
from msmemscope.view.opened import open_processes
cache.MOST_BYTES = 0
place, *paths = map(Path, sys.argv[1:])
failures = []
for process in open_processes(paths, failures, lambda *_: None, place):
    print(process.facts["process_id"], len(process.labels("owner")) > 0)
assert not failures, failures
"""


@pytest.fixture
def index(tmp_path: Path) -> IndexFolder:
    """Where the index of a file shall be."""
    (tmp_path / "recording").write_text("events", encoding="utf-8")
    return IndexFolder(tmp_path / "recording", tmp_path / "cache")


def test_an_index_takes_its_place_when_it_is_whole(index: IndexFolder, tmp_path: Path) -> None:
    """With its processes and nothing else; until then there is none."""
    with index.made() as folder:
        (folder / "0").mkdir()
        (folder / "1").mkdir()
        assert index.parts() == []
    assert index.parts() == [index.folder / "0", index.folder / "1"]
    assert sorted(path.name for path in index.folder.iterdir()) == ["0", "1", "made_of.json"]
    assert list((tmp_path / "cache").iterdir()) == [index.folder]


def test_the_first_of_two_that_make_the_same_index_is_kept(index: IndexFolder, tmp_path: Path) -> None:
    """It may be open already."""
    with index.made() as slower:
        with index.made() as faster:
            assert slower.exists()
            (faster / "0").mkdir()
            (faster / "0" / "faster").touch()
        (slower / "0").mkdir()
    assert (index.folder / "0" / "faster").exists()
    assert list((tmp_path / "cache").iterdir()) == [index.folder]


def test_without_locks_the_age_of_a_folder_tells(index: IndexFolder, tmp_path: Path) -> None:
    """Whether anybody still works in it: nobody does for a day."""
    fresh, old = tmp_path / "cache" / "fresh.part", tmp_path / "cache" / "old.part"
    for folder, age_s in ((fresh, _DAY_S / 2), (old, 2 * _DAY_S)):
        (folder / "0").mkdir(parents=True)
        os.utime(folder, (time.time() - age_s,) * 2)
    with index.made():
        assert fresh.exists()
        assert not old.exists()


def test_an_index_that_may_only_be_read_is_used(index: IndexFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although the time of its use cannot be noted."""
    with index.made() as folder:
        (folder / "0").mkdir()

    def refuse(_path: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "utime", refuse)
    assert index.parts() == [index.folder / "0"]


def test_more_indexes_than_are_kept_can_be_shown_together(tmp_path: Path) -> None:
    """The index of one recording makes room for the next while it is open."""
    captures = [write_run(tmp_path / str(number), process_id=number) for number in (1, 2, 3)]
    command = [sys.executable, "-c", OPEN_WITHOUT_ROOM, str(tmp_path / "cache"), *map(str, captures)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (run.stdout, run.stderr) == ("1 True\n2 True\n3 True\n", "")
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_user_without_a_home_has_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is said as such."""

    def unknown() -> Path:
        message = "Could not determine home directory."
        raise RuntimeError(message)

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", unknown)
    with pytest.raises(UnwritableCacheError, match="this user has no home folder"):
        IndexFolder(tmp_path)
