"""Files are created where they belong, completely or not at all."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from msmemscope.configuration import Config, DataFormat
from msmemscope.errors import DumpError
from msmemscope.formats.dump import write_dumps
from msmemscope.formats.dump.naming import timestamp_at
from msmemscope.formats.dump.output_files import OutputFolder
from msmemscope.formats.event_log import Capture
from tests.fakes.event_log_builder import ATEN_START, FUNCTION_CALL, EventLogBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.formats.dump.conftest import Dump

BOTH_FORMATS = pytest.mark.parametrize("data_format", list(DataFormat))


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Run with another file mode creation mask."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """Let writes fail that make a file larger, as they do on a full disk."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def files_below(directory: Path) -> list[Path]:
    """Everything that is not part of the event log."""
    return [path for path in directory.rglob("*") if path.is_file() and path.parent.name != "event_log"]


@BOTH_FORMATS
def test_modes_are_strict_whatever_the_mask(builder: EventLogBuilder, dump: Dump, data_format: DataFormat) -> None:
    """Folders 0750, files 0640, and less if the user's mask says so."""
    builder.add(ATEN_START)
    builder.add(FUNCTION_CALL, name_id=builder.string("f"), timestamp_ns=1, extra=2)
    with umask(0):
        files = dump(data_format)
    for path in files_below(builder.directory):
        assert stat.S_IMODE(path.stat().st_mode) == 0o640, path
    for folder in (path.parent for path in files.csv_files + files.db_files):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o750
        assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o750
    with umask(0o077):
        files = dump(data_format)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.csv_files + files.db_files} == {0o600}


@BOTH_FORMATS
@pytest.mark.parametrize("part", ["device_cpu", "device_cpu/dump"])
def test_planted_folders_are_not_followed(
    builder: EventLogBuilder, dump: Dump, tmp_path: Path, part: str, data_format: DataFormat
) -> None:
    """A symbolic link in place of a folder is refused, with its path."""
    builder.add(ATEN_START)
    directory = builder.write()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (directory / part).parent.mkdir(exist_ok=True)
    (directory / part).symlink_to(elsewhere)
    with pytest.raises(DumpError, match=f"{part} cannot be used: it is a symbolic link") as caught:
        dump(data_format)
    assert caught.value.hint
    assert list(elsewhere.iterdir()) == []


@BOTH_FORMATS
def test_planted_files_are_not_followed(
    builder: EventLogBuilder, dump: Dump, tmp_path: Path, data_format: DataFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links under the names that are going to be used lead nowhere, dangling or not."""
    monkeypatch.setattr("msmemscope.formats.dump.dump_session.time.time", lambda: 1_700_000_000.0)
    builder.add(ATEN_START)
    directory = builder.write()
    folder = directory / "device_cpu" / "dump"
    folder.mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    name = f"memscope_dump_{timestamp_at(1_700_000_000)}.{data_format.value}"
    (folder / name).symlink_to(victim)
    (folder / f"memscope_dump_{timestamp_at(1_700_000_001)}.{data_format.value}").symlink_to(tmp_path / "new")
    (folder / f"memscope_dump_{timestamp_at(1_700_000_002)}.{data_format.value}.partial").symlink_to(victim)
    files = dump(data_format)
    assert (files.csv_files + files.db_files)[
        0
    ].name == f"memscope_dump_{timestamp_at(1_700_000_003)}.{data_format.value}"
    assert victim.read_text(encoding="utf-8") == "precious"
    assert not (tmp_path / "new").exists()


@BOTH_FORMATS
def test_full_disk_leaves_no_partial_file(builder: EventLogBuilder, dump: Dump, data_format: DataFormat) -> None:
    """The error names the file, finished dumps stay, unfinished ones go."""
    name = builder.string("x" * 100)
    for _ in range(2000):
        builder.add(ATEN_START, name_id=name)
    finished = dump(data_format)
    before = {path: path.read_bytes() for path in files_below(builder.directory)}
    with largest_file(100_000), pytest.raises(DumpError, match=r"memscope_dump_\d+\.\w+ cannot be written: "):
        write_dumps(Capture(builder.directory), Config(data_format=data_format))
    assert {path: path.read_bytes() for path in files_below(builder.directory)} == before
    assert (finished.csv_files + finished.db_files)[0] in before


@BOTH_FORMATS
def test_disk_that_is_full_from_the_start(builder: EventLogBuilder, data_format: DataFormat) -> None:
    """Not even the header line fits."""
    builder.add(ATEN_START)
    directory = builder.write()
    with largest_file(0), pytest.raises(DumpError):
        write_dumps(Capture(directory), Config(data_format=data_format))
    assert files_below(directory) == []


@BOTH_FORMATS
def test_interrupt_leaves_no_partial_file(builder: EventLogBuilder, data_format: DataFormat) -> None:
    """Ctrl-C while dumps are written cleans up as well."""
    builder.add(ATEN_START)
    builder.add(FUNCTION_CALL, name_id=builder.string("f"), timestamp_ns=1, extra=2)
    directory = builder.write()

    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_dumps(Capture(directory), Config(data_format=data_format), progress=interrupt)
    assert files_below(directory) == []


def test_abandoned_files_are_removed_and_others_kept(builder: EventLogBuilder, dump: Dump) -> None:
    """Files that a killed export left are removed. Files that another export is writing stay."""
    builder.add(ATEN_START)
    directory = builder.write()
    folder = directory / "device_cpu" / "dump"
    folder.mkdir(parents=True)
    (folder / "memscope_dump_20200101000000.csv.partial").write_text("half", encoding="utf-8")
    with OutputFolder(folder) as other:
        writing = other.create("memscope_dump_20210101000000.csv")
        writing.write(b"still going")
        dump()
        assert sorted(path.name for path in folder.glob("*.partial")) == ["memscope_dump_20210101000000.csv.partial"]
        assert writing.finish().read_bytes() == b"still going"


def test_name_that_was_taken_meanwhile(tmp_path: Path) -> None:
    """Between choosing a name and finishing, somebody else may have used it: theirs stays."""
    with OutputFolder(tmp_path) as folder:
        file = folder.create("dump.csv")
        file.write(b"ours")
        (tmp_path / "dump.csv").write_bytes(b"theirs")
        with pytest.raises(DumpError, match="File exists"):
            file.finish()
        file.discard()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("dump.csv", b"theirs")]


def test_unfinished_file_that_was_replaced(tmp_path: Path) -> None:
    """Only the file that was written gets the name."""
    with OutputFolder(tmp_path) as folder:
        file = folder.create("dump.csv")
        (tmp_path / "dump.csv.partial").unlink()
        (tmp_path / "dump.csv.partial").write_bytes(b"theirs")
        with pytest.raises(DumpError, match="replaced"):
            file.finish()
        file.discard()
    assert not (tmp_path / "dump.csv").exists()


@pytest.mark.parametrize("reason", [errno.EPERM, errno.EOPNOTSUPP])
def test_file_systems_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int) -> None:
    """The name is reserved first, so that nothing can be overwritten there either."""

    def no_link(*_arguments: object, **_options: object) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, "link", no_link)
    with OutputFolder(tmp_path) as folder:
        file = folder.create("dump.csv")
        file.write(b"ours")
        assert file.finish().read_bytes() == b"ours"
        again = folder.create("dump.csv")
        with pytest.raises(DumpError, match="File exists"):
            again.finish()
        again.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["dump.csv"]


def test_directory_that_is_not_there(tmp_path: Path) -> None:
    """The path is named."""
    with pytest.raises(DumpError, match="missing cannot be used: No such file"):
        OutputFolder(tmp_path / "missing")
