"""An archive says what its event log says, and says it again in the same bytes."""

from __future__ import annotations

import io
import random
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from msmemscope.errors import EventLogError, MsmemscopeError
from msmemscope.formats.event_log import Capture, capture
from msmemscope.formats.event_log.archive.archive_writer import write_archive
from msmemscope.formats.event_log.archive.contents import BLOCK_ROWS, MIME_TYPE, MIME_TYPE_MEMBER
from msmemscope.formats.event_log.archive.restoring import restore_folder
from msmemscope.formats.event_log.text_dump import write_text
from msmemscope.formats.export.export_choice import ExportChoice
from msmemscope.formats.export.writing import Place, write_export
from msmemscope.formats.reading import load
from tests.fakes.event_log_builder import MARK, STATE_OPEN, Event, EventLogBuilder
from tests.fuzzing.event_logs import damaged_log, random_run
from tests.support.nightly import NIGHT, nightly

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.recording import Recording

NAME = "msmemscope_4242_20240101120000_ascend"
TABLES = ("events", "blocks", "strings", "python_stacks", "native_stacks", "attributes")


def archived(capture: Capture) -> bytes:
    """The archive of a capture."""
    content = bytearray()
    write_archive(capture, content.extend)
    return bytes(content)


def archive_of(folder: Path) -> Path:
    """The archive of a capture, in a file beside it."""
    path = folder.parent / f"{folder.name}.msmemscope"
    path.write_bytes(archived(Capture(folder)))
    return path


def assert_same(one: Recording, other: Recording) -> None:
    """Both recordings hold the same, except for where they are from."""
    for name in TABLES:
        assert getattr(one, name).equals(getattr(other, name)), name
    for name in ("form", "process_id", "coverage", "problems", "facts"):
        assert getattr(one, name) == getattr(other, name), name


def text_of(capture: Capture) -> str:
    """Header, definitions and events, without the path."""
    out = io.StringIO()
    write_text(capture, out, definitions=True)
    return out.getvalue().partition("\n")[2]


def random_log(folder: Path, number: int) -> Path:
    """A log that nobody recorded; some of them are damaged."""
    chance = random.Random(number)  # noqa: S311 - not for secrets
    files = random_run(chance)
    if number % 4 == 0:
        files = damaged_log(chance, files)
    log = folder / NAME / "event_log"
    log.mkdir(parents=True)
    for name, content in files.items():
        (log / name).write_bytes(content)
    return log.parent


LOGS = 15 if NIGHT else 8


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=nightly) for first in range(15, 120, 15))])
def test_random_logs(first: int, tmp_path: Path) -> None:
    """All of it is as in the folder; the archive of the archive has its bytes; the folder that is made again says the same."""
    compared = 0
    for number in range(first, first + LOGS):
        folder = random_log(tmp_path / str(number), number)
        try:
            of_folder = load(folder)
        except MsmemscopeError:  # damaged beyond reading
            continue
        path = archive_of(folder)
        of_archive = load(path)
        assert_same(of_folder, of_archive)
        assert text_of(Capture(folder)) == text_of(Capture(path))
        assert archived(Capture(path)) == path.read_bytes()
        (tmp_path / f"again{number}").mkdir()
        moved = path.rename(tmp_path / f"again{number}" / path.name)
        restored = restore_folder(Capture(moved))
        assert restored.name == NAME
        assert load(restored).events.equals(of_folder.events)
        assert Capture(restored).facts == of_folder.facts
        compared += 1
    assert compared > LOGS // 2


@pytest.mark.parametrize("number", [1, 2, 5, 7])
def test_dumps_are_the_same(number: int, tmp_path: Path) -> None:
    """Byte for byte."""
    folder = random_log(tmp_path, number)
    path = archive_of(folder)
    for source in (folder, path):
        write_export(load(source), "csv", Place(tmp_path / f"{source.suffix}_csv"), ExportChoice("a run"))
    of_folder, of_archive = (
        {file.relative_to(root): file.read_bytes() for file in root.rglob("*") if file.suffix in {".csv", ".db"}}
        for root in (tmp_path / "_csv", tmp_path / ".msmemscope_csv")
    )
    assert {str(name).split("_2")[0] for name in of_folder} == {str(name).split("_2")[0] for name in of_archive}
    assert sorted(of_folder.values()) == sorted(of_archive.values())


def long_log(root: Path, events: int) -> Path:
    """A log of several pieces."""
    builder = EventLogBuilder(root, segment_bytes=0)
    name = builder.string("a mark")
    mark = builder.record(Event(1, MARK, name_id=name))
    records = np.frombuffer(mark * events, dtype=np.uint8).reshape(events, 64).copy()
    records[:, :8] = np.arange(1, events + 1, dtype="<u8").view(np.uint8).reshape(events, 8)
    builder.events[0] = [records.tobytes()]
    return builder.write()


def test_several_pieces(tmp_path: Path) -> None:
    """Of records, each by itself; progress says how far it is."""
    events = 2 * BLOCK_ROWS + 3
    folder = long_log(tmp_path, events)
    seen: list[tuple[int, int]] = []
    content = bytearray()
    write_archive(Capture(folder), content.extend, lambda done, total: seen.append((done, total)))
    assert seen == [(BLOCK_ROWS, events), (2 * BLOCK_ROWS, events), (events, events)]
    path = tmp_path / "long.msmemscope"
    path.write_bytes(content)
    assert pl.concat(Capture(path).event_batches(1000)).equals(pl.concat(Capture(folder).event_batches(1000)))
    with zipfile.ZipFile(path) as archive:
        assert [name for name in archive.namelist() if name.startswith("events/")] == [
            f"events/{number:06}.arrow" for number in range(3)
        ]


def test_many_definitions(tmp_path: Path) -> None:
    """Of definitions and of texts of frames there can be several pieces as well."""
    builder = EventLogBuilder(tmp_path, segment_bytes=0)
    builder.module("/usr/lib/libgone.so", 0, 1 << 40, load_bias=0)
    for number in range(3000):
        builder.malloc(
            512 * number,
            512,
            name_id=builder.string(f"{number} {'x' * 200}"),
            native_stack_id=builder.native_stack(*range(number * 3, number * 3 + 3)),
        )
    folder = builder.write()
    path = archive_of(folder)
    assert_same(load(folder), load(path))
    with zipfile.ZipFile(path) as archive:
        pieces = [name.rpartition("/")[0] for name in archive.namelist() if name.endswith(".arrow")]
    assert min(pieces.count("definitions/little"), pieces.count("native_frames")) > 1


def test_it_tells_by_its_first_bytes_what_it_is(tmp_path: Path) -> None:
    """As documents of other programs do; nothing in it is of the time at which it was written."""
    path = archive_of(random_log(tmp_path, 1))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        first = archive.infolist()[0]
        assert (first.filename, archive.read(first)) == (MIME_TYPE_MEMBER, MIME_TYPE)
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert path.read_bytes()[30:].startswith(b"mimetypeapplication/vnd.msmemscope.archive")


def test_native_frames_need_no_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names are those of the machine that wrote the archive, also where its files are not."""
    builder = EventLogBuilder(tmp_path)
    builder.module("/usr/lib/libgone.so", 0x1000, 0x3000, load_bias=0x1000, build_id=b"\1\2")
    block = builder.malloc(512, 512, native_stack_id=builder.native_stack(0x1010, 0x2020))
    builder.free(block, 512, 512, native_stack_id=builder.native_stack(0x9999))
    folder = builder.write()
    with monkeypatch.context() as here:
        here.setattr(capture, "Symbolizer", _Here)
        path = archive_of(folder)
    found = load(path).native_stacks
    assert sorted(found["text"]) == ["here(0x1010)\nhere(0x2020)\n", "here(0x9999)\n"]
    assert "libgone.so(+0x10)" in load(folder).native_stacks["text"].str.join("")[0]


class _Here:
    """A machine where all symbols are known."""

    changes = ()

    def __init__(self, *_: object, **__: object) -> None:
        """Know them."""

    def text_in_epoch(self, address: int, _: int) -> str:
        """Return the name of an address."""
        return f"here({address:#x})"


def test_a_process_that_still_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive is what it had recorded until then, and says so; it does not grow."""
    builder = EventLogBuilder(tmp_path, state=STATE_OPEN)
    builder.malloc(512, 512)
    capture = Capture(builder.write())
    monkeypatch.setattr(type(capture.log), "is_running", lambda _: True)
    path = tmp_path / "running.msmemscope"
    path.write_bytes(archived(capture))
    assert not Capture(path).is_running()
    assert load(path).coverage == ("the process was still running: this is what it had recorded when it was archived",)


def test_a_process_that_was_killed_at_its_start(tmp_path: Path) -> None:
    """Its number is in the name of its folder alone."""
    builder = EventLogBuilder(tmp_path)
    builder.malloc(512, 512)
    path = archive_of(builder.write(header=False)).rename(tmp_path / "other.msmemscope")
    assert not Capture(path).header_is_complete
    assert load(path).process_id == 4242


@pytest.mark.parametrize("name", ["a b", "a\nb", "a\udcff", "..x", "é" * 100])
def test_names_of_folders(name: str, tmp_path: Path) -> None:
    """A folder that the user renamed: letters that cannot be shown are others when it is made again."""
    folder = random_log(tmp_path, 1).rename(tmp_path / name)
    path = tmp_path / "one.msmemscope"
    path.write_bytes(archived(Capture(folder / "event_log" / "..")))
    assert load(path).events.equals(load(folder).events)
    (tmp_path / "elsewhere").mkdir()
    restored = restore_folder(Capture(path.rename(tmp_path / "elsewhere" / "one")))
    assert restored.name == name.replace("\n", "_").replace("\udcff", "_")


def test_the_folder_is_not_overwritten(tmp_path: Path) -> None:
    """A folder that has the name stays as it is, and nothing else is left."""
    folder = random_log(tmp_path, 1)
    path = archive_of(folder)
    before = sorted(file for file in tmp_path.rglob("*"))
    with pytest.raises(MsmemscopeError, match="is there already, and nothing is overwritten"):
        restore_folder(Capture(path))
    assert sorted(file for file in tmp_path.rglob("*")) == before


def test_an_empty_log(tmp_path: Path) -> None:
    """Nothing recorded is nothing archived."""
    path = archive_of(EventLogBuilder(tmp_path).write())
    assert load(path).events.is_empty()
    capture = Capture(path)
    path.unlink()
    with pytest.raises(EventLogError, match="cannot be read: No such file"):
        capture.log.definitions()
