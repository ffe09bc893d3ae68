"""Gathering captures: into folders and file systems of fsspec, complete or not at all, and never at the program's cost."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from msmemscope.errors import DumpError, EventLogError, UsageError
from msmemscope.formats.event_log import Capture
from msmemscope.formats.reading import load
from msmemscope.launch.destination import Destination, destination_of
from msmemscope.launch.gather import gather, gathered_name
from tests.support.recorded_runs import write_run
from tests.support.tool import TOOL, run

if TYPE_CHECKING:
    from collections.abc import Callable


class Place:
    """A place to gather at, and how to look at it."""

    def __init__(self, url: str, names: Callable[[], list[str]], read: Callable[[str], bytes]) -> None:
        self.url = url
        self.names = names
        self.read = read


@pytest.fixture(params=["folder", "file://", "memory://"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A folder that is not there yet, by its path and its URL, and a store of fsspec."""
    if request.param == "memory://":
        fsspec = pytest.importorskip("fsspec")
        system, root = fsspec.filesystem("memory"), f"/{uuid4().hex}/of all"

        def names() -> list[str]:
            return sorted(path.rpartition("/")[2] for path in system.find(root))

        return Place(f"memory:/{root}", names, lambda name: bytes(system.cat_file(f"{root}/{name}")))
    folder = tmp_path / "gathered" / "of all"
    url = folder.as_uri() if request.param == "file://" else str(folder)
    return Place(
        url,
        lambda: sorted(path.name for path in folder.iterdir()) if folder.exists() else [],
        lambda name: (folder / name).read_bytes(),
    )


def test_a_file_has_its_name_when_it_is_complete(place: Place) -> None:
    """While it is written, nothing is seen under it."""
    seen: list[list[str]] = []

    def content(write: Callable[[bytes], object]) -> None:
        write(b"first ")
        seen.append(place.names())
        write(b"second")

    destination_of(place.url).put("one.msmemscope", content)
    assert all("one.msmemscope" not in names for names in seen)
    assert place.names() == ["one.msmemscope"]
    assert place.read("one.msmemscope") == b"first second"


def test_of_a_file_that_fails_nothing_is_left(place: Place) -> None:
    """And the reason is the one that it failed for."""

    def content(write: Callable[[bytes], object]) -> None:
        write(b"first ")
        message = "the log is damaged"
        raise EventLogError(message)

    with pytest.raises(EventLogError, match="the log is damaged"):
        destination_of(place.url).put("one.msmemscope", content)
    assert place.names() == []


def test_nothing_is_overwritten(place: Place) -> None:
    """A capture that has the name stays as it is."""
    destination = destination_of(place.url)
    destination.put("one.msmemscope", lambda write: write(b"first"))
    with pytest.raises(DumpError, match="one"):
        destination.put("one.msmemscope", lambda write: write(b"second"))
    assert place.names() == ["one.msmemscope"]
    assert place.read("one.msmemscope") == b"first"


@pytest.mark.parametrize("text", ["", " ", "a\nb", "file://host/captures", "file:captures://", "nosuch://captures"])
def test_what_cannot_be_written_to_is_refused_before_anything_starts(text: str) -> None:
    """With the value."""
    with pytest.raises(UsageError) as caught:
        destination_of(text)
    assert caught.value.value == text


def test_a_store_needs_fsspec_and_a_folder_does_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The extra that has it is named."""
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UsageError) as caught:
        destination_of("s3://bucket/captures")
    assert "msmemscope[cluster]" in (caught.value.hint or "")
    destination_of(tmp_path.as_uri()).put("one", lambda write: write(b"1"))
    assert (tmp_path / "one").read_bytes() == b"1"


def test_names_tell_hosts_and_ranks_apart(tmp_path: Path) -> None:
    """Process ids and seconds repeat; letters that a store could take for something else do not stay."""
    ranked = Capture(write_run(tmp_path / "a", rank=12))
    alone = Capture(write_run(tmp_path / "b"))
    assert gathered_name(ranked, "node-7.local") == f"rank12_node-7.local_{ranked.directory.name}.msmemscope"
    assert gathered_name(alone, "../a b") == f"a-b_{alone.directory.name}.msmemscope"


class _Failing:
    """Takes nothing the first time."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._has_failed = False

    def put(self, name: str, content: Callable[[Callable[[bytes], object]], object]) -> None:
        if not self._has_failed:
            self._has_failed = True
            message = "the store is full"
            raise DumpError(message)
        self._destination.put(name, content)


def test_a_failure_is_one_line_and_does_not_cost_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are gathered, and read as the captures are."""
    captures = [Capture(write_run(tmp_path / "runs", process_id=100 + rank, rank=rank)) for rank in range(3)]
    gather(captures, _Failing(destination_of(str(tmp_path / "all"))), "here")
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "warning" in line)
    assert captures[0].directory.name in line
    assert "the store is full" in line
    for capture in captures[1:]:
        archive = load(tmp_path / "all" / gathered_name(capture, "here"))
        assert archive.events.equals(load(capture.directory).events)
        assert archive.place == load(capture.directory).place


def test_a_place_that_cannot_be_used_starts_nothing(tmp_path: Path) -> None:
    """Exit status 2, and no output folder."""
    finished = run(
        [*TOOL, f"--output={tmp_path / 'out'}", "--gather=nosuch://x", "--", "touch", tmp_path / "started"],
        output=tmp_path / "out",
    )
    assert finished.returncode == 2
    assert "--gather" in finished.stderr
    assert not list(tmp_path.iterdir())
