"""Files that take the place of ours between their creation and their writing are not written."""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from msmemscope.capture.output_root import open_directory, open_parent
from msmemscope.configuration import DataFormat
from msmemscope.errors import DumpError, PlantedLinkError
from msmemscope.formats.dump.db_attributes import connect_to
from msmemscope.formats.dump.file_replacement import replacement_of
from msmemscope.formats.dump.output_files import OutputFolder
from msmemscope.formats.dump.sqlite_writer import SqliteFile
from msmemscope.formats.dump.write_back import write_inefficient_types
from tests.fakes.event_log_builder import ATEN_START, EventLogBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.formats.dump.conftest import Dump

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link to another user")
NOBODY = 65534
KINDS = pl.DataFrame(
    {"process_id": [7], "allocation_id": [2], "inefficient_type": ["late_deallocation"]},
    schema={"process_id": pl.UInt32(), "allocation_id": pl.UInt64(), "inefficient_type": pl.String()},
)
CSV = (
    "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)\n"
    '2,MALLOC,PTA,N/A,1,7,7,0,0x00,"{allocation_id:2,size:64}",,\n'
)


def made(path: Path) -> bytes:
    """Make a dump of the kind that its name says, and return its bytes."""
    if path.suffix == ".db":
        return database(path)
    path.write_text(CSV)
    return path.read_bytes()


def database(path: Path, *, write_ahead: bool = False) -> bytes:
    """Make a database with a dump, and return its bytes."""
    with closing(sqlite3.connect(path)) as connection:
        if write_ahead:
            connection.execute("PRAGMA journal_mode=WAL")
        columns = ", ".join(f'"{name}"' for name in CSV.split("\n", maxsplit=1)[0].split(","))
        connection.execute(f"CREATE TABLE memscope_dump ({columns})")
        row = [2, "MALLOC", "PTA", "N/A", 1, 7, 7, 0, "0x0", '{"allocation_id":"2"}', "", ""]
        connection.execute(f"INSERT INTO memscope_dump VALUES ({', '.join('?' * 12)})", row)
        connection.commit()
    return path.read_bytes()


def symbolic(place: Path, victim: Path) -> None:
    """Put a symbolic link into the place of a file."""
    place.unlink()
    place.symlink_to(victim)


def hard(place: Path, victim: Path) -> None:
    """The same with a hard link."""
    place.unlink()
    place.hardlink_to(victim)


SWAPS = pytest.mark.parametrize("swap", [symbolic, hard])


@SWAPS
def test_a_dump_in_sqlite(
    builder: EventLogBuilder,
    dump: Dump,
    tmp_path: Path,
    swap: Callable[[Path, Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is opened by its name once it was created: a database of the user stays as it is."""
    victim = tmp_path / "victim.db"
    content = database(victim)
    real = SqliteFile.add_table

    def add_table(self: SqliteFile, name: str, columns: Any) -> Any:
        (partial,) = builder.directory.rglob("*.partial")
        swap(partial, victim)
        return real(self, name, columns)

    monkeypatch.setattr(SqliteFile, "add_table", add_table)
    builder.add(ATEN_START)
    with pytest.raises(DumpError, match="it was replaced by another file"):
        dump(DataFormat.DB)
    assert victim.read_bytes() == content


@SWAPS
def test_a_dump_in_csv(builder: EventLogBuilder, tmp_path: Path, swap: Callable[[Path, Path], None]) -> None:
    """Rows go into the file that was created, and the other file does not get its name."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    directory = builder.write()
    with OutputFolder(directory, "device_cpu", "dump") as folder:
        file = folder.create("dump.csv")
        swap(folder.path / "dump.csv.partial", victim)
        file.write(b"rows\n")
        with pytest.raises(DumpError, match="it was replaced by another file"):
            file.finish()
        file.suspend()
        with pytest.raises(DumpError):
            file.write(b"more\n")
        file.discard()
    assert victim.read_text() == "precious"
    assert not (directory / "device_cpu" / "dump" / "dump.csv").exists()


@SWAPS
def test_a_copy_that_is_being_changed(tmp_path: Path, swap: Callable[[Path, Path], None]) -> None:
    """Neither its content nor its owner and permissions reach the other file; the dump stays as it was."""
    folder = tmp_path / "results"
    folder.mkdir()
    path, victim = folder / "dump.csv", tmp_path / "victim"
    path.write_text(CSV)
    victim.write_text("precious")
    victim.chmod(0o600)
    change = ExitStack()
    copy = change.enter_context(replacement_of(path))
    (temporary,) = folder.glob(".dump.csv.*.partial")
    swap(temporary, victim)
    copy.path.write_text("changed")
    with pytest.raises(DumpError, match="was replaced by another file"):
        change.close()
    assert (victim.read_text(), victim.stat().st_mode & 0o777) == ("precious", 0o600)
    assert path.read_text() == CSV


def test_a_database_that_is_being_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is made by SQLite, by its name."""
    folder = tmp_path / "results"
    folder.mkdir()
    path, victim = folder / "dump.db", tmp_path / "victim.db"
    content, other = database(path), database(victim)
    real = sqlite3.connect

    def connect(address: str, **options: Any) -> Any:
        for temporary in folder.glob(".dump.db.*.partial"):
            symbolic(temporary, victim)
        return real(address, **options)

    monkeypatch.setattr("msmemscope.formats.dump.db_attributes.sqlite3.connect", connect)
    with pytest.raises(DumpError, match="cannot be changed"):
        write_inefficient_types(path, KINDS)
    assert (path.read_bytes(), victim.read_bytes()) == (content, other)


def test_other_names_of_a_dump_keep_their_content(tmp_path: Path) -> None:
    """The dump is replaced, not written: what is linked to the same file does not change."""
    for path in (tmp_path / "dump.csv", tmp_path / "dump.db"):
        content = made(path)
        other = tmp_path / f"other_{path.name}"
        other.hardlink_to(path)
        assert write_inefficient_types(path, KINDS).rows == 1
        assert b"late_deallocation" in path.read_bytes()
        assert other.read_bytes() == content


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
@SWAPS
def test_links_beside_a_database(tmp_path: Path, suffix: str, swap: Callable[[Path, Path], None]) -> None:
    """SQLite would write into them by their names."""
    path, victim = tmp_path / "dump.db", tmp_path / "victim"
    content = database(path, write_ahead=True)
    victim.write_text("precious" * 1000)
    beside = path.with_name(f"{path.name}{suffix}")
    beside.touch()
    swap(beside, victim)
    with pytest.raises(DumpError, match=f"dump.db{suffix} beside it is a link"):
        write_inefficient_types(path, KINDS)
    assert victim.read_text() == "precious" * 1000
    assert path.read_bytes() == content


def test_a_database_with_a_log_keeps_its_format(tmp_path: Path) -> None:
    """And no file appears beside its copy while it is changed."""
    path = tmp_path / "dump.db"
    database(path, write_ahead=True)
    assert write_inefficient_types(path, KINDS).rows == 1
    assert path.read_bytes()[18:20] == b"\2\2"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_connecting_to_the_file_itself(tmp_path: Path) -> None:
    """By its name, and by that of a descriptor."""
    path = tmp_path / "new.db"
    path.touch()
    status = path.stat()
    with closing(connect_to(str(path), (status.st_dev, status.st_ino))) as connection:
        connection.execute("CREATE TABLE t (a)")
    descriptor = os.open(path, os.O_RDWR)
    with closing(connect_to(f"/proc/self/fd/{descriptor}", (status.st_dev, status.st_ino))) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
    os.close(descriptor)
    with pytest.raises(sqlite3.Error):
        connect_to(str(path), (status.st_dev, status.st_ino + 1))
    (tmp_path / "text").write_text("no database at all, but some text")
    with pytest.raises(sqlite3.Error):
        connect_to(str(tmp_path / "text"), (status.st_dev, status.st_ino))


@needs_root
def test_links_that_others_planted(builder: EventLogBuilder, dump: Dump, tmp_path: Path) -> None:
    """In the place of the capture, and in that of a dump: nothing behind them is written."""
    builder.add(ATEN_START)
    directory = builder.write()
    elsewhere = tmp_path / "elsewhere"
    directory.rename(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    directory.symlink_to(elsewhere)
    os.chown(directory, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(DumpError, match="leads through a symbolic link of another user"):
        dump()
    assert sorted(elsewhere.rglob("*")) == before
    for victim in (tmp_path / "victim.csv", tmp_path / "victim.db"):
        content, link = made(victim), victim.with_name(f"link_{victim.name}")
        link.symlink_to(victim)
        os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
        with pytest.raises(DumpError, match="leads through a symbolic link of another user"):
            write_inefficient_types(link, KINDS)
        assert victim.read_bytes() == content


def test_own_links_lead_to_the_file_and_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative ones, chains, a loop, and paths with `..`."""
    (tmp_path / "real").mkdir()
    file = tmp_path / "real" / "file"
    file.touch()
    (tmp_path / "folder").symlink_to("real")
    (tmp_path / "one").symlink_to("folder/file")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path / "real")
    for path in ("../two", str(tmp_path / "two"), "file", "../folder/../real/file"):
        descriptor, name = open_parent(path)
        assert name == "file"
        assert os.fstat(descriptor).st_ino == (tmp_path / "real").stat().st_ino
        os.close(descriptor)
    descriptor = open_directory("../folder")
    assert os.fstat(descriptor).st_ino == (tmp_path / "real").stat().st_ino
    os.close(descriptor)
    with pytest.raises(PlantedLinkError, match="too many"):
        open_parent("../loop")
    with pytest.raises(FileNotFoundError):
        open_parent("../missing")
    with pytest.raises(NotADirectoryError):
        open_directory("file")
