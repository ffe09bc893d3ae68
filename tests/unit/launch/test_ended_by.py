"""A process that the kernel ended for lack of memory is told from one that somebody killed, with the limit that it hit."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from msmemscope.formats.event_log.log_folder import EVENT_LOG_DIRECTORY, LogFolder
from msmemscope.launch.ended_by import EndedBy, MemoryGroup, end_noted, limit_of_kill, memory_group, note_end

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
NO_LIMIT_OF_OLD = 9223372036854771712
"""The number that the first version of groups writes for no limit."""


def write(path: Path, text: str) -> None:
    """Write a file of the kernel."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")


def new_kind(folder: Path, path: str, *, within: str) -> tuple[Path, Path]:
    """Groups of the second version, as the kernel shows them; the process is in `path`."""
    groups, root = folder / "cgroup", folder / "fs"
    groups.write_text(f"0::{path}\n", encoding="ascii")
    write(root / within / "memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n")
    return groups, root


def test_the_least_limit_around_the_group(tmp_path: Path) -> None:
    """A group of a job may have less than the group of its step; `max` is no limit."""
    groups, root = new_kind(tmp_path, "/job/step", within="job/step")
    write(root / "job/step/memory.max", "max\n")
    write(root / "job/memory.max", f"{512 * MIB}\n")
    assert memory_group(groups, root) == MemoryGroup(512 * MIB, 2)


def test_a_container_sees_its_group_as_the_root(tmp_path: Path) -> None:
    """Whatever it is called outside."""
    groups, root = new_kind(tmp_path, "/kubepods/pod1", within="")
    write(root / "memory.max", f"{64 * MIB}\n")
    assert memory_group(groups, root) == MemoryGroup(64 * MIB, 2)


def test_the_room_that_is_left(tmp_path: Path) -> None:
    """Files that the kernel keeps at hand are room, shared memory is none; the nearest limit counts."""
    groups, root = new_kind(tmp_path, "/job/step", within="job/step")
    for group, limit, used in (("job/step", 512, 300), ("job", 600, 500)):
        write(root / group / "memory.max", f"{limit * MIB}\n")
        write(root / group / "memory.current", f"{used * MIB}\n")
        write(root / group / "memory.stat", f"anon 1\nfile {60 * MIB}\nshmem {20 * MIB}\n")
    found = memory_group(groups, root)
    assert found == MemoryGroup(512 * MIB, 2, 140 * MIB)


def test_the_room_in_groups_of_the_first_version(tmp_path: Path) -> None:
    """Their figures have other names; without a limit there is no end of room."""
    groups, root = tmp_path / "cgroup", tmp_path / "fs"
    groups.write_text("4:memory:/a\n", encoding="ascii")
    write(root / "memory/a/memory.oom_control", "oom_kill 7\n")
    write(root / "memory/a/memory.usage_in_bytes", f"{50 * MIB}\n")
    write(root / "memory/a/memory.stat", f"cache 1\ntotal_cache {10 * MIB}\ntotal_shmem 0\n")
    for text, room in ((f"{96 * MIB}", 56 * MIB), (f"{NO_LIMIT_OF_OLD}", None)):
        write(root / "memory/a/memory.limit_in_bytes", text)
        found = memory_group(groups, root)
        assert found is not None
        assert found.room_bytes == room


@pytest.mark.parametrize(("text", "limit"), [(f"{96 * MIB}\n", 96 * MIB), (f"{NO_LIMIT_OF_OLD}\n", 0)])
def test_groups_of_the_first_version(text: str, limit: int, tmp_path: Path) -> None:
    """The memory has a hierarchy of its own."""
    groups, root = tmp_path / "cgroup", tmp_path / "fs"
    groups.write_text("5:cpu:/a\n4:memory:/a\n0::/\n", encoding="ascii")
    write(root / "memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n")
    write(root / "memory/a/memory.limit_in_bytes", text)
    assert memory_group(groups, root) == MemoryGroup(limit, 7)


def test_a_kernel_that_says_nothing(tmp_path: Path) -> None:
    """No groups, or none that count."""
    assert memory_group(tmp_path / "missing", tmp_path) is None
    groups = tmp_path / "cgroup"
    groups.write_text("0::/a\nbroken\n", encoding="ascii")
    assert memory_group(groups, tmp_path) is None


def test_the_groups_of_this_machine() -> None:
    """Whatever they are, they are read."""
    found = memory_group()
    assert found is None or (found.kills >= 0 and found.limit_bytes >= 0)


BEFORE = MemoryGroup(512 * MIB, 2)


@pytest.mark.parametrize(
    ("number", "before", "after", "expected"),
    [
        (signal.SIGKILL, BEFORE, MemoryGroup(512 * MIB, 3), 512 * MIB),
        (signal.SIGKILL, MemoryGroup(0, 0), MemoryGroup(0, 1), 0),
        (signal.SIGKILL, BEFORE, BEFORE, None),
        (signal.SIGTERM, BEFORE, MemoryGroup(512 * MIB, 3), None),
        (0, BEFORE, MemoryGroup(512 * MIB, 3), None),
        (signal.SIGKILL, None, MemoryGroup(512 * MIB, 3), None),
    ],
)
def test_whom_the_kernel_ended(
    number: int, before: MemoryGroup | None, after: MemoryGroup | None, expected: int | None
) -> None:
    """By SIGKILL, and counted by the group; anybody can send one that nobody counts."""
    assert limit_of_kill(number, before, after) == expected


@pytest.mark.parametrize("limit", [None, 0, 512 * MIB])
def test_what_was_noted_is_read_back(limit: int | None, tmp_path: Path) -> None:
    """Beside the log, when the summary is asked for again."""
    noted = EndedBy("SIGKILL", limit, end_ns=1_700_000_000_000_000_000)
    note_end(tmp_path, noted)
    assert end_noted(empty_log(tmp_path)) == noted


def test_a_status_is_read_back(tmp_path: Path) -> None:
    """Of a program that failed by itself."""
    note_end(tmp_path, EndedBy(exit_status=3))
    assert end_noted(empty_log(tmp_path)) == EndedBy(exit_status=3)


def empty_log(folder: Path) -> LogFolder:
    """The event log of a process that recorded nothing."""
    (folder / EVENT_LOG_DIRECTORY).mkdir()
    return LogFolder(folder)


@pytest.mark.parametrize("text", ["", "SIGNONE\n", "SIGKILL\nrubbish\n", "status x\nat 1e9\n", "\xff" * 4096])
def test_a_damaged_note(text: str, tmp_path: Path) -> None:
    """Says as much as is known."""
    (tmp_path / "ended_by").write_text(text, encoding="latin-1")
    noted = end_noted(empty_log(tmp_path))
    assert noted == EndedBy("SIGKILL" if text.startswith("SIGKILL") else "")
